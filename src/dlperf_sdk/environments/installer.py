"""Run uv with pip's settings, report its messages as progress, and remove secrets from them."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from attrs import frozen

from dlperf_sdk.environments.pip_settings import UvSettings
from dlperf_sdk.environments.redact import redact
from dlperf_sdk.errors import EnvironmentFailed

Progress = Callable[[str], None]
"""Called with one line of progress."""

_LAST_LINES = 12
"""Number of lines of uv's own message that an error quotes."""

_GRACE = 5.0
"""Seconds between asking uv to end and ending it."""

_TAKEN_OUT = (
    "UV_PYTHON",
    "UV_SYSTEM_PYTHON",
    "UV_PROJECT",
    "UV_WORKING_DIR",
    "UV_WORKING_DIRECTORY",
    "VIRTUAL_ENV",
)
"""Variables that could make uv work on another environment than the one in its arguments."""


class UvFailed(Exception):
    """uv ended with an error. The message is the end of uv's own output, redacted, in one paragraph."""


def uv_binary() -> str:
    """Return the path of the program `uv` that the package `uv` installed.

    Raises:
        EnvironmentFailed: The package is not installed, or lacks its program.
    """
    try:
        import uv

        return uv.find_uv_bin()
    except (ImportError, FileNotFoundError) as error:
        raise EnvironmentFailed(
            "uv makes the managed environments, and its program is not there. Install it beside dlperf-sdk "
            "(`python -m pip install --force-reinstall uv`), or run in an existing environment: "
            "`dlperf run FRAMEWORK MODEL --python PATH`."
        ) from error


def _end(process: subprocess.Popen[str]) -> None:
    """End uv and its child processes: building a source distribution runs its own Python."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@frozen
class Installer:
    """uv with its settings, working directory and lock."""

    settings: UvSettings
    folder: Path
    """Working directory: a folder of our own, so that uv finds no project's `uv.toml` or `pyproject.toml`."""
    lock: int
    """Descriptor that holds the environment's lock. uv inherits it: if this process is killed, the lock lasts until
    uv has ended as well, so that no other process installs into the same place."""
    on_progress: Progress

    def venv(self, python: Path, folder: Path) -> None:
        """Create an empty virtual environment.

        Args:
            python: The interpreter that the virtual environment uses.
            folder: The folder of the new virtual environment.

        Raises:
            UvFailed: uv ended with an error.
            EnvironmentFailed: uv itself is missing.
        """
        self._run("venv", "--quiet", "--no-project", "--python", str(python), str(folder))

    def pip(self, *arguments: str, variables: Mapping[str, str] | None = None) -> None:
        """Run `uv pip ARGUMENT…` with the settings that were converted from pip's configuration.

        Args:
            arguments: The arguments after `uv pip`, such as `install`.
            variables: Further environment variables for uv by name, such as those of the build of a distribution; None
                for none.

        Raises:
            UvFailed: uv ended with an error.
            EnvironmentFailed: uv itself is missing.
        """
        self._run("pip", *arguments, *self.settings.arguments, variables=variables)

    def _run(self, *arguments: str, variables: Mapping[str, str] | None = None) -> None:
        inherited = {name: value for name, value in self.settings.variables.items() if name not in _TAKEN_OUT}
        variables = (
            inherited
            | dict(variables or {})
            | {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1", "NO_COLOR": "1"}
        )
        last: deque[str] = deque(maxlen=_LAST_LINES)
        with subprocess.Popen(
            [uv_binary(), *arguments],
            cwd=self.folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            pass_fds=(self.lock,),
            process_group=0,
        ) as process:
            assert process.stderr is not None
            try:
                for line in process.stderr:
                    text = redact(line.rstrip(), self.settings.secrets)
                    if text:
                        last.append(text.strip())
                        self.on_progress(text)
            except BaseException:  # Ctrl-C, or a callback that failed
                _end(process)
                raise
        if process.returncode:
            raise UvFailed(" ".join(last) or f"uv ended with exit code {process.returncode} and no message")
