"""Send the addresses, ports and interfaces of all nodes in a few bytes per node.

Only nodes whose processes need the addresses of others get the table. Identifiers of devices are not part of it: they
would take most of the bytes.
"""

import base64
import json
import zlib
from itertools import accumulate
from typing import Any, Dict, List, Mapping, Sequence


def compress(nodes: Sequence[Mapping[str, Any]]) -> str:
    """Return the nodes as a compressed text, which `expand` reads.

    Args:
        nodes: Each node's `host`, `interface` and `ports` (at least one, each a text of digits), in the order of the
            nodes' numbers, from 0.

    Returns:
        A text of ASCII characters (base 85).
    """
    columns = {
        "hosts": [node["host"] for node in nodes],
        "interfaces": [node["interface"] for node in nodes],
        # Ports of a node mostly follow each other, so the steps are the same for all nodes, and compress well.
        "first_ports": [int(node["ports"][0]) for node in nodes],
        "port_steps": [_steps([int(port) for port in node["ports"]]) for node in nodes],
    }
    return base64.b85encode(zlib.compress(json.dumps(columns, separators=(",", ":")).encode(), 9)).decode()


def expand(table: str) -> Dict[str, Dict[str, Any]]:
    """Return a dict from the number of each node, in digits, to its `host`, `interface` and `ports`.

    `ports` is a list of texts of digits, the others are texts.

    Args:
        table: The text that `compress` returned.
    """
    columns = json.loads(zlib.decompress(base64.b85decode(table)).decode())
    return {
        str(node): {
            "host": host,
            "interface": columns["interfaces"][node],
            "ports": [
                str(port) for port in accumulate([columns["first_ports"][node]] + columns["port_steps"][node])
            ],
        }
        for node, host in enumerate(columns["hosts"])
    }


def _steps(ports: List[int]) -> List[int]:
    return [later - earlier for earlier, later in zip(ports, ports[1:])]
