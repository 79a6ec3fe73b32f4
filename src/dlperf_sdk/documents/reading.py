"""Reading of files from outside as plain data. Nothing in a file is executed.

Importing this module imports no parser: those of TOML and YAML are imported with the first file of their kind.
"""

from __future__ import annotations

import json
import os
import re
import stat
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from dlperf_sdk.documents.json_values import DEEPEST, check_plain, format_value
from dlperf_sdk.errors import DocumentError
from dlperf_sdk.worker.json_memory import excess_memory

LARGEST_SPEC = 1024 * 1024
"""Maximum size in bytes of a file that was written by hand or by a generator of campaigns."""
LARGEST_RESULT = 144 * 1024 * 1024
"""Maximum size in bytes of a file that dlperf-sdk wrote, with every step's time of thousands of ranks."""

_LARGEST_BY_HAND = 256 * 1024
"""Maximum size in bytes of a file in TOML or YAML, whose parsers take 20 to 100 times as long as that of JSON."""
_MOST_MEMORY = 448 * 1024 * 1024
"""Maximum memory in bytes for a document in JSON: its bytes, its text, and its values."""
_PART = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_DEEP_KEY = re.compile(rf"""(?<![A-Za-z0-9_-]){_PART}(?:[ \t]*\.[ \t]*{_PART}){{{DEEPEST}}}""")
"""A key of TOML with more parts than any document has levels. Its parser takes time that is quadratic in the parts."""


def load_document(path: Path, limit: int = LARGEST_SPEC) -> dict[str, Any]:
    """Read a file as plain data: JSON, TOML or YAML, by its suffix.

    JSON is strict: no NaN, no key twice. YAML is limited to what JSON can express: no tags, no anchors or aliases, no
    key twice; `yes`, `010` and `2020-01-01` are text.

    Args:
        path: The file. Its suffix is `.json`, `.toml`, `.yaml` or `.yml`, in lower or upper case.
        limit: Maximum size in bytes. For TOML and YAML a lower limit applies as well.

    Raises:
        DocumentError: The suffix is another one; the file cannot be read, is not a regular file, is too large, would
            need too much memory, is not text in UTF-8, cannot be parsed (the message begins with FILE:LINE), is nested
            too deeply, holds a value that JSON does not have, or has no object at its top.
    """
    parse = _PARSERS.get(path.suffix.lower())
    if parse is None:
        suffix = f"the suffix {path.suffix}" if path.suffix else "no suffix"
        reason = f"has {suffix}" if path.is_file() else "is a folder" if path.is_dir() else "is not a file"
        reason = reason if path.exists() else "does not exist"
        raise DocumentError(f"{path} {reason}; a document is a file that ends in .json, .toml or .yaml.")
    data = read_file(path, limit if parse is _json else min(limit, _LARGEST_BY_HAND))
    if parse is _json:
        check_memory(data, str(path))
    text = _text(data, str(path))
    try:
        document = parse(text)
    except RecursionError:
        raise DocumentError(f"{path} is nested too deeply.") from None
    except _Misread as error:
        raise DocumentError(f"{path}:{error.line}: This is not valid {error}.") from None
    if document is None:
        raise DocumentError(f"{path}:1: The document is empty; it must contain names and their values.")
    check_plain(document, str(path))
    if not isinstance(document, dict):
        raise DocumentError(
            f"{path}:1: The file must hold an object (names and their values); it holds {format_value(document)}."
        )
    return document


def parse_json(data: bytes, source: str) -> Any:
    """Parse strict JSON in UTF-8, and return its value, of any type.

    Args:
        data: The text.
        source: Name of the document in messages.

    Raises:
        DocumentError: The text is not UTF-8 or not JSON, has a key twice, contains NaN, an infinity or too large a
            number, is nested too deeply, or would need too much memory.
    """
    check_memory(data, source)
    try:
        value = _json(_text(data, source))
    except RecursionError:
        raise DocumentError(f"{source} is nested too deeply.") from None
    except _Misread as error:
        raise DocumentError(f"{source} is not valid {error}, in line {error.line}.") from None
    check_plain(value, source)
    return value


def unpack_gzip(data: bytes, limit: int, source: str) -> bytes:
    """Return the content of a file that is compressed with gzip. No more than `limit` bytes are unpacked.

    Args:
        data: The file.
        limit: Maximum size of the content in bytes.
        source: Name of the file in messages.

    Raises:
        DocumentError: The file is damaged or cut off, or its content is larger.
    """
    stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        content = stream.decompress(data, limit + 1)
    except zlib.error as error:
        raise DocumentError(f"{source} is not valid gzip: {error}.") from None
    if len(content) > limit:
        raise DocumentError(
            f"{source} is larger than {limit} bytes when unpacked; a file of its kind is not."
        )
    if not stream.eof:
        raise DocumentError(f"{source} is cut off: its compressed content has no end.")
    return content


def check_memory(data: bytes, source: str) -> None:
    """Check, before a JSON document is parsed, that it does not need too much memory.

    The estimate counts the bytes, the text that they are decoded to, and the parsed values, one of which may contain
    all of the text.

    Args:
        data: The document's text.
        source: Name of the document in messages.

    Raises:
        DocumentError: It would need more than 448 MiB.
    """
    memory = excess_memory(data, _MOST_MEMORY)
    if memory:
        raise DocumentError(
            f"{source} would take about {memory // 2**20} MiB of memory when read; a document may take "
            f"{_MOST_MEMORY // 2**20} MiB."
        )


class _Misread(Exception):
    """A text that a parser refuses, with the kind of document, the reason, and the line, counted from 1."""

    def __init__(self, kind: str, reason: str, line: int) -> None:
        super().__init__(f"{kind}: {reason}")
        self.line = line


def _json(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_reject_duplicates, parse_constant=_reject_constant)
    except json.JSONDecodeError as error:
        reason = error.msg if text.strip() else "there is nothing in it"
        raise _Misread(
            "JSON", f"{reason[:1].lower()}{reason[1:]} at column {error.colno}", error.lineno
        ) from None
    except ValueError as error:
        from dlperf_sdk.documents import source_positions

        if isinstance(error, _DuplicateKey):
            key, line = source_positions.find_repeated_key(text)
            raise _Misread("JSON", f"the key {format_value(key)} is there twice", line) from None
        raise _Misread(
            "JSON", _without_advice(error), source_positions.line_of_invalid_number(text)
        ) from None


def _without_advice(error: ValueError) -> str:
    """Return the error's message, without Python's advice to raise its limit of digits."""
    return str(error).partition("; use sys.set_int_max_str_digits")[0]


def _toml(text: str) -> Any:
    import tomllib

    deep = _DEEP_KEY.search(text)
    if deep is not None:
        line = text.count("\n", 0, deep.start()) + 1
        raise _Misread("TOML", f"a key is nested more than {DEEPEST} deep", line)
    try:
        return tomllib.loads(text)
    except ValueError as error:
        reason, last = _without_advice(error), text.count("\n") + 1
        match = re.search(r" \(at line ([0-9]+), (column [0-9]+)\)$", reason)
        if match is None:  # at the end of the document, or a number with too many digits
            raise _Misread("TOML", reason, last) from None
        raise _Misread("TOML", f"{reason[: match.start()]} at {match[2]}", int(match[1])) from None


def _yaml(text: str) -> Any:
    import yaml

    from dlperf_sdk.documents.yaml_subset import PlainLoader

    try:
        return yaml.load(text, PlainLoader)  # noqa: S506 - it is stricter than the safe loader
    except yaml.MarkedYAMLError as error:
        reason, mark, start = error.problem or "it cannot be read", error.problem_mark, error.context_mark
        if mark is not None:
            reason += f" at column {mark.column + 1}"
        if error.context is not None and start is not None:
            reason += f", {error.context} that begins in line {start.line + 1}"
        position = mark or start
        raise _Misread("YAML", reason, 1 if position is None else position.line + 1) from None
    except yaml.reader.ReaderError as error:
        reason = f"it contains the character U+{ord(text[error.position]):04X}, which YAML does not allow"
        raise _Misread("YAML", reason, text.count("\n", 0, error.position) + 1) from None


_PARSERS: dict[str, Callable[[str], Any]] = {
    ".json": _json,
    ".toml": _toml,
    ".yaml": _yaml,
    ".yml": _yaml,
}


def open_file(path: Path) -> BinaryIO:
    """Return a regular file, opened for reading bytes; the caller closes it.

    Links are followed. Opening a named pipe does not wait for its writer.

    Raises:
        DocumentError: The file cannot be opened, or is not a regular file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise DocumentError(f"{path} cannot be read: {reason}.") from None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise DocumentError(f"{path} is not a file, but a directory, a pipe or a device.")


def read_file(path: Path, limit: int) -> bytes:
    """Return the content of a regular file.

    Args:
        path: The file. Links are followed.
        limit: Maximum size of the content in bytes.

    Raises:
        DocumentError: The file cannot be read, is not a regular file, or is larger than `limit` bytes.
    """
    try:
        with open_file(path) as file:
            # Python allocates as many bytes as are requested: not more than the file has, unless it grows.
            size = os.fstat(file.fileno()).st_size
            data = file.read(min(size, limit) + 1)
            if len(data) > size:
                data += file.read(max(0, limit + 1 - len(data)))
    except OSError as error:
        raise DocumentError(f"{path} cannot be read: {error.strerror}.") from None
    if len(data) > limit:
        raise DocumentError(f"{path} is larger than {limit} bytes; a document of its kind is not.")
    return data


def _text(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DocumentError(f"{source} is not text in UTF-8: byte {error.start} cannot be decoded.") from None


class _DuplicateKey(ValueError):
    """An object of JSON names a key twice."""


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise _DuplicateKey
    return value


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
