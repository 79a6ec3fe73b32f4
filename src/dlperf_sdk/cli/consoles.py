"""The consoles of Rich for the standard streams."""

from __future__ import annotations

import sys

from rich.console import Console

from dlperf_sdk.cli.streams import mute


class _Console(Console):
    """Console of Rich, except that the program continues if the reader goes away."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        mute(self.file)


def error_console() -> Console:
    """Return a console for standard error."""
    return _Console(file=sys.stderr, highlight=False, markup=False, emoji=False)


def output_console() -> Console:
    """Return a console for standard output, for help and version."""
    return _Console(file=sys.stdout)
