"""The bundle: one archive with everything that a node needs from the controller; launchers deliver nothing else.

It holds the request, the worker package, the packages of the plugins' worker halves, and a secret by which the
agents of one bundle recognize each other. Python runs it as it is: `python BUNDLE agent …`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import marshal
import os
import secrets
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

from attrs import frozen

import dlperf_sdk
from dlperf_sdk.errors import PluginError
from dlperf_sdk.worker.request import Request

# Started as a file once unpacked: to run a directory, Python imports more (4 ms of each worker's start).
_MAIN = """\
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
if here not in sys.path:
    sys.path.insert(0, here)

from dlperf_sdk.worker.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
"""
_EPOCH = (1980, 1, 1, 0, 0, 0)
_UNCHECKED = (1).to_bytes(4, "little")
"""Flags of bytecode with a hash that Python does not compare with the source."""


@frozen
class Bundle:
    """A bundle that was written to disk."""

    path: Path
    """The file."""
    digest: str
    """SHA-256 over names and contents of all files but the secret and the bytecode: equal digests run equal code on
    equal requests."""
    files: tuple[str, ...]
    """Names of these files, sorted."""


def contents(request: Request, packages: Iterable[str] = ()) -> dict[str, bytes]:
    """Return the files of a bundle as path in the archive → content, without the agents' secret and the bytecode.

    Args:
        request: The request for the nodes, which the file `request.json` holds.
        packages: Names of further top-level packages to include. Those that the request names (`runtime`, `trainer`,
            `processes` and `samplers`) are always included.

    Raises:
        PluginError: A package is not installed as Python files.
    """
    root = Path(dlperf_sdk.__file__).parent
    files = {"__main__.py": _MAIN.encode(), "dlperf_sdk/__init__.py": (root / "__init__.py").read_bytes()}
    for path in sorted((root / "worker").rglob("*.py")):
        files[f"dlperf_sdk/{path.relative_to(root).as_posix()}"] = path.read_bytes()
    references = (request.runtime, request.trainer, request.processes, *request.samplers)
    top_level = {reference.partition(":")[0].partition(".")[0] for reference in references}
    for package in sorted(top_level.union(packages)):
        if package != "dlperf_sdk":
            files.update(_package(package))
    files["request.json"] = json.dumps(request.to_dict(), allow_nan=False).encode()
    return files


def _package(name: str) -> Iterator[tuple[str, bytes]]:
    """Yield the Python files of a top-level package or module, found without importing it."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise PluginError(
            f"The package {name!r}, which a plugin says its worker half is in, is not installed here as Python files."
        )
    origin = Path(spec.origin)
    if origin.name != "__init__.py":
        yield origin.name, origin.read_bytes()
        return
    for path in sorted(origin.parent.rglob("*.py")):
        if path.is_file():
            yield f"{name}/{path.relative_to(origin.parent).as_posix()}", path.read_bytes()


def build(
    request: Request,
    path: Path,
    packages: Iterable[str] = (),
    case: Mapping[str, Any] | None = None,
    parity: Request | None = None,
) -> Bundle:
    """Write the bundle of a request, and return its path, its digest and the names of its files.

    The file is a zip archive that only its owner can read, since it holds the agents' secret. Bytecode for this Python
    lies beside the sources, so that processes on a node need not compile them. Another Python ignores it.

    Args:
        request: The request for the nodes, which the file `request.json` holds.
        path: The file to write, which is replaced if it exists.
        packages: Names of top-level packages to include in addition to those of the runtime, the trainer, the process
            function and the samplers that the request names.
        case: JSON values about the case, as `dlperf_sdk.execution.launch.bundle_metadata` returns them. They are
            written to `case.json`: `replay` needs them to make a result of the agents' event stream. None: the bundle
            has no `case.json`.
        parity: The request of a parity run that the agents do first; None: no parity run.

    Raises:
        PluginError: A package is not installed as Python files.
        OSError: The file cannot be written.
    """
    files = contents(request, packages)
    if parity is not None:
        files["parity.json"] = json.dumps(parity.to_dict(), allow_nan=False).encode()
    if case is not None:
        files["case.json"] = json.dumps(case, allow_nan=False).encode()
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{name}\0{len(files[name])}\0".encode() + files[name])
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.fchmod(descriptor, 0o600)  # also if the file existed with another mode
    with os.fdopen(descriptor, "wb") as file, zipfile.ZipFile(file, "w") as archive:
        for name in sorted(files):
            _add(archive, name, files[name])
            if name.endswith(".py") and "/" in name:
                _add(archive, _cache(name), _bytecode(name, files[name]))
        archive.writestr(zipfile.ZipInfo("secret", _EPOCH), secrets.token_hex(32))
    return Bundle(path, digest.hexdigest(), tuple(sorted(files)))


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    """Add a file with fast compression: it is created and read once."""
    archive.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED, compresslevel=1)


def _cache(name: str) -> str:
    """Return the path at which Python looks for a source's bytecode."""
    return Path(importlib.util.cache_from_source(name)).as_posix()


@lru_cache(maxsize=1024)
def _bytecode(name: str, source: bytes) -> bytes:
    """Compile a source of the bundle for this Python, as an unchecked file in the sense of PEP 552.

    It is independent of file times.

    Where it is installed it mostly lies compiled already. That is used only if Python compares it with the source.
    """
    top = importlib.util.find_spec(name.partition("/")[0])
    origin = Path(name) if top is None or top.origin is None else Path(top.origin).parent.parent / name
    is_usable = _has_content(origin, source) and not _is_unchecked(origin)
    code = SourceFileLoader(name, str(origin)).get_code(name) if is_usable else None
    code = code or compile(source, name, "exec", dont_inherit=True)
    head = importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(source)
    return head + marshal.dumps(_replace_file_name(code, name))


def _has_content(path: Path, content: bytes) -> bool:
    try:
        return path.read_bytes() == content
    except OSError:
        return False


def _is_unchecked(origin: Path) -> bool:
    """Return True if the bytecode of an installed source may be that of another source, in the sense of PEP 552."""
    try:
        with Path(importlib.util.cache_from_source(origin)).open("rb") as file:
            return file.read(8)[4:] == _UNCHECKED
    except OSError:
        return False


def _replace_file_name(code: CodeType, name: str) -> CodeType:
    """Replace the file name in code, so that it does not reveal where it was compiled."""
    inner = tuple(
        _replace_file_name(constant, name) if isinstance(constant, CodeType) else constant
        for constant in code.co_consts
    )
    return code.replace(co_filename=name, co_consts=inner)
