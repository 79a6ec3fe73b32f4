"""Versions of Python that a plugin accepts, and one that a spec names."""

from __future__ import annotations

import re

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from dlperf_sdk.errors import PluginError

LAST_PATCH = 40
"""No minor version of Python has had more patch releases than this."""


def is_version(python: str) -> bool:
    """Return True if the text `python` is a version, such as `3.11` or `3.11.7`, not the name of a file or folder."""
    return re.fullmatch(r"3\.\d+(\.\d+)?", python) is not None


def parse_python_specifier(text: str) -> SpecifierSet:
    """Parse a plugin's range of Python versions.

    Args:
        text: A version specifier, such as `>=3.11`.

    Raises:
        PluginError: The text is not a version specifier.
    """
    try:
        return SpecifierSet(text)
    except InvalidSpecifier as error:
        raise PluginError(
            f"The plugin asks for Python {text!r}, which is not a version specifier."
        ) from error


def restrict_specifier(specifier: str, version: str) -> str | None:
    """Return a specifier that accepts the versions of Python in `specifier` that belong to `version`.

    The result is None if there is no such version.

    Args:
        specifier: A range of versions, such as `>=3.9`; empty for all versions.
        version: A minor version or a patch release: `3.11` or `3.11.7`.

    Raises:
        PluginError: `specifier` is not a version specifier, or `version` is not of this form.
    """
    restricted = f"{specifier},=={version}.*" if specifier.strip() else f"=={version}.*"
    accepted = parse_python_specifier(restricted)
    patches = [version] if version.count(".") == 2 else [f"{version}.{patch}" for patch in range(LAST_PATCH)]
    return restricted if any(patch in accepted for patch in patches) else None


def describe_refused_version(framework: str, specifier: str, version: str) -> str:
    """Return the message that a framework does not run on the version of Python that the user names.

    Args:
        framework: The framework's name.
        specifier: The range of versions that its plugin accepts in the case.
        version: The version.
    """
    return (
        f'--python {version}: {framework} requested "Python {specifier}". Name a version in that range, or leave '
        "--python out."
    )
