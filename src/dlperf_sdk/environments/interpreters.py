"""Find an installed Python of the right version. Nothing is downloaded."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from attrs import define, field
from packaging.specifiers import SpecifierSet

from dlperf_sdk import folders
from dlperf_sdk.environments import probe
from dlperf_sdk.environments.installer import uv_binary
from dlperf_sdk.environments.probe import Interpreter
from dlperf_sdk.errors import EnvironmentFailed
from dlperf_sdk.spec.python_version import LAST_PATCH, parse_python_specifier

_CACHE_NAME: dict[tuple[object, ...], Interpreter] = {}
"""Results of searches, by what they depend on: a search starts uv and every Python that there is, which takes seconds,
and a campaign would do it for each of its cases."""
_PLACES = re.compile("PATH$|HOME$|PYENV_|UV_|XDG_")
"""The variables that determine where interpreters are."""


@define
class _Search:
    """Interpreters that were looked at, for the message that none was found."""

    specifier: SpecifierSet
    environ: Mapping[str, str]
    interpreters: dict[Path, Interpreter | None] = field(factory=dict)
    places: dict[str, list[str]] = field(factory=dict)

    def look(self, place: str, path: Path) -> Interpreter | None:
        """Return the interpreter at a path if it is a CPython of an accepted version, else None."""
        versions = self.places.setdefault(place, [])
        target = folders.follow_links(path)
        first = target not in self.interpreters
        if first:
            self.interpreters[target] = probe.probe_interpreter(path, self.environ)
        interpreter = self.interpreters[target]
        if interpreter is None:
            return None
        if first:
            versions.append(str(interpreter.version))
        # Hardly any framework has wheels for free-threaded builds, which have their own ABI, or for
        # versions that are not released yet.
        usable = interpreter.implementation == "cpython" and not interpreter.free_threaded
        accepted = self.specifier.contains(interpreter.version, prereleases=False)
        return interpreter if usable and accepted else None

    def __str__(self) -> str:
        return ", ".join(
            f"{place} ({', '.join(versions) or 'none'})" for place, versions in self.places.items()
        )


def find(specifier: str, environ: Mapping[str, str]) -> Interpreter:
    """Return an installed CPython whose version satisfies a specifier.

    This is the running interpreter if its version satisfies the specifier. Otherwise, it is the newest interpreter
    that the function finds among `python`, `python3` and `python3.*` in the folders of PATH, the versions of pyenv, and
    those that uv has installed. The function ignores free-threaded builds and pre-releases. It caches the result in
    this process; a later call starts the cached interpreter, and searches again if that no longer runs.

    Args:
        specifier: The range of versions, such as `>=3.11`.
        environ: Environment variables by name. PATH, HOME and those of pyenv and uv determine where to search. The
            interpreters are started with all of them except `PYTHON*`.

    Raises:
        EnvironmentFailed: No interpreter satisfies the specifier; the message lists the places that were searched. Or
            the program of uv is missing.
        PluginError: `specifier` is not a version specifier.
    """
    plain = {name: value for name, value in environ.items() if not name.startswith("PYTHON")}
    key = (specifier, sys.executable, *sorted(item for item in environ.items() if _PLACES.match(item[0])))
    interpreter = _CACHE_NAME.get(key)
    if interpreter is None or probe.probe_interpreter(interpreter.path, plain) != interpreter:
        interpreter = _CACHE_NAME[key] = _search(specifier, environ, plain)
    return interpreter


def _search(specifier: str, environ: Mapping[str, str], plain: Mapping[str, str]) -> Interpreter:
    search = _Search(parse_python_specifier(specifier), plain)
    running = search.look("the running interpreter", Path(sys.executable)) if sys.executable else None
    if running:
        return running
    places = (
        ("PATH", _list_on_path(environ)),
        ("pyenv", _list_pyenv(environ)),
        ("uv", _list_uv(environ)),
    )
    candidates = []
    for place, paths in places:
        search.places.setdefault(place, [])
        candidates += [
            interpreter
            for path in paths
            if _may_satisfy(path, search.specifier) and (interpreter := search.look(place, path))
        ]
    if not candidates:
        raise EnvironmentFailed(
            f"A Python that satisfies {specifier!r} is needed, and none was found in {search}. Install one "
            "(with pyenv, `uv python install`, or the system's packages), or run with an existing one: "
            "`dlperf run FRAMEWORK MODEL --python PATH`."
        )
    return max(candidates, key=lambda interpreter: interpreter.version)


def _may_satisfy(path: Path, specifier: SpecifierSet) -> bool:
    """Return True if an interpreter of this name may satisfy the specifier; `python` and `python3` always may."""
    minor = re.fullmatch(r"python(\d+\.\d+)", path.name)
    return minor is None or any(f"{minor[1]}.{patch}" in specifier for patch in range(LAST_PATCH))


def _list_on_path(environ: Mapping[str, str]) -> Iterator[Path]:
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        try:
            entries = sorted(Path(folder).iterdir()) if folder else []
        except OSError:
            continue
        yield from (path for path in entries if re.fullmatch(r"python(3(\.\d+)?)?", path.name))


def _list_pyenv(environ: Mapping[str, str]) -> Iterator[Path]:
    home = folders.home(environ)
    pyenv_root = environ.get("PYENV_ROOT") or (home and home / ".pyenv")
    if not pyenv_root:
        return
    root = Path(pyenv_root)
    try:
        versions = sorted((root / "versions").iterdir())
    except OSError:
        return
    for version in versions:
        # pyenv names a folder after the version in it; other names (conda, virtual environments) may hold
        # any.
        number = re.fullmatch(r"(\d+\.\d+)\.\d+", version.name)
        python = version / "bin" / (f"python{number[1]}" if number else "python")
        if python.exists():
            yield python


def _list_uv(environ: Mapping[str, str]) -> Iterator[Path]:
    options = ("--only-installed", "--managed-python", "--output-format", "json", "--offline", "--no-config")
    try:
        for entry in json.loads(probe.read_output([uv_binary(), "python", "list", *options], environ)):
            yield Path(entry["path"])
    except (EnvironmentFailed, OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError):
        return
