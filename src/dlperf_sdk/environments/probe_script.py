"""Print, as one line of JSON, version, markers and contents of the interpreter that runs this, started with `-I`.

Standard library only, Python 3.7 and later. No installed package is imported: names and versions are read from the
`*.dist-info` and `*.egg-info` records that installers leave on `sys.path`.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from pathlib import Path


def headers(path: Path) -> dict[str, str]:
    """Return the header fields of a METADATA or PKG-INFO file: lower-case name → first value.

    Reading ends at the first empty line. The result is empty if the file cannot be read.

    Args:
        path: The file.
    """
    fields: dict[str, str] = {}
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                if not line.strip():
                    break
                name, colon, value = line.partition(":")
                if colon:
                    fields.setdefault(name.strip().lower(), value.strip())
    except OSError:
        pass
    return fields


def origin(record: Path) -> str:
    """Return where a distribution came from, according to its metadata folder.

    Args:
        record: The distribution's `*.dist-info` folder.

    Returns:
        `editable`, `folder`, `archive` or `vcs` (version control); empty for one from an index.
    """
    try:
        direct = json.loads((record / "direct_url.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    if not isinstance(direct, dict):
        return ""
    if isinstance(direct.get("dir_info"), dict):
        return "editable" if direct["dir_info"].get("editable") else "folder"
    return "vcs" if "vcs_info" in direct else "archive"


def _list_installed(folders: list[Path]) -> list[dict[str, str]]:
    """Return `name`, `version` and `origin` of each distribution in these folders, sorted by name.

    Names are normalized. If several distributions have a name, the first folder's counts, as in an import.

    Args:
        folders: The folders of the import path, in order.
    """
    links = {link.stem.lower() for folder in folders for link in folder.glob("*.egg-link")}
    distributions: dict[str, dict[str, str]] = {}
    for folder in folders:
        for record in sorted(folder.iterdir()):
            if record.suffix == ".dist-info":
                metadata = headers(record / "METADATA")
            elif record.suffix == ".egg-info":
                metadata = headers(record / "PKG-INFO" if record.is_dir() else record)
            else:
                continue
            if "name" in metadata and "version" in metadata:
                name = re.sub(r"[-_.]+", "-", metadata["name"]).lower()
                linked = record.suffix == ".egg-info" and metadata["name"].lower() in links
                distributions.setdefault(
                    name,
                    {
                        "name": name,
                        "version": metadata["version"],
                        "origin": "editable" if linked else origin(record),
                    },
                )
    return [distributions[name] for name in sorted(distributions)]


def main() -> None:
    """Print the facts about this interpreter as a line of JSON: an object with four keys.

    `version` is the version of Python, `prefix` the environment's folder, `installed` a list of distributions (`name`,
    `version`, `origin`), and `markers` the variables of environment markers (PEP 508).
    """
    folders: list[Path] = []
    for entry in sys.path:
        folder = Path(entry or ".").resolve()
        if folder.is_dir() and os.access(str(folder), os.R_OK) and folder not in folders:
            folders.append(folder)
    version = ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info.releaselevel != "final":
        version += f"{sys.version_info.releaselevel[0]}{sys.version_info.serial}"
    facts = {
        "version": version,
        "prefix": sys.prefix,
        "installed": _list_installed(folders),
        "markers": {
            "implementation_name": sys.implementation.name,
            "implementation_version": version,
            "os_name": os.name,
            "platform_machine": platform.machine(),
            "platform_python_implementation": platform.python_implementation(),
            "platform_release": platform.release(),
            "platform_system": platform.system(),
            "platform_version": platform.version(),
            "python_full_version": version,
            "python_version": ".".join(str(part) for part in sys.version_info[:2]),
            "sys_platform": sys.platform,
        },
    }
    sys.stdout.write("\n" + json.dumps(facts) + "\n")


if __name__ == "__main__":
    main()
