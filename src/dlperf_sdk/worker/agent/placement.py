"""A node's placement among the nodes: from the variables that the launcher sets, or from the command line."""

import itertools
import re
from typing import List, Mapping, NamedTuple, Optional, Union

_PIECE = re.compile(r"([^\[]+)|(\[[^\]]*\])")
_DIGITS = 18
_RANGE = re.compile("([0-9]{1,%d})(?:-([0-9]{1,%d}))?" % (_DIGITS, _DIGITS))
_MAX_HOSTS = 100000
_LONGEST = 253


class _Numbers(NamedTuple):
    """The numbers that `07-09` stands for."""

    numbers: range
    digits: int
    """The least number of digits, zeros in front included."""


_Piece = Union[str, List[_Numbers]]
"""A part of a host's name: text, or the numbers in brackets."""


class Placement(NamedTuple):
    """A node's number, and the hosts of nodes 0, 1, …."""

    node: int
    hosts: List[str]
    """Names or addresses of nodes 0, 1, …, in this order: of at least two if the case has so many."""


def resolve_placement(node: str, hosts: str, count: int, variables: Mapping[str, str]) -> Placement:
    """Return the placement that an agent's arguments describe.

    Args:
        node: The node's number, or `$NAME` of the launcher's variable that holds it.
        hosts: The hosts of the nodes, from node 0 on, as a list that `expand_hosts` takes; or `$NAME` of the variable
            that holds it. Hosts of later nodes may be missing.
        count: The number of nodes.
        variables: The agent's environment variables.

    Raises:
        ValueError: A variable is not set, the node's number is malformed or not below `count`, or `expand_hosts`
            rejects the list of hosts.
    """
    number, host_list = _resolve_variable(node, variables), _resolve_variable(hosts, variables)
    if not re.fullmatch("[0-9]{1,6}", number):
        raise ValueError("expected the number of a node in %s, got %r" % (node, number))
    names = expand_hosts(host_list)
    if int(number) >= count:
        raise ValueError("node %s is not among the %d nodes, on %s" % (number, count, host_list))
    return Placement(int(number), names)


def _resolve_variable(text: str, variables: Mapping[str, str]) -> str:
    if not text.startswith("$"):
        return text
    value: Optional[str] = variables.get(text[1:])
    if value is None:
        raise ValueError("the launcher has not set the variable %s" % text[1:])
    return value


def expand_hosts(hosts: str) -> List[str]:
    """Return the names of a host list, such as `n[1-3,07-09],login` in Slurm's form or plain with commas.

    Numbers keep their leading zeros. The names have the order of the list, and a name that occurs twice is returned
    twice.

    Raises:
        ValueError: The text is not of this form, names more than 100,000 hosts, or has a name that could be longer
            than 253 characters.
    """
    parts = [_parse_name(part) for part in _split(hosts)]
    if sum(_count(pieces) for pieces in parts) > _MAX_HOSTS:
        raise ValueError("%r names more than %d hosts" % (hosts[:100], _MAX_HOSTS))
    return ["".join(name) for pieces in parts for name in itertools.product(*map(_choices, pieces))]


def _split(hosts: str) -> List[str]:
    """Split a host list at the commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for index, letter in enumerate(hosts + ","):
        depth += {"[": 1, "]": -1}.get(letter, 0)
        if depth not in (0, 1):
            raise ValueError("%r has brackets that do not match" % hosts[:100])
        if letter == "," and not depth:
            parts.append(hosts[start:index])
            start = index + 1
    if depth or not all(parts):
        raise ValueError("%r is not a list of hosts" % hosts[:100])
    return parts


def _parse_name(part: str) -> List[_Piece]:
    """Split a name into text and brackets, in their order."""
    pieces: List[_Piece] = []
    for text, inside in _PIECE.findall(part):
        pieces.append([_parse_range(item) for item in inside[1:-1].split(",")] if inside else text)
    if sum(len(piece) if isinstance(piece, str) else _DIGITS for piece in pieces) > _LONGEST:
        raise ValueError("%r names hosts by more than %d letters" % (part[:100], _LONGEST))
    return pieces


def _parse_range(item: str) -> _Numbers:
    match = _RANGE.fullmatch(item)
    if not match:
        raise ValueError("%r is not a range of numbers" % item[:100])
    first, last = match.group(1), match.group(2) or match.group(1)
    if int(last) < int(first):
        raise ValueError("%r counts backwards" % item[:100])
    return _Numbers(range(int(first), int(last) + 1), len(first))


def _count(pieces: List[_Piece]) -> int:
    count = 1
    for piece in pieces:
        if not isinstance(piece, str):
            count *= sum(len(part.numbers) for part in piece)
    return count


def _choices(piece: _Piece) -> List[str]:
    if isinstance(piece, str):
        return [piece]
    return [str(number).zfill(part.digits) for part in piece for number in part.numbers]
