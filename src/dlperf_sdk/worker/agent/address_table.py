"""Send the nodes' addresses and ports to every node in a few bytes per node.

Identifiers of devices would take most of the bytes, and other nodes do not need them. Each node gets those of its
own machine. Node 0 gets all of them: a trainer there may record replicas on other nodes.
"""

import base64
import json
import zlib
from itertools import accumulate
from typing import Any, Dict, List, Mapping, Sequence


def compress(nodes: Sequence[Mapping[str, Any]]) -> str:
    """Return the nodes as a compressed text, which `expand` reads.

    The text holds the number of each node's devices, but not the devices' identifiers.

    Args:
        nodes: Each node's `host`, `interface`, `ports` (at least one, each a text of digits) and `devices`.
    """
    columns = {
        "hosts": [node["host"] for node in nodes],
        "interfaces": [node["interface"] for node in nodes],
        "device_counts": [len(node["devices"]) for node in nodes],
        # Ports of a node mostly follow each other, so the steps are the same for all nodes, and compress well.
        "first_ports": [int(node["ports"][0]) for node in nodes],
        "port_steps": [_steps([int(port) for port in node["ports"]]) for node in nodes],
    }
    return base64.b85encode(zlib.compress(json.dumps(columns, separators=(",", ":")).encode(), 9)).decode()


def expand(table: str, devices: Mapping[str, Sequence[str]]) -> List[Dict[str, Any]]:
    """Return the nodes of a compressed text, each with `host`, `ports`, `interface` and `devices`.

    Args:
        table: The text that `compress` returned.
        devices: The devices' identifiers of each node, by the node's number in digits. The devices of a node that is
            missing here become empty texts, one per device.
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
