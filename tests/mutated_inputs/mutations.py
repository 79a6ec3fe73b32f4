"""Mutations of valid inputs, which follow from a seed: of their bytes, their structure, and the members of archives."""

from __future__ import annotations

import copy
import io
import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

COMMAND = "touch EXECUTED"
"""Where a file of this name appears, an input was executed."""
TEXTS = (
    *(
        "",
        " ",
        "\0",
        "\ud800",
        "\x1b[2J\x1b]0;x\x07",
        "x" * 300,
        "é" * 200,
        "0",
        "-1",
        "1e999",
        "nan",
        "%s%n{0}",
    ),
    *(
        "../../../outside",
        "/etc/passwd",
        "~root",
        "..",
        "a/b",
        "-oProxyCommand=" + COMMAND,
        "/dev/zero",
        "/dev/stdin",
    ),
    *(
        f"$({COMMAND})",
        f"`{COMMAND}`",
        f"; {COMMAND} #",
        f"=cmd|'{COMMAND}'!A1",
        "{{7*7}}",
        "${HOME}",
        "a.b.c",
    ),
    *("__import__('os').system('" + COMMAND + "')", "!!python/object/apply:os.system ['" + COMMAND + "']"),
    *(
        "os:system",
        "<script>alert(1)</script>",
        "1n1d",
        "999999n999999d@ssh",
        "2026-02-30T25:61:61Z",
        "images:/",
    ),
)
VALUES = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**400, 0.5, -0.0, 1e308, 5e-324),
    *([], {}, [[]], [None], {"": None}, [0] * 100, {"a": {"b": {"c": []}}}, ["x", 1], *TEXTS),
)
BYTES = (
    *(
        b"\0",
        b"\xff\xfe",
        b"\xed\xa0\x80",
        b"\n",
        b"\r",
        b'"',
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"=",
        b"'",
        b"#",
    ),
    *(
        b"NaN",
        b"Infinity",
        b"-Infinity",
        b"1e999",
        b"9" * 5000,
        b"&a [*a, *a]",
        b"<<: *a",
        b"!!python/name:os.system x",
    ),
    *(
        b"- " * 200,
        b"[" * 2000,
        b'{"a":' * 200,
        b"a." * 40_000,
        b"''' ",
        b'""" ',
        b"\t",
        b"[[a]]\n" * 500,
        b"%",
        b"?",
    ),
    *(text.encode("utf-8", "surrogatepass") for text in TEXTS),
)
GROWTH = 512 * 1024
"""Bytes that a repeated part may have."""


def mutated(data: bytes, format: str, random: random.Random) -> bytes:
    """Return a mutated input. One in four has several mutations."""
    mutations = (_mutated_bytes, _FORMATS.get(format, _mutated_bytes))
    for _ in range(1 if random.random() < 0.75 else random.randint(2, 6)):
        try:
            data = random.choice(mutations)(data, random)
        except Exception:
            data = _mutated_bytes(data, random)  # an earlier mutation has left nothing to parse
    return data


def _mutated_bytes(data: bytes, random: random.Random) -> bytes:
    begin, end = sorted(random.randrange(len(data) + 1) for _ in range(2))
    end = min(end, begin + random.choice((1, 8, 64, len(data))))
    kind = random.randrange(9)
    if kind == 0:
        return data[:begin]
    if kind == 1:
        return data[:begin] + data[end:]
    if kind == 2:
        return data[:begin] + random.randbytes(end - begin) + data[end:]
    if kind in (3, 4):
        return data[:begin] + random.choice(BYTES) + data[end if kind == 3 else begin :]
    if kind == 5:
        part = data[begin:end] or b" "
        return data[:begin] + part * random.choice((2, 3, max(2, GROWTH // len(part)))) + data[end:]
    if kind == 6 and data:
        at = random.randrange(len(data))
        return data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]
    lines = data.split(b"\n")
    one, other = (random.randrange(len(lines)) for _ in range(2))
    if kind == 7:
        lines[one], lines[other] = lines[other], lines[one]
    else:
        lines.insert(one, lines[other])
    return b"\n".join(lines)


def changed_value(document: Any, random: random.Random) -> Any:
    """Return a document in which one place has another value or another key, is repeated, or is gone."""
    top = [document]
    holder: Any = top
    key: Any = 0
    while isinstance(holder[key], dict | list) and holder[key] and random.random() < 0.85:
        holder = holder[key]
        key = random.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    value, kind = holder[key], random.randrange(7)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, dict):
        holder[random.choice(TEXTS)] = holder.pop(key)
    elif kind == 2 and isinstance(holder, list):
        holder.extend([value] * random.choice((1, 3, 200)))
    elif kind == 3 and isinstance(value, int | float) and not isinstance(value, bool):
        holder[key] = random.choice(
            (-value, value + 1, value * 2, value * 1e9, value / 3, str(value), [value])
        )
    elif kind == 4:
        for _ in range(random.choice((1, 10, 70))):
            holder[key] = [holder[key]] if random.random() < 0.5 else {"a": holder[key]}
    elif kind == 5 and isinstance(value, dict):
        value[random.choice(("extra", "schema_version", *TEXTS))] = copy.deepcopy(random.choice(VALUES))
    else:
        holder[key] = copy.deepcopy(random.choice(VALUES))
    return top[0] if top else {}


def _mutated_json(data: bytes, random: random.Random) -> bytes:
    text = json.dumps(changed_value(json.loads(data), random), indent=random.choice((None, 1)))
    return text.encode() + b"\n"


def _mutated_json_lines(data: bytes, random: random.Random) -> bytes:
    lines = data.splitlines()
    at = random.randrange(len(lines))
    lines[at] = json.dumps(changed_value(json.loads(lines[at]), random)).encode()
    return b"\n".join(lines) + b"\n"


def _mutated_yaml(data: bytes, random: random.Random) -> bytes:
    document = changed_value(yaml.safe_load(data), random)
    return yaml.safe_dump(document, allow_unicode=random.random() < 0.5).encode("utf-8", "surrogatepass")


def _mutated_toml(data: bytes, random: random.Random) -> bytes:
    import tomllib

    document = changed_value(tomllib.loads(data.decode()), random)
    return to_toml(document).encode("utf-8", "surrogatepass")


def to_toml(document: Any) -> str:
    """Return a document as TOML with inline values; `null`, which TOML lacks, as a text."""
    if not isinstance(document, dict):
        return _inline(document)
    return "".join(f"{json.dumps(name)} = {_inline(value)}\n" for name, value in document.items())


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {_inline(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return json.dumps("null" if value is None else value)


def _mutated_archive(data: bytes, random: random.Random) -> bytes:
    """Change a member, or the name of one."""
    result = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(result, "w") as archive:
        names = source.namelist()
        chosen = random.choice(
            [name for name in names if name.endswith(".json")] if random.random() < 0.7 else names
        )
        for name in dict.fromkeys(names):
            content = source.read(name)
            if name != chosen:
                archive.writestr(name, content)
            elif random.random() < 0.2:
                archive.writestr(
                    random.choice(("../outside", "/outside", "a/../../outside", name + "/")), content
                )
            elif random.random() < 0.9:
                archive.writestr(name, mutated(content, Path(name).suffix[1:], random))
    return result.getvalue()


_FORMATS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "json": _mutated_json,
    "jsonl": _mutated_json_lines,
    "yaml": _mutated_yaml,
    "toml": _mutated_toml,
    "zip": _mutated_archive,
}
