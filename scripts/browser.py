"""Print the path of a browser that the tests of the HTML report can drive; install one if there is none.

    python scripts/browser.py

It looks, in this order, for the browser that the variable DLPERF_BROWSER names, a Chromium or Chrome on the path, and
Playwright's own browser. It installs Playwright's own, else, for root on Debian and its derivatives, the package
`chromium`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_PATIENCE_MS = "10000"


def found() -> str | None:
    """Return the path or name of a browser that is installed; None if there is none.

    The value of the environment variable DLPERF_BROWSER is returned as it is, without a check.

    Raises:
        ImportError: No installed program is a browser, and Playwright, which may have one, cannot be imported.
        subprocess.TimeoutExpired: A browser does not print its version within a minute.
    """
    named = os.environ.get("DLPERF_BROWSER")
    if named:
        return named
    for name in NAMES:
        path = shutil.which(name)
        # Some distributions have a script in this place that only says how to install it.
        if path and _answers(path):
            return path
    return _playwright()


def _playwright() -> str | None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = Path(playwright.chromium.executable_path)
    # The shell without a screen lies in a folder of its own.
    shells = sorted(path.parents[2].glob("chromium_headless_shell-*/*/*shell"))
    return next((str(item) for item in (path, *shells) if item.exists() and _answers(str(item))), None)


def _answers(path: str) -> bool:
    done = subprocess.run([path, "--version"], capture_output=True, timeout=60, check=False)
    return done.returncode == 0


def install() -> None:
    """Try to install a browser, with Playwright, else with apt-get.

    Errors of these programs are printed on standard error; none is raised.
    """
    patient = {**os.environ, "PLAYWRIGHT_DOWNLOAD_CONNECTION_TIMEOUT": _PATIENCE_MS}
    own = [sys.executable, "-m", "playwright", "install", "--only-shell", "chromium"]
    subprocess.run(own, stdout=sys.stderr, env=patient, check=False)
    # It may lack libraries of the system, which a distribution's package brings along.
    if _playwright():
        return
    apt = shutil.which("apt-get")
    if apt and os.geteuid() == 0:
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        packages = ["install", "--yes", "--no-install-recommends", "chromium", "fonts-liberation"]
        for words in (["update"], packages):
            subprocess.run([apt, "--quiet", *words], stdout=sys.stderr, env=quiet, check=False)


def main() -> int:
    """Print the path of a browser, and return the exit code: 0, or 1 if there is none and none could be installed."""
    path = found()
    if path is None:
        install()
        path = found()
    if path is None:
        print(
            "There is no browser, and none could be installed: install Chromium or Chrome, or name one in the variable "
            "DLPERF_BROWSER.",
            file=sys.stderr,
        )
        return 1
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
