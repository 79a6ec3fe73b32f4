"""`man`: the manual page of `dlperf`, from the same app as its help texts."""

from __future__ import annotations

import re
from collections.abc import Iterator

import dlperf_sdk
from dlperf_sdk.cli.output import write_text
from dlperf_sdk.cli.screen import command

_BULLET = re.compile(r"\s*[*-] `([^`]+)`:? ?(.*)")
_NAME = "Verified training\\-throughput benchmarks for deep\\-learning frameworks"


@command
def man() -> int:
    """Print the manual page of dlperf.

    `dlperf man > ~/.local/share/man/man1/dlperf.1`, then `man dlperf`.
    """
    from dlperf_sdk.cli.app import EXIT_CODES, build_app

    markdown = build_app().generate_docs(output_format="markdown")
    lines = [
        f'.TH DLPERF 1 "" "dlperf-sdk {dlperf_sdk.__version__}"',
        f".SH NAME\ndlperf \\- {_NAME}",
        ".SH SYNOPSIS\n.B dlperf\nCOMMAND [OPTIONS] [ARGS]",
        ".SH COMMANDS",
        *_translate(markdown[markdown.index("## dlperf run") :]),
        f".SH EXIT STATUS\n{_escape(EXIT_CODES.removeprefix('Exit codes: '))}",
    ]
    write_text("\n".join(lines) + "\n")
    return 0


def _translate(markdown: str) -> Iterator[str]:
    """Translate the Markdown that cyclopts generates: headings, fences, lists of flags and paragraphs."""
    is_fenced = False
    for line in markdown.splitlines():
        if line.startswith("```"):
            is_fenced = not is_fenced
        elif is_fenced:
            yield f".P\n.B {_escape(line)}"
        elif line.startswith("#"):
            yield f".SS {_escape(line.lstrip('# '))}"
        elif bullet := _BULLET.fullmatch(line):
            yield f".TP\n.B {_escape(bullet[1])}\n{_format(bullet[2])}"
        elif heading := re.fullmatch(r"\*\*(.+)\*\*:", line):
            yield f".P\n{_escape(heading[1])}:"
        elif line.strip():
            yield _format(line.strip())
        else:
            yield ".P"


def _format(text: str) -> str:
    """Translate a line of text: code becomes bold, and emphasis is plain."""
    plain = re.sub(r"\*{1,2}(\[[^*]*\])\*{1,2}", r"\1", text)
    return re.sub(r"`([^`]+)`", r"\\fB\1\\fR", _escape(plain))


def _escape(text: str) -> str:
    r"""Escape what roff would interpret: backslashes, hyphens, and a control character at the start of a line."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
