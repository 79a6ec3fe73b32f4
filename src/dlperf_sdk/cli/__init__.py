"""The command line: a thin wrapper over `dlperf_sdk.api`.

`main` is the program `dlperf`. `build_app` makes its cyclopts app, and `mount` adds that app to another
program's. Every command is a function that returns its exit code; `EXIT_CODES` describes the codes.
"""

from dlperf_sdk.cli.app import COMMANDS, EXIT_CODES, build_app, main, mount

__all__ = ["COMMANDS", "EXIT_CODES", "build_app", "main", "mount"]
