"""Advice on fields of cases that stand beside `axes` and `fields` in a campaign file, such as `frameworks: [torch]`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dlperf_sdk.campaigns.matrix import FIELDS
from dlperf_sdk.documents.source_positions import Place

_PLURALS = {f"{name[:-1]}ies" if name.endswith("y") else f"{name}s": name for name in FIELDS}


def explain_misplaced_fields(document: Mapping[str, Any]) -> dict[Place, str]:
    """Return place → message for each key of a campaign file, or of its `matrices`, that is a field of a run spec.

    Plurals such as `frameworks` count. A place is the tuple of the keys and indexes that lead to the key from the top
    of the file. The message says where the field belongs.

    Args:
        document: The content of the campaign file, which need not follow the schema `campaign`.
    """
    matrices = document.get("matrices")
    inner = enumerate(matrices) if isinstance(matrices, list) else ()
    parts: list[tuple[Place, str, Any]] = [((), "$", document)]
    parts += [(("matrices", i), f"$.matrices[{i}]", matrix) for i, matrix in inner]
    return {
        (
            *place,
            key,
        ): f"The campaign is not valid at {path}: {key!r} is not a known key. {_advise(key, value)}"
        for place, path, part in parts
        if isinstance(part, Mapping)
        for key, value in part.items()
        if key in FIELDS or key in _PLURALS
    }


def _advise(key: str, value: Any) -> str:
    name = key if key in FIELDS else _PLURALS[key]
    if name != key or isinstance(value, list):
        return f"Write a list of values as an axis: `axes: {{{name}: […]}}`."
    return f"Write a field that all cases share under `fields`: `fields: {{{name}: …}}`."
