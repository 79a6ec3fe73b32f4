"""Query an interpreter about its version and contents, and compare these with a plugin's requirements."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from dlperf_sdk.environments.redact import redact
from dlperf_sdk.errors import EnvironmentFailed, PluginError, Unavailable
from dlperf_sdk.worker.exhaustion import describe_exhaustion

SCRIPT = Path(__file__).with_name("probe_script.py")

PATIENCE = 60.0
"""Seconds that an interpreter may take to answer: from a cold network file system it takes several."""

# Runs on any Python from 2.7 on, so that the error names a wrong version instead of a syntax error.
_VERSION = (
    "import sys; v = sys.version_info; i = getattr(sys, 'implementation', None); "
    "print('%d.%d.%d%s' % (v[0], v[1], v[2], '' if v[3] == 'final' else v[3][0] + str(v[4])) + ' ' + "
    "(i.name if i else 'cpython') + ' ' + (getattr(sys, 'abiflags', '') or '-'))"
)

_ORIGINS = {
    "editable": "editable",
    "folder": "from a folder",
    "archive": "from an archive",
    "vcs": "from version control",
}


@frozen
class Interpreter:
    """A Python that was started successfully."""

    path: Path
    """The program."""
    version: Version
    """The version, such as 3.11.7."""
    implementation: str
    """Name of the implementation: `cpython`, `pypy`, …."""
    free_threaded: bool
    """True for a build without the global interpreter lock."""

    @property
    def minor(self) -> str:
        """The minor version, such as `3.11`."""
        return f"{self.version.major}.{self.version.minor}"


@frozen
class Distribution:
    """One installed distribution."""

    name: str
    """Normalized: lower case, with hyphens."""
    version: str
    origin: str = ""
    """`editable`, `folder`, `archive` or `vcs`; empty for a distribution from an index or a folder of wheels."""


@frozen
class Facts:
    """Properties that an interpreter reports about itself."""

    version: str
    """The version of Python, such as `3.11.7`."""
    prefix: Path
    """The folder of the environment, `sys.prefix`."""
    installed: tuple[Distribution, ...]
    """All installed distributions."""
    markers: Mapping[str, str]
    """The variables of environment markers (PEP 508)."""

    @property
    def minor(self) -> str:
        """The minor version, such as `3.11`."""
        return self.markers["python_version"]

    @property
    def lock(self) -> str:
        """Exact versions of all installed distributions: a text with a line `NAME==VERSION` for each, sorted by name.

        A comment at the end of the line marks a distribution that is not from an index. Its address or folder is left
        out, since these may contain credentials and names of people.
        """
        lines = []
        for distribution in sorted(self.installed, key=lambda package: package.name):
            comment = f"  # {_ORIGINS[distribution.origin]}" if distribution.origin in _ORIGINS else ""
            lines.append(f"{distribution.name}=={distribution.version}{comment}\n")
        return "".join(lines)


def probe_interpreter(path: Path, environ: Mapping[str, str]) -> Interpreter | None:
    """Start an interpreter, and return its version and implementation. Works with Python 2.7 and later.

    Args:
        path: The interpreter.
        environ: All environment variables to start the interpreter with.

    Returns:
        The interpreter; None if it does not run as Python (such as an inactive pyenv shim or a broken link).
    """
    try:
        output = read_output([str(path), "-c", _VERSION], environ)
        version, implementation, flags = output.splitlines()[-1].split()
        return Interpreter(path, Version(version), implementation, "t" in flags)
    except (OSError, subprocess.SubprocessError, IndexError, ValueError):
        return None


def probe_facts(path: Path, environ: Mapping[str, str]) -> Facts:
    """Start an interpreter as a worker is started (`-I`), and return the facts that it reports about itself.

    They are its version, its folder, its installed distributions, and the variables of environment markers. The
    interpreter must be Python 3.7 or later.

    Args:
        path: The interpreter.
        environ: All environment variables of a worker.

    Raises:
        EnvironmentFailed: The interpreter does not start, fails, takes longer than `PATIENCE` (60) seconds, or prints
            an invalid answer.
    """
    try:
        output = read_output([str(path), "-I", str(SCRIPT)], environ)
        return facts_from(json.loads(output.splitlines()[-1]))
    except subprocess.CalledProcessError as error:
        last = (error.stderr.decode("utf-8", "replace").strip().splitlines() or ["nothing on stderr"])[-1]
        raise EnvironmentFailed(
            f"Listing the packages of the interpreter {path} failed with exit code "
            f"{error.returncode}: {redact(last)}. Check that it runs (`{path} -c 'import sys'`), or run with "
            "another one: `dlperf run FRAMEWORK MODEL --python PATH`."
        ) from error
    except (OSError, subprocess.SubprocessError, IndexError, KeyError, TypeError, ValueError) as error:
        raise EnvironmentFailed(
            f"The packages of the interpreter {path} could not be listed: "
            f"{redact(str(error))}. Check that it runs, or run with another one: "
            "`dlperf run FRAMEWORK MODEL --python PATH`."
        ) from error


def read_output(command: Sequence[str], environ: Mapping[str, str]) -> str:
    """Run a program, and return what it printed to standard output, without white space around it.

    Args:
        command: The program and its arguments.
        environ: All environment variables to start the program with.

    Raises:
        OSError: The program does not start.
        Unavailable: It does not start because a resource of this machine ran out, such as descriptors.
        subprocess.SubprocessError: The program has a nonzero exit code, or takes longer than `PATIENCE` (60) seconds.
    """
    try:
        done = subprocess.run(
            command,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=True,
        )
    except OSError as error:
        shortage = describe_exhaustion(error, "The controller")
        if shortage is not None:
            raise Unavailable(shortage) from error
        raise
    return done.stdout.decode("utf-8", "replace").strip()


def facts_from(plain: Mapping[str, Any]) -> Facts:
    """Return the facts about an interpreter that the probe script printed.

    Args:
        plain: The script's output as a JSON object, with `version`, `prefix`, `installed` and `markers`.

    Raises:
        KeyError: The object lacks one of these keys.
        TypeError: A value in the object has the wrong type.
    """
    return Facts(
        version=str(plain["version"]),
        prefix=Path(plain["prefix"]),
        installed=tuple(Distribution(**distribution) for distribution in plain["installed"]),
        markers={str(name): str(value) for name, value in plain["markers"].items()},
    )


def parse_requirement(text: str) -> Requirement:
    """Parse one of a plugin's requirements.

    Args:
        text: A requirement specifier (PEP 508), such as `numpy>=1.26`.

    Raises:
        PluginError: The text is not a requirement.
    """
    try:
        return Requirement(text)
    except InvalidRequirement as error:
        raise PluginError(f"The plugin asks for {redact(text)!r}, which is not a requirement.") from error


def list_unmet(requirements: tuple[str, ...], device: str, facts: Facts) -> list[str]:
    """Return a phrase for each requirement that an interpreter does not meet, such as `requested "…", found "…"`.

    Requirements whose marker does not apply are left out. A build for CPUs (a version that ends in `+cpu`) meets no
    requirement on another kind of device.

    Args:
        requirements: The plugin's requirements, as requirement specifiers.
        device: The kind of device.
        facts: The interpreter's facts, as `probe_facts` returns them.

    Raises:
        PluginError: A requirement is invalid.
    """
    present = {distribution.name: distribution.version for distribution in facts.installed}
    complaints = []
    for text in requirements:
        required = parse_requirement(text)
        if required.marker is not None and not required.marker.evaluate({**facts.markers, "extra": ""}):
            continue
        installed = present.get(canonicalize_name(required.name))
        if installed is None:
            complaints.append(f'requested "{redact(text)}", none is installed')
        elif not _satisfies(installed, required.specifier):
            complaints.append(f'requested "{redact(text)}", found "{required.name} {installed}"')
        elif device != "cpu" and installed.endswith("+cpu"):
            complaints.append(
                f'requested "{redact(text)}" for {device}, found "{required.name} {installed}", a build for CPUs'
            )
    return complaints


def _satisfies(version: str, specifier: SpecifierSet) -> bool:
    try:
        return specifier.contains(Version(version), prereleases=True)
    except InvalidVersion:
        return not specifier  # an invalid version satisfies only a requirement without specifier
