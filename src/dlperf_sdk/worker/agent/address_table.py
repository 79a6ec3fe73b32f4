"""The nodes' addresses and ports in a few bytes per node: every node gets all of them.

Identifiers of devices would be most of it, and no other node needs them. Each node gets those of its own machine, and
node 0 all of them: a trainer there may record replicas on other nodes.
"""

import base64
import json
import zlib
from itertools import accumulate
from typing import Any, Dict, List, Mapping, Sequence


def compress(nodes: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of nodes, each with `host`, `ports`, `interface` and `devices`, without the identifiers."""
    columns = {
        "hosts": [node["host"] for node in nodes],
        "interfaces": [node["interface"] for node in nodes],
        "device_counts": [len(node["devices"]) for node in nodes],
        # Ports of a node mostly follow each other: their distances are the same everywhere.
        "first_ports": [int(node["ports"][0]) for node in nodes],
        "port_steps": [_steps([int(port) for port in node["ports"]]) for node in nodes],
    }
    return base64.b85encode(zlib.compress(json.dumps(columns, separators=(",", ":")).encode(), 9)).decode()


def expand(table: str, devices: Mapping[str, Sequence[str]]) -> List[Dict[str, Any]]:
    """Return the nodes of a table.

    Args:
        table: The value of `compress`.
        devices: Node, as a text → the identifiers of its devices; those of other nodes are empty texts.
    """
    columns = json.loads(zlib.decompress(base64.b85decode(table)).decode())
    return [
        {
            "host": host,
            "interface": columns["interfaces"][node],
            "ports": [
                str(port) for port in accumulate([columns["first_ports"][node]] + columns["port_steps"][node])
            ],
            "devices": list(devices.get(str(node), [""] * columns["device_counts"][node])),
        }
        for node, host in enumerate(columns["hosts"])
    ]


def _steps(ports: List[int]) -> List[int]:
    return [later - earlier for earlier, later in zip(ports, ports[1:])]
