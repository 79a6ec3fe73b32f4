"""The command line: a thin wrapper over `dlperf_sdk.api`.

`main` is the program `dlperf`; `app` is its cyclopts app, and `mount` puts it into another program's.
"""

from dlperf_sdk.cli.app import EXIT_CODES, app, main, mount

__all__ = ["EXIT_CODES", "app", "main", "mount"]
