"""Lines of keys in a file, for error messages."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dlperf_sdk.documents.json_values import DEEPEST

Place = tuple[str | int, ...]
"""Keys and indexes that lead to a value, from the top of the document."""

_HEADER = re.compile(r"\s*(\[\[?)([A-Za-z0-9_.\-\"' \t]+)\]\]?\s*(?:#.*)?")
_KEY = re.compile(r"\s*([A-Za-z0-9_\-.]+|\"[^\"]*\"|'[^']*')\s*=")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_ODD = re.compile(r"NaN|-?Infinity|-?[0-9]{1000,}")


def lines_of(text: str, suffix: str) -> Mapping[Place, int]:
    """Return place → line, counted from 1, of the keys and list items of a document.

    A place is a tuple of the keys and indexes that lead to a value from the top of the document. The document itself,
    whose place is empty, has no line. In TOML, keys and items inside an inline value are left out.

    Args:
        text: The document, which has been parsed without errors.
        suffix: The file's suffix in lower case: `.toml`, `.json`, or any other for YAML.
    """
    find: Callable[[str], Iterator[tuple[Place, int]]] = {
        ".toml": _toml_positions,
        ".json": _json_positions,
    }.get(suffix, _yaml_positions)
    return dict(find(text))


def line_of(lines: Mapping[Place, int], place: Place) -> int:
    """Return the line, counted from 1, of a key or list item of a document.

    If its line is unknown, return that of the nearest enclosing key or item; 1 if there is none.

    Args:
        lines: Place → line of the document's keys and items, as `lines_of` returns them.
        place: The keys and indexes that lead to it from the top of the document.
    """
    for length in range(len(place), 0, -1):
        if place[:length] in lines:
            return lines[place[:length]]
    return 1


def location(path: Path | str, lines: Mapping[Place, int], place: Place) -> str:
    """Return `FILE:LINE` of a key or list item of a document.

    If its line is unknown, use that of the nearest enclosing key or item; 1 if there is none.

    Args:
        path: The file.
        lines: Place → line of the file's keys and items, as `lines_of` returns them.
        place: The keys and indexes that lead to it from the top of the document.
    """
    return f"{path}:{line_of(lines, place)}"


def find_repeated_key(text: str) -> tuple[str, int]:
    """Return the first key of a JSON text that its object already has, and the key's line, counted from 1.

    Raises:
        ValueError: There is no such key.
    """
    open_: list[set[str] | None] = []
    """The keys of every object that is open; None for an array."""
    is_start = False
    for item, line in _words(text):
        keys = open_[-1] if is_start and open_ and item != "}" else None
        if keys is not None:
            key = _unquote(item)
            if key in keys:
                return key, line
            keys.add(key)
        is_start = item in ("{", ",")
        if item in ("{", "["):
            open_.append(set() if item == "{" else None)
        elif item in ("}", "]") and open_:
            open_.pop()
    raise ValueError("no key is there twice")


def line_of_invalid_number(text: str) -> int:
    """Return the line, counted from 1, of the first invalid number in a JSON text; 1 without one.

    A number is invalid if it is NaN, infinite, or has at least a thousand digits.
    """
    return next((line for token, line in _words(text) if _ODD.fullmatch(token)), 1)


def _yaml_positions(text: str) -> Iterator[tuple[Place, int]]:
    import yaml

    from dlperf_sdk.documents.yaml_subset import PlainLoader

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


def _json_positions(text: str) -> Iterator[tuple[Place, int]]:
    """Yield places and lines, also of a text with an error further on."""
    open_: list[str | int] = []
    """Of every object and array that is open, the key or the index at hand."""
    fresh = False
    for item, line in _words(text):
        if fresh and open_ and item not in ("}", "]"):
            fresh, is_key = False, isinstance(open_[-1], str)
            if is_key:
                open_[-1] = _unquote(item)
            yield tuple(open_), line
            if is_key:
                continue
        if item in ("{", "["):
            open_.append("" if item == "{" else 0)
            fresh = True
        elif item in ("}", "]") and open_:
            open_.pop()
            fresh = False
        elif item == "," and open_:
            index = open_[-1]
            open_[-1] = index + 1 if isinstance(index, int) else index
            fresh = True


def _words(text: str) -> Iterator[tuple[str, int]]:
    """Yield the tokens of a JSON text, each with its line."""
    line, offset = 1, 0
    for token in _TOKEN.finditer(text):
        line += text.count("\n", offset, token.start())
        offset = token.start()
        yield token[0], line


def _unquote(token: str) -> str:
    try:
        return str(json.loads(token))
    except ValueError:
        return token


def _toml_positions(text: str) -> Iterator[tuple[Place, int]]:
    """Yield tables and the keys that begin a line; an inline value has the line of its key.

    A line of a text of several lines may look like either, with any number of dots: what is deeper than a document
    can be is left out.
    """
    table: Place = ()
    counts: dict[Place, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        header = _HEADER.fullmatch(line)
        if header:
            table = ()
            names = [name.strip().strip("\"'") for name in header[2].split(".", DEEPEST)][:DEEPEST]
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
            names = [key[1].strip("\"'")] if quoted else key[1].split(".", DEEPEST)[:DEEPEST]
            for i in range(1, len(names) + 1):
                yield (*table, *names[:i]), number
