"""A spec from a file is data: what it says is measured, and nothing that it says reaches beyond its directory.

People pass such files on, so whoever runs one need not have read it. Its fields may therefore name no program, no
variable that makes a program load other code, and no folder outside the file's own directory. On the command line
and in Python all of these can be given, by whoever runs it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from dlperf_sdk.documents import load_document, shown
from dlperf_sdk.errors import DocumentError, SpecError

LOADERS = re.compile(r"LD_\w+|DYLD_\w+|GCONV_PATH|PYTHON\w+|PATH|HOME|BASH_ENV|ENV|SHELLOPTS")
"""Variables that decide which code a process loads before its first own line."""

EXECUTED = re.compile(r"\w+_flags|agent_python|hostfile")
"""Options of engines that name programs, hand arguments to those that can run others, or read a file."""


def load_spec(path: Path, instead: Collection[str] = ()) -> dict[str, Any]:
    """The fields of a spec file, without those that are given `instead`; a relative folder belongs to the file's own.

    Raises:
        DocumentError: the file cannot be read or parsed, or breaks the schema: each mistake has a line of the message,
            which begins with FILE:LINE.
        SpecError: a field reaches beyond the file's directory, or names what is executed.
    """
    from dlperf_sdk import lines, mistakes, schema

    document = {name: value for name, value in load_document(path).items() if name not in instead}
    places = lines.lines_of(path.read_text(encoding="utf-8-sig"), path.suffix.lower())
    found = mistakes.in_file(
        path, "run-spec", {"schema_version": schema.version("run-spec"), **document}, places
    )
    if found:
        raise DocumentError(mistakes.told(found))
    return confined(document, path)


def confined(document: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The fields of a run spec that stands in the file `path`, its data folder as an absolute path.

    Raises:
        SpecError: a field reaches beyond the file's directory, or names what is executed.
    """
    found = dict(document)
    if found.get("python") is not None:
        raise SpecError(
            f"{path} names the interpreter {shown(found['python'])}; a file may not say which program is run. "
            "Take `python` out of it, and give --python PATH (in Python: python=PATH) where it is wanted."
        )
    for name in ("container", "container_mounts", "container_devices"):
        if found.get(name) is not None:
            raise SpecError(
                f"{path} names the {name} {shown(found[name])}; a file may not say which program is run, or in what. "
                f"Take `{name}` out of it, and give --{name.replace('_', '-')} where it is wanted."
            )
    variables = found.get("env")
    for name in variables if isinstance(variables, Mapping) else ():
        if isinstance(name, str) and LOADERS.fullmatch(name):
            raise SpecError(
                f"{path} sets the variable {name}, which decides what code a process loads; a file may not. Take it "
                f"out of `env`, and give --env {name}=VALUE where it is wanted."
            )
    options = found.get("options")
    for name in options if isinstance(options, Mapping) else ():
        if isinstance(name, str) and EXECUTED.fullmatch(name):
            raise SpecError(
                f"{path} sets the option {name}, which decides what an engine executes or reads; a file may not. Take "
                f"it out of `options`, and give --set {name}=VALUE where it is wanted."
            )
    if isinstance(found.get("data"), str):
        found["data"] = _inside(found["data"], path)
    return found


def _inside(data: str, path: Path) -> str:
    """`SOURCE:FOLDER` with the folder resolved against the file's directory; `SOURCE` as it is."""
    source, colon, folder = data.partition(":")
    if not colon or not folder or "\0" in folder:
        return data  # the field's own check says what is wrong with it
    home = path.resolve().parent
    there = (home / folder).resolve()
    if not there.is_relative_to(home):
        raise SpecError(
            f"{path} takes its data from {shown(folder)}, which is outside its own directory; a file may only name "
            f"what lies beside or below it. Move the folder there, or give --data {source}:FOLDER."
        )
    return f"{source}:{there}"
