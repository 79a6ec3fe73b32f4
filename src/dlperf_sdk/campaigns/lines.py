"""Where in a file a key stands: what makes an error message about a long file useful."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

Place = tuple[str | int, ...]

_HEADER = re.compile(r"\s*(\[\[?)\s*([A-Za-z0-9_.\-\"' ]+?)\s*\]\]?\s*(?:#.*)?")
_KEY = re.compile(r"\s*([A-Za-z0-9_\-.]+|\"[^\"]*\"|'[^']*')\s*=")


def lines_of(text: str, suffix: str) -> Mapping[Place, int]:
    """The line, counted from 1, of every key and list item of a document that has been read without complaint."""
    find: Callable[[str], Iterator[tuple[Place, int]]] = _of_toml if suffix == ".toml" else _of_yaml
    return dict(find(text))


def line_of(lines: Mapping[Place, int], place: Place) -> int:
    """The line of the key that `place` leads to, or of the nearest one around it."""
    for length in range(len(place), 0, -1):
        if place[:length] in lines:
            return lines[place[:length]]
    return 1


def said(path: Path | str, lines: Mapping[Place, int], place: Place) -> str:
    """`FILE:LINE`."""
    return f"{path}:{line_of(lines, place)}"


def _of_yaml(text: str) -> Iterator[tuple[Place, int]]:
    """JSON is written the same way, and read by it, too."""
    import yaml

    from dlperf_sdk.plain_yaml import PlainLoader

    root: Any = yaml.compose(text, PlainLoader)
    level: list[tuple[Place, Any]] = [((), root)]
    while level:
        deeper: list[tuple[Place, Any]] = []
        for place, node in level:
            if isinstance(node, yaml.MappingNode):
                for key, value in node.value:
                    yield (*place, key.value), key.start_mark.line + 1
                    deeper.append(((*place, key.value), value))
            elif isinstance(node, yaml.SequenceNode):
                for i, item in enumerate(node.value):
                    yield (*place, i), item.start_mark.line + 1
                    deeper.append(((*place, i), item))
        level = deeper


def _of_toml(text: str) -> Iterator[tuple[Place, int]]:
    """Tables and the keys that begin a line; what is written inline has the line of its key."""
    table: Place = ()
    counts: dict[Place, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        header = _HEADER.fullmatch(line)
        if header:
            table = ()
            names = [name.strip().strip("\"'") for name in header[2].split(".")]
            for i, name in enumerate(names):
                table = (*table, name)
                if header[1] == "[[" and i == len(names) - 1:
                    counts[table] = counts.get(table, -1) + 1
                if table in counts:
                    yield table, number
                    table = (*table, counts[table])
            yield table, number
            continue
        key = _KEY.match(line)
        if key:
            quoted = key[1][0] in "\"'"
            names = [key[1].strip("\"'")] if quoted else key[1].split(".")
            for i in range(1, len(names) + 1):
                yield (*table, *names[:i]), number
