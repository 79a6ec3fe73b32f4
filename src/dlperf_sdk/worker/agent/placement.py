"""Which node this is, and who the others are: from the variables that the launcher sets, or from the command line."""

import itertools
import re
from typing import List, Mapping, NamedTuple, Optional, Union

_PIECE = re.compile(r"([^\[]+)|(\[[^\]]*\])")
_DIGITS = 18
_RANGE = re.compile("([0-9]{1,%d})(?:-([0-9]{1,%d}))?" % (_DIGITS, _DIGITS))
_MOST = 100000
_LONGEST = 253


class _Numbers(NamedTuple):
    """What `07-09` stands for."""

    numbers: range
    digits: int
    """With zeros in front, at least so many."""


_Piece = Union[str, List[_Numbers]]
"""Of a host's name: text, or the numbers in brackets, one of which stands there."""


class Placement(NamedTuple):
    """A node among the nodes."""

    node: int
    hosts: List[str]
    """A name or address of each node, in their order."""


def placed(node: str, hosts: str, variables: Mapping[str, str]) -> Placement:
    """`node` is a number, or `$NAME` of the launcher's variable that holds it; `hosts` a list, or `$NAME` likewise.

    Raises:
        ValueError: the variable is not there, or holds something else.
    """
    number, listed = _told(node, variables), _told(hosts, variables)
    if not re.fullmatch("[0-9]{1,6}", number):
        raise ValueError("%s is %r, and no node's number" % (node, number))
    found = expand(listed)
    if int(number) >= len(found):
        raise ValueError("this is node %s, and the hosts are only %s" % (number, listed))
    return Placement(int(number), found)


def _told(text: str, variables: Mapping[str, str]) -> str:
    if not text.startswith("$"):
        return text
    value: Optional[str] = variables.get(text[1:])
    if value is None:
        raise ValueError("the launcher has not set the variable %s" % text[1:])
    return value


def expand(hosts: str) -> List[str]:
    """The names in Slurm's short form: `n[1-3,07-09],login` or a plain list with commas.

    Raises:
        ValueError: it is not of this form, or would be too many names or too long ones, which is found out before any
            is made.
    """
    parts = [_taken_apart(part) for part in _split(hosts)]
    if sum(_count(pieces) for pieces in parts) > _MOST:
        raise ValueError("%r names more than %d hosts" % (hosts[:100], _MOST))
    return ["".join(name) for pieces in parts for name in itertools.product(*map(_choices, pieces))]


def _split(hosts: str) -> List[str]:
    """At the commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(hosts + ","):
        depth += {"[": 1, "]": -1}.get(letter, 0)
        if depth not in (0, 1):
            raise ValueError("%r has brackets that do not match" % hosts[:100])
        if letter == "," and not depth:
            parts.append(hosts[start:at])
            start = at + 1
    if depth or not all(parts):
        raise ValueError("%r is no list of hosts" % hosts[:100])
    return parts


def _taken_apart(part: str) -> List[_Piece]:
    """Text and brackets in turn, in their order."""
    pieces: List[_Piece] = []
    for text, inside in _PIECE.findall(part):
        pieces.append([_numbers(item) for item in inside[1:-1].split(",")] if inside else text)
    if sum(len(piece) if isinstance(piece, str) else _DIGITS for piece in pieces) > _LONGEST:
        raise ValueError("%r names hosts by more than %d letters" % (part[:100], _LONGEST))
    return pieces


def _numbers(item: str) -> _Numbers:
    match = _RANGE.fullmatch(item)
    if not match:
        raise ValueError("%r is no range of numbers" % item[:100])
    first, last = match.group(1), match.group(2) or match.group(1)
    if int(last) < int(first):
        raise ValueError("%r counts backwards" % item[:100])
    return _Numbers(range(int(first), int(last) + 1), len(first))


def _count(pieces: List[_Piece]) -> int:
    found = 1
    for piece in pieces:
        if not isinstance(piece, str):
            found *= sum(len(each.numbers) for each in piece)
    return found


def _choices(piece: _Piece) -> List[str]:
    if isinstance(piece, str):
        return [piece]
    return [str(number).zfill(each.digits) for each in piece for number in each.numbers]
