"""The skeleton of a framework's plugin: what `dlperf new-plugin` writes.

The templates beside this file are complete but for what only the author knows, which raises `NotImplementedError` with
a sentence, and is marked FILL IN.
"""

from __future__ import annotations

import re
from pathlib import Path
from string import Template

from attrs import frozen

from dlperf_sdk.errors import SpecError, UsageError
from dlperf_sdk.registry.plugins import GROUPS, Registry

TEMPLATES = Path(__file__).with_name("templates")
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
"""File of the plugin → its template; both have the suffix `.template` in common with nothing else of the wheel."""

_NAME = re.compile(r"[a-z][a-z0-9]{0,31}(-[a-z0-9]{1,16}){0,3}")
_RESERVED_PACKAGE = "dlperf_sdk"


@frozen
class Skeleton:
    """Files of the new plugin."""

    folder: Path
    files: tuple[str, ...]
    """Below the folder."""


def write(name: str, directory: Path) -> Skeleton:
    """Write the plugin of a framework into a new folder `dlperf-NAME` of a directory.

    Raises:
        SpecError: the name cannot be a plugin's, or is one's already.
        UsageError: the folder is there already, or cannot be made. Nothing is overwritten.
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
            f"{folder} is there already, and nothing is overwritten; choose another --directory."
        ) from error
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror}.") from error
    return Skeleton(folder, tuple(Template(file).substitute(substitutions) for file in FILES))
