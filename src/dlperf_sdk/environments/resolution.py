"""Resolve requirements to exact versions before anything is installed, and check that these fit the device."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen
from packaging.utils import canonicalize_name

from dlperf_sdk.environments import probe
from dlperf_sdk.environments.installer import Installer, UvFailed
from dlperf_sdk.environments.probe import Interpreter
from dlperf_sdk.environments.redact import redact
from dlperf_sdk.errors import EnvironmentFailed

LOCK = "lock.in"
"""Name of the file for the plugin's lock, in the environment's folder."""

# NVIDIA's libraries, the CUDA toolkit's parts, and a package's variant for one CUDA version (mxnet-cu112).
_CUDA_NAME = re.compile(r"(nvidia|cuda)-.+|.+-(cu|cuda)\d+(-.+)?")
_NOT_CUDA = frozenset({"nvidia-ml-py"})
"""Of that name, but small and pure Python."""
_CUDA_BUILD = re.compile(r"\+cu\d+")


@frozen
class Resolution:
    """Packages that would be installed."""

    pins: tuple[str, ...]
    """`name==version`, or `name @ url`, one per distribution, sorted."""
    options: tuple[str, ...]
    """The extra arguments for uv that were needed to resolve the pins; often empty."""

    def write(self, path: Path) -> None:
        """Write the pins to a requirements file, one per line; an existing file is replaced.

        Raises:
            OSError: The file cannot be written.
        """
        path.write_text("".join(f"{pin}\n" for pin in self.pins), encoding="utf-8")


def find_unfit_pins(pins: Sequence[str], device: str, requested: Sequence[str]) -> list[str]:
    """Return the pins that do not belong in an environment for this kind of device.

    For `cpu`, these are CUDA's libraries and CUDA builds (`+cu…`), which are gigabytes. A library that a requirement
    names is excepted: some frameworks have one build for all devices, and do not start without these libraries. For
    other devices, these are builds for CPUs (`+cpu`).

    Args:
        pins: Exact versions to install, each as `name==version` or `name @ url`.
        device: The kind of device.
        requested: Requirement specifiers, whose libraries are excepted; for other devices than `cpu`, only their syntax
            is checked.

    Raises:
        PluginError: A requirement is invalid.
    """
    names = {canonicalize_name(probe.parse_requirement(text).name) for text in requested}
    if device != "cpu":
        return [pin for pin in pins if pin.endswith("+cpu")]
    unfit = []
    for pin in pins:
        name = canonicalize_name(re.split(r"[=@\s\[]", pin, maxsplit=1)[0])
        cuda = _CUDA_NAME.fullmatch(name) and name not in _NOT_CUDA
        if (cuda and name not in names) or _CUDA_BUILD.search(pin):
            unfit.append(pin)
    return unfit


def resolve(
    requirements: Sequence[str],
    lock: str | None,
    uv_options: Sequence[str],
    *,
    requested: Sequence[str],
    exact: bool,
    framework: str,
    device: str,
    interpreter: Interpreter,
    installer: Installer,
) -> Resolution:
    """Return the exact versions of everything to install, which `uv pip compile` resolves.

    The first try uses the configured indexes alone. If they lack a requirement, or offer only versions that do not fit
    the device, a second try adds `uv_options`. Working files stay in the installer's folder.

    Args:
        requirements: The requirements of the plugin, or the pins of a lock.
        lock: The text of the plugin's lock; None without a lock.
        uv_options: Further options of uv for a second try; empty for no second try.
        requested: Requirement specifiers that name CUDA libraries which are wanted even if the device is `cpu`.
        exact: True if the requirements are a complete lock, to which nothing is added.
        framework: The framework's name, for messages.
        device: The kind of device.
        interpreter: The interpreter of the environment.
        installer: The installer to run.

    Raises:
        EnvironmentFailed: All tries failed; the message quotes the end of uv's messages, and says what to do.
        PluginError: One of `requested` is not a requirement.
    """
    folder = installer.folder
    sources = [folder / "requirements.in"]
    sources[0].write_text("".join(f"{text}\n" for text in requirements), encoding="utf-8")
    if lock is not None:
        sources.append(folder / LOCK)
        sources[1].write_text(lock, encoding="utf-8")
    output = folder / "resolved.txt"
    command = ["compile", *map(str, sources), "--python", str(interpreter.path), "--output-file", str(output)]
    command += ["--no-header", "--no-annotate", *(["--no-deps"] if exact else [])]

    reasons = []
    attempts: list[tuple[str, ...]] = [(), tuple(uv_options)] if uv_options else [()]
    for options in attempts:
        if options:
            installer.on_progress(f"trying again with {redact(' '.join(options))}")
        output.unlink(missing_ok=True)
        source = f"with {redact(' '.join(options))}" if options else "from the configured indexes"
        try:
            installer.pip(*command, *options)
        except UvFailed as error:
            reasons.append(f"{source}, uv said: {error}")
            continue
        text = output.read_text(encoding="utf-8")
        pins = tuple(sorted(line.partition(" #")[0].strip() for line in text.splitlines() if line.strip()))
        unfit = [redact(pin) for pin in find_unfit_pins(pins, device, requested)]
        if not unfit:
            return Resolution(pins, options)
        listed_pins = ", ".join(unfit[:4]) + (f" and {len(unfit) - 4} more" if len(unfit) > 4 else "")
        reasons.append(
            f"{source} it would take CUDA packages, which a machine without a GPU has no use for: {listed_pins}"
            if device == "cpu"
            else f"{source} it would take builds for CPUs: {listed_pins}"
        )
    builds = "builds for CPUs" if device == "cpu" else f"builds for {device}"
    raise EnvironmentFailed(
        f"The environment of {framework} for {device} on Python {interpreter.minor} cannot be resolved; "
        f"nothing was installed. {'; '.join(_sentence(reason) for reason in reasons)}. Point pip's settings "
        f"at a folder of wheels or an index that has {builds} (PIP_FIND_LINKS, PIP_EXTRA_INDEX_URL, or "
        "find-links and extra-index-url in pip.conf; uv is handed all of them), or run in an existing "
        "environment: `dlperf run FRAMEWORK MODEL --python PATH`."
    )


def _sentence(text: str) -> str:
    text = text.rstrip(".")
    return text[:1].upper() + text[1:]
