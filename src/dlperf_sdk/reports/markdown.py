"""Blocks as Markdown, the format of `report.md`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from dlperf_sdk.documents.json_values import replace_control_characters
from dlperf_sdk.reports.blocks import Block, Heading, Labels, Notes, Paragraph, Table, Verbatim

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~&])")
_OPENING = re.compile(r"^(?:[-+=]|[0-9]{1,9}(?=[.)]))")
"""Characters that begin a list, or a line below a heading, at the start of a paragraph."""


def text_of(blocks: Iterable[Block]) -> str:
    """Return blocks as a Markdown document with tables in GitHub's syntax. The texts of the blocks are escaped."""
    return "\n\n".join(_render(block) for block in blocks) + "\n"


def _render(block: Block) -> str:
    match block:
        case Heading():
            suffix = f" ({_escape(block.aside.text)})" if block.aside.text else ""
            return f"## {_escape(block.text)}{suffix}"
        case Paragraph():
            return _OPENING.sub(_escape_opening, _escape(block.text))
        case Labels():
            return "\n".join(f"- **{_escape(label)}**: {_escape(value.text)}" for label, value in block.pairs)
        case Table():
            return _table(block)
        case Notes():
            return "\n".join(
                f"- \\[{number}\\] {_escape(note)}" for number, note in enumerate(block.texts, 1)
            )
        case Verbatim():
            return _verbatim(block)


def _verbatim(block: Verbatim) -> str:
    """Put text between fences that are longer than any in the text."""
    title, text = (
        f"**{_escape(block.title)}**\n\n" if block.title else "",
        replace_control_characters(block.text),
    )
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{title}{fence}\n{text}\n{fence}"


def _table(block: Table) -> str:
    lines = [f"**{_escape(block.title)}**\n"] if block.title else []
    lines.append(_row(_escape(column.title) for column in block.columns))
    lines.append(_row(("---:" if column.right else "---") for column in block.columns))
    lines += [_row(_escape(cell.text) for cell in row) for row in block.rows]
    return "\n".join(lines)


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _escape_opening(match: re.Match[str]) -> str:
    sign = match[0]
    return f"{sign}\\" if sign.isdecimal() else f"\\{sign}"


def _escape(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", " ".join(replace_control_characters(text).split()))
