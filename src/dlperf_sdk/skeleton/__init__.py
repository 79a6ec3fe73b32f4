"""The skeleton of a framework plugin, which `dlperf new-plugin` writes.

The templates beside this file are complete except for what only the author of the plugin knows. Those places raise
NotImplementedError with a sentence, and are marked FILL IN.
"""

from __future__ import annotations

import re
from pathlib import Path
from string import Template

from attrs import frozen

from dlperf_sdk.errors import SpecError, UsageError
from dlperf_sdk.registry.groups import GROUPS
from dlperf_sdk.registry.plugins import Registry

TEMPLATES = Path(__file__).with_name("templates")
"""Folder of the templates."""
FILES = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    "src/$package/__init__.py": "package.py",
    "src/$package/framework.py": "framework.py",
    "src/$package/processes.py": "processes.py",
    "src/$package/worker/__init__.py": "worker.py",
    "src/$package/worker/runtime.py": "runtime.py",
    "src/$package/worker/training.py": "training.py",
    "src/$package/worker/resnet50.py": "resnet50.py",
    "src/$package/worker/bert_base.py": "bert_base.py",
    "tests/test_conformance.py": "test_conformance.py",
}
"""File of the plugin → its template, without the suffix `.template`."""

_NAME = re.compile(r"[a-z][a-z0-9]{0,31}(-[a-z0-9]{1,16}){0,3}")
_RESERVED_PACKAGE = "dlperf_sdk"


@frozen
class Skeleton:
    """The plugin that was written."""

    folder: Path
    """Directory of the plugin."""
    files: tuple[str, ...]
    """Paths of its files, relative to the directory."""


def write(name: str, directory: Path) -> Skeleton:
    """Write the skeleton of a framework's plugin into a new directory `dlperf-NAME`, and return the paths.

    Args:
        name: Name of the framework, as users will type it.
        directory: The directory in which the new one is made; it is made if it does not exist.

    Raises:
        SpecError: The name is malformed, or an installed plugin of any group has it.
        UsageError: The new directory exists already, or something cannot be written; in the latter case, a part may
            remain.
    """
    package = "dlperf_" + name.replace("-", "_")
    if not _NAME.fullmatch(name) or package == _RESERVED_PACKAGE:
        raise SpecError(
            f"{name!r} cannot be the name of a plugin: it is what users type, in lower-case letters, digits and single "
            "hyphens, beginning with a letter, such as 'mindspore' or 'my-framework'; 'sdk' is dlperf-sdk itself."
        )
    for group in GROUPS:
        if Registry().has_plugin(group, name):
            raise SpecError(
                f"{name!r} is the name of one of the {group} already, and commands take any plugin by its name alone; "
                f"`dlperf list {group}` shows them all."
            )
    title = "".join(part.capitalize() for part in name.split("-"))
    substitutions = {"name": name, "package": package, "title": title}
    folder = directory / f"dlperf-{name}"
    try:
        folder.mkdir(parents=True)
        for file, template in FILES.items():
            path = folder / Template(file).substitute(substitutions)
            path.parent.mkdir(parents=True, exist_ok=True)
            text = (TEMPLATES / f"{template}.template").read_text(encoding="utf-8")
            path.write_text(Template(text).substitute(substitutions), encoding="utf-8")
    except FileExistsError as error:
        raise UsageError(
            f"{folder} already exists and is not overwritten; choose another --directory."
        ) from error
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror}.") from error
    return Skeleton(folder, tuple(Template(file).substitute(substitutions) for file in FILES))
