"""Write the tables of tolerances, and of how far known mistakes are apart.

    .venv/bin/python scripts/parity_document.py

Those of dlperf-sdk's models are in docs/explanation/parity.md, those of a plugin's in its parity.md.
`tests/parity/test_reference.py` compares the documents with what this writes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dlperf_sdk.interfaces.model import Model
from dlperf_sdk.parity.known_mistakes import separation
from dlperf_sdk.parity.reference import Reference, load
from dlperf_sdk.registry.plugins import Registry

ROOT = Path(__file__).resolve().parents[1]
MARK = "<!-- What follows is written by scripts/parity_document.py. -->"


def documents() -> dict[Path, list[Model]]:
    """Return a dict from the path of each document to the models that it describes.

    Installed models with references are described, if the references are in `src/` or `plugins/` of this checkout.
    """
    actual: dict[Path, list[Model]] = {}
    for model in map(Registry().model, Registry().names("models")):
        if model.references is None or not model.references.is_relative_to(ROOT):
            continue
        place, distribution, *_ = model.references.relative_to(ROOT).parts
        if place == "src":
            actual.setdefault(ROOT / "docs" / "explanation" / "parity.md", []).append(model)
        elif place == "plugins":
            actual.setdefault(ROOT / place / distribution / "parity.md", []).append(model)
    return actual


def tables(models: list[Model]) -> str:
    """Return the tables of cases, tolerances and known mistakes of models that have references, as Markdown.

    Raises:
        DocumentError: A reference cannot be read.
    """
    parts = []
    for model in models:
        assert model.references is not None
        reference = load(model.references)
        parts += [
            f"## {model.name}",
            f"Computed by {reference.source}.",
            _cases(reference, model.Options()),
            _tolerances(reference),
        ]
        parts += [_mistakes(reference), _hidden(reference)]
    return "\n\n".join(parts) + "\n"


def _cases(reference: Reference, defaults: Any) -> str:
    rows = [
        "| case | batch size | options that are not defaults | losses of one replica on shard 0, from step 0 on |",
        "|---|---|---|---|",
    ]
    for name, case in reference.cases.items():
        options = {key: value for key, value in case.options.items() if getattr(defaults, key) != value}
        shown = ", ".join(f"`{key}={value}`" for key, value in options.items())
        losses = ", ".join(f"{loss:.6f}" for loss in case.alone[0].losses)
        rows.append(f"| `{name}` | {case.batch_size} | {shown} | {losses} |")
    return "\n".join(rows)


def _tolerances(reference: Reference) -> str:
    rows = [
        "| precision | limit of each loss | limits of the first updates | limits of the running means | derivation |",
        "|---|---|---|---|---|",
    ]
    for name, one in reference.tolerances.items():
        item = f"each at most {one.parameter}, or ten times its deviation in float32 if that is more"
        has_means = any(case.alone[0].running_means for case in reference.cases.values())
        updates = "all together " + (
            f"at most {one.updates:.2g}" if has_means else f"{one.least:.2g} to {one.updates:.2g}"
        )
        means = f"all together {one.least:.2g} to {one.means:.2g}" if has_means else "none"
        held = (updates, means) if one.parameter is None else (item, item if has_means else "none")
        rows.append(f"| {name} | {one.losses:.2g} | {' | '.join(held)} | {one.reason} |")
    return "\n".join(rows)


def _mistakes(reference: Reference) -> str:
    """Per mistake and case the distance in tolerances of fp32, alone and in a pair."""
    tolerance = reference.tolerances["fp32"]
    cases = {name: case for name, case in reference.cases.items() if case.mistakes}
    columns = [(name, topology) for name in cases for topology in ("alone", "pair")]
    replicas = {"alone": "1 replica", "pair": "2 replicas"}
    heads = " | ".join(f"`{name}`, {replicas[topology]}" for name, topology in columns)
    rows = [f"| known mistake | {heads} |", "|---|" + "---:|" * len(columns)]
    names = dict.fromkeys(mistake.name for case in cases.values() for mistake in case.mistakes)
    for name in names:
        cells = []
        for of_case, topology in columns:
            actual = [
                separation(mistake, cases[of_case], tolerance)
                for mistake in cases[of_case].mistakes
                if (mistake.name, mistake.topology) == (name, topology)
            ]
            cells.append(f"{actual[0]:,.0f}×" if actual else "–")
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _hidden(reference: Reference) -> str:
    """Per precision and case the mistakes that a run need not show: not surely further from right than is allowed."""
    cases = {name: case for name, case in reference.cases.items() if case.mistakes}
    heads = " | ".join(f"known mistakes that `{name}` may not detect" for name in cases)
    rows = [f"| precision | {heads} |", "|---|" + "---|" * len(cases)]
    for precision, tolerance in reference.tolerances.items():
        cells = []
        for case in cases.values():
            names = dict.fromkeys(mistake.name for mistake in case.mistakes)
            observed = {one.name for one in case.mistakes if separation(one, case, tolerance) >= 1.0}
            cells.append("; ".join(name for name in names if name not in observed) or "none")
        rows.append(f"| {precision} | {' | '.join(cells)} |")
    return "\n".join(rows)


def main() -> None:
    """Replace the part below the mark of each document by the tables, and write the files."""
    for path, models in documents().items():
        written = path.read_text(encoding="utf-8").partition(MARK)[0]
        path.write_text(f"{written}{MARK}\n\n{tables(models)}", encoding="utf-8")


if __name__ == "__main__":
    main()
