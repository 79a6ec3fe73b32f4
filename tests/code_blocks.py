"""Fenced code blocks of Markdown pages, and how to execute them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from attrs import frozen

_FENCE = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```$", re.M | re.S)
_ELLIPSIS = "…"
PROGRAMS = Path(sys.executable).parent
LANGUAGES = {"console", "sh", "python", "yaml", "toml", "text"}
"""`console` shows commands after `$ ` with their output, `text` is not executable, all others are executed or saved."""


@frozen
class CodeBlock:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str

    @property
    def commands(self) -> list[str]:
        """The shell commands, one a line."""
        lines = self.text.splitlines()
        if self.language == "console":
            lines = [line[2:] for line in lines if line.startswith("$ ")]
        return [line for line in lines if line.strip()]

    @property
    def expected_output(self) -> list[str]:
        """The lines that a `console` block shows below its commands."""
        lines = self.text.splitlines() if self.language == "console" else []
        return [line for line in lines if line.strip() not in ("", _ELLIPSIS) and not line.startswith("$ ")]

    @property
    def file_name(self) -> str | None:
        """The name of the file that the block is, if its first line is a comment with just that name."""
        match = re.match(r"# (\w[\w.-]*\.\w+)\n", self.text)
        return match[1] if match else None

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks_of(page: Path) -> list[CodeBlock]:
    """Return the fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        CodeBlock(page, text.count("\n", 0, match.start()) + 1, match[1], match[2])
        for match in _FENCE.finditer(text)
    ]


def mask_numbers(line: str) -> str:
    """Return a line of output without what differs between two runs: numbers, unit prefixes and spacing."""
    line = re.sub(r"\b[kKMGT]i?(?=B\b|FLOP)", "", re.sub(r"-?\d[\d.,]*(e-?\d+)?", "#", line))
    return re.sub(r"\b[mµn]?s\b", "s", " ".join(line.split()))


def execute(block: CodeBlock, folder: Path, programs: Path = PROGRAMS) -> str:
    """Execute a block in a folder, or save it there, and return its standard output.

    Args:
        block: What is executed.
        folder: The current directory of its commands.
        programs: The folder of `python`, `pip` and `dlperf`.

    Raises:
        AssertionError: A command failed, or a line that the page shows is not in the output.
    """
    if block.file_name:
        (folder / block.file_name).write_text(block.text, encoding="utf-8")
        return ""
    if block.language == "python":
        return _output(block, ["python", "-c", block.text], folder, programs)
    output = "".join(
        _output(block, ["bash", "-euc", command], folder, programs) for command in block.commands
    )
    actual = {mask_numbers(line) for line in output.splitlines()}
    for line in block.expected_output:
        assert mask_numbers(line) in actual, f"{block}: the output has no line {line!r}:\n{output}"
    return output


def _output(block: CodeBlock, command: list[str], folder: Path, programs: Path) -> str:
    path = os.pathsep.join((str(programs), os.environ.get("PATH", os.defpath)))
    # Inside `make`, a nested make would wait for the job server of the outer one.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    environment = {**inherited, "PATH": path, "COLUMNS": "80"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{block}: {command}\n{done.stdout}\n{done.stderr}"
    return done.stdout
