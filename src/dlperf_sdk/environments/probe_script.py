"""Runs in a foreign interpreter, with `-I`: prints, as one line of JSON, its version, markers and contents.

Standard library only, Python 3.7 and later. Nothing of what is installed is imported: names and versions are
read from the `*.dist-info` and `*.egg-info` records that installers leave on `sys.path`.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from pathlib import Path


def headers(path: Path) -> dict[str, str]:
    """Return the fields of a METADATA or PKG-INFO file, up to its first empty line; nothing if it is unreadable."""
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
    """Return the origin of the distribution with this metadata folder: `editable`, `folder`, `archive` or `vcs`.

    It is empty for a distribution from an index.
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


def list_installed(folders: list[Path]) -> list[dict[str, str]]:
    """Return `name`, `version` and `origin` of each distribution in these folders of the import path.

    As in an import, the first one of a name counts.
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
    """Print the facts about this interpreter as JSON."""
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
        "installed": list_installed(folders),
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
