"""Which node this is, and who the others are: from the variables that the engine sets, or from the command line."""

import re
from typing import List, Mapping, NamedTuple, Optional

_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?")
_MOST = 100000


class Placement(NamedTuple):
    """A node among the nodes."""

    node: int
    hosts: List[str]
    """A name or address of each node, in their order."""


def placed(node: str, hosts: str, variables: Mapping[str, str]) -> Placement:
    """`node` is a number, or `$NAME` of the engine's variable that holds it; `hosts` a list, or `$NAME` likewise.

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
        raise ValueError("the engine has not set the variable %s" % text[1:])
    return value


def expand(hosts: str) -> List[str]:
    """The names in Slurm's short form: `n[1-3,07-09],login` or a plain list with commas.

    Raises:
        ValueError: it is not of this form.
    """
    found: List[str] = []
    for part in _split(hosts):
        found += _expanded(part)
        if len(found) > _MOST:
            raise ValueError("%r names more than %d hosts" % (hosts[:100], _MOST))
    return found


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


def _expanded(part: str) -> List[str]:
    before, bracket, rest = part.partition("[")
    if not bracket:
        return [part]
    inside, _, after = rest.partition("]")
    found = []
    for item in inside.split(","):
        match = _RANGE.fullmatch(item)
        if not match:
            raise ValueError("%r in %r is no range of numbers" % (item[:100], part[:100]))
        first, last = match.group(1), match.group(2) or match.group(1)
        if int(last) - int(first) >= _MOST:
            raise ValueError("%r names more than %d hosts" % (part[:100], _MOST))
        numbers = [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
        found += (
            [before + number + tail for number in numbers for tail in _expanded(after)]
            if after
            else [before + number for number in numbers]
        )
    return found
