"""Distributions made on the spot: a folder on `sys.path` with a module and its metadata."""

from __future__ import annotations

import textwrap
from pathlib import Path


def distribution(
    folder: Path,
    name: str,
    entry_points: dict[str, dict[str, str]],
    modules: dict[str, str],
    *,
    metadata: bool = True,
) -> None:
    """Install a distribution `name` 1.0: entry points by group, and modules by name."""
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    if metadata:
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines: list[str] = []
    for group, entries in entry_points.items():
        lines += [f"[{group}]", *(f"{key} = {value}" for key, value in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    for module, source in modules.items():
        (folder / f"{module}.py").write_text(textwrap.dedent(source))
