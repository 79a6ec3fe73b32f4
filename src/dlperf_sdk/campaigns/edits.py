"""Changes in a campaign's file since the campaign was started. A campaign continues as it was resolved at its start."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from dlperf_sdk.campaigns.campaign import Settings, expand_cases, make_campaign
from dlperf_sdk.campaigns.campaign_directory import CampaignDirectory
from dlperf_sdk.campaigns.file import load_campaign
from dlperf_sdk.documents.json_values import format_value
from dlperf_sdk.errors import DlperfError
from dlperf_sdk.reports.numbers import format_count
from dlperf_sdk.spec.run_spec import RunSpec

MAX_LISTED = 5
"""Maximum number of cases that a sentence names; the others are counted."""
_KIND = ("framework", "model")
"""Fields that identify a case: a case in which they differ is another case, not an edited one."""

Plain = Mapping[str, Any]


def describe_edits(directory: CampaignDirectory) -> list[str]:
    """Return a sentence for each difference between a campaign and the current content of its file.

    After these sentences, the list has one with advice. The list is empty if there is no difference, and for a campaign
    without a file. If the file cannot be read any more, the list has a single text with the reason and the advice.
    Comments, the order of keys, and settings that were given in place of the file's make no difference.
    """
    if directory.source is None:
        return []
    overrides = {name: getattr(directory.settings, name) for name in directory.overridden}
    try:
        now = make_campaign(load_campaign(Path(directory.source)), **overrides)
        specs = [case.spec for case in expand_cases(now, directory.stamp)]
    except DlperfError as error:
        return [f"{directory.source} cannot be read as a campaign any more: {error} {_advice(directory)}"]
    changes = differences([*(case.spec for case in directory.cases), *directory.skipped], specs)
    changes += _settings(directory.settings, now.settings)
    return [f"{directory.source} was edited since the start: {change}" for change in changes] + (
        [_advice(directory)] if changes else []
    )


def differences(before: Sequence[RunSpec], now: Sequence[RunSpec]) -> list[str]:
    """Return sentences on the cases that were edited, removed and added between the specs `before` and `now`.

    Edited cases come first, then removed, then added ones. The list is empty if the specs are equal, in whatever order.
    A sentence names at most `MAX_LISTED` (5) cases, and the number of the others.
    """
    old, new = _index_by_text(before), _index_by_text(now)
    removed = [spec for text, spec in old.items() if text not in new]
    added = [spec for text, spec in new.items() if text not in old]
    changed, removed, added = _pair_cases(removed, added)
    sentences = [
        f"{format_count(len(cases), 'case')} {'has' if len(cases) == 1 else 'have'} {edit} ({_names(cases)})."
        for edit, cases in changed.items()
    ]
    for cases, state in ((removed, "no longer in it"), (added, "new in it")):
        if cases:
            sentences.append(f"{format_count(len(cases), 'case')} {state} ({_names(cases)}).")
    return sentences


def _index_by_text(specs: Sequence[RunSpec]) -> dict[str, RunSpec]:
    return {_text(spec.to_dict()): spec for spec in specs}


def _pair_cases(
    removed: Sequence[RunSpec], added: Sequence[RunSpec]
) -> tuple[dict[str, list[RunSpec]], list[RunSpec], list[RunSpec]]:
    """Pair cases that differ only in edited fields, and return them by edit, with the cases left on both sides.

    A field was edited where the values that are gone are not those that are new.
    """
    old, new = [spec.to_dict() for spec in removed], [spec.to_dict() for spec in added]
    edited = [
        name
        for name in (old[0] if old else ())
        if name not in _KIND and {_text(item[name]) for item in old} != {_text(item[name]) for item in new}
    ]
    partners: dict[str, list[int]] = defaultdict(list)
    for i, plain in enumerate(new):
        partners[_format_without(plain, edited)].append(i)
    changed: dict[str, list[RunSpec]] = {}
    unpaired: list[RunSpec] = []
    paired: set[int] = set()
    for spec, plain in zip(removed, old, strict=True):
        candidates = partners[_format_without(plain, edited)]
        if not candidates:
            unpaired.append(spec)
            continue
        i = candidates.pop(0)
        paired.add(i)
        edit = ", ".join(
            f"{name} {format_value(new[i][name])} instead of {format_value(plain[name])}"
            for name in edited
            if plain[name] != new[i][name]
        )
        changed.setdefault(edit, []).append(spec)
    return changed, unpaired, [spec for i, spec in enumerate(added) if i not in paired]


def _format_without(plain: Plain, excluded: Sequence[str]) -> str:
    return _text({name: value for name, value in plain.items() if name not in excluded})


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _settings(before: Settings, now: Settings) -> list[str]:
    old, new = attrs.asdict(before), attrs.asdict(now)
    return [
        f"the setting {name} is {format_value(new[name])} instead of {format_value(old[name])}."
        for name in old
        if old[name] != new[name]
    ]


def _names(cases: Sequence[RunSpec]) -> str:
    names = [case.label for case in cases[:MAX_LISTED]]
    return "; ".join(names) + (f"; and {len(cases) - MAX_LISTED:,} more" if len(cases) > MAX_LISTED else "")


def _advice(directory: CampaignDirectory) -> str:
    return (
        f"{directory.path} continues with the cases that it started with. To measure other cases, start another "
        "campaign: `dlperf campaign run FILE`."
    )
