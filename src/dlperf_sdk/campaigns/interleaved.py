"""Interleaved campaigns of a baseline and a candidate: the two repeats of a pair run one after the other.

The order is drawn for each pair anew. Therefore drift, and differences between days, affect both sides alike. If
neither side is faster, both signs of a pair's difference are equally probable.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from dlperf_sdk import environments, folders
from dlperf_sdk.campaigns.campaign import Block, Campaign, Settings, expand_cases
from dlperf_sdk.campaigns.campaign_directory import CampaignDirectory
from dlperf_sdk.campaigns.file import PRESET, is_campaign, load_campaign
from dlperf_sdk.campaigns.matrix import Matrix, check_field, merge_layers
from dlperf_sdk.errors import UnknownName, UsageError
from dlperf_sdk.planning.spec_file import load_spec
from dlperf_sdk.results.result import Result
from dlperf_sdk.spec.run_spec import RunSpec

SIDES = 2
"""Number of cases of a pair: the baseline and the candidate."""


def load_cases(source: str) -> tuple[list[RunSpec], Settings]:
    """Return the cases of a spec file, a campaign file or a preset, and the settings of its campaign.

    A spec file has one case and the default settings.

    Args:
        source: The path of a file, or `preset:NAME`.

    Raises:
        UsageError: The source cannot be read, or has impossible values. The exception may be of a subclass, such as
            `CampaignError`.
        PluginError: The distribution of the preset does not work.
    """
    if is_campaign(source):
        campaign = load_campaign(source)
        return [case.spec for case in expand_cases(campaign, "")], campaign.settings
    return [load_spec(Path(source))], Settings()


def baseline_cases(candidates: Sequence[RunSpec], baseline: str | Mapping[str, Any]) -> list[RunSpec]:
    """Return the baseline of each candidate, in order.

    Args:
        candidates: The cases of the candidate.
        baseline: What is different in the baseline. A mapping: fields to change in each case. A string: a spec
            file, a campaign file or a preset with as many cases as the candidate; or the environment of all baselines:
            the path of an interpreter or of an environment's directory, or the name of a managed environment.

    Raises:
        UsageError: The baseline does not fit the candidates, its file is invalid, or its path does not exist.
        UnknownName: The baseline is none of these, or a field does not exist.
        PluginError: The distribution of the preset does not work.
    """
    if isinstance(baseline, Mapping):
        return [_changed(candidate, baseline) for candidate in candidates]
    path = folders.expand_home(baseline)
    if baseline.startswith(PRESET) or path.suffix in (".yaml", ".yml", ".toml", ".json"):
        baselines, _ = load_cases(baseline)
        if len(baselines) != len(candidates):
            raise UsageError(
                f"The candidate has {len(candidates)} cases, and {baseline} has {len(baselines)}. Cases are paired in "
                "their order: give files with equally many."
            )
        return baselines
    if path.exists():
        return [attrs.evolve(candidate, python=baseline) for candidate in candidates]
    if os.sep in baseline:
        raise UsageError(
            f"{baseline} does not exist. Name an interpreter, an environment's folder or a spec file."
        )
    managed = {item.name: item for item in environments.list_environments() if item.complete}
    if baseline not in managed:
        raise UnknownName("spec file, managed environment or interpreter", baseline, managed)
    environment = managed[baseline]
    for candidate in candidates:
        if candidate.framework != environment.framework:
            raise UsageError(
                f"{baseline} is an environment of {environment.framework}, and the candidate has the case "
                f"{candidate.label}. Leave out the cases of other frameworks."
            )
    return [attrs.evolve(candidate, python=str(environment.path / "venv")) for candidate in candidates]


def make_interleaved(
    candidates: Sequence[RunSpec], baselines: Sequence[RunSpec], settings: Settings
) -> Campaign:
    """Return a campaign whose list of cases has each baseline directly before its candidate.

    In each repeat, the two cases of a pair are measured one directly after the other, in random order.

    Args:
        candidates: The cases of the candidate.
        baselines: The baseline of each candidate, in the same order; as many as candidates.
        settings: Settings of the candidate's campaign. Those for order, adjacency and missing plugins are replaced.

    Raises:
        UsageError: The two sides of a pair are equal, or differ in workload or protocol; a case occurs twice; or
            the number of repeats is not fixed.
    """
    for baseline, candidate in zip(baselines, candidates, strict=True):
        _check_pair(baseline, candidate)
    sides = [*baselines, *candidates]
    for number, spec in enumerate(sides):
        if spec in sides[:number]:
            raise UsageError(
                f"{spec.label} would be measured for two pairs. Leave out the cases that are equal on one side."
            )
    include = [
        {name: value for name, value in spec.to_dict().items() if name != "schema_version"}
        for pair in zip(baselines, candidates, strict=True)
        for spec in pair
    ]
    chosen = attrs.evolve(
        settings, seed=secrets.randbelow(2**31), interleave=True, adjacent=SIDES, missing="refuse"
    )
    return Campaign(name="gate", blocks=(Block(matrix=Matrix(include=include)),), settings=chosen)


def is_interleaved(directory: CampaignDirectory) -> bool:
    """Return True if the campaign measures a baseline and a candidate in interleaved pairs."""
    return directory.settings.adjacent == SIDES


def finished_pairs(directory: CampaignDirectory, unfinished: list[str]) -> Iterator[tuple[Result, Result]]:
    """Yield (baseline, candidate), the results of each pair that is concluded on both sides, in the campaign's order.

    Args:
        directory: The directory of an interleaved campaign.
        unfinished: List to which the candidate's label is appended for each pair that is not concluded on both sides.

    Raises:
        StoreError, DocumentError: A result cannot be read.
    """
    for baseline, candidate in zip(directory.cases[::SIDES], directory.cases[1::SIDES], strict=True):
        if all(
            (directory.store.directory / case.id / "result.json").exists() for case in (baseline, candidate)
        ):
            yield directory.store.load(baseline.id), directory.store.load(candidate.id)
        else:
            unfinished.append(candidate.spec.label)


def _changed(spec: RunSpec, fields: Mapping[str, Any]) -> RunSpec:
    for name in fields:
        check_field(name)
    plain = {name: value for name, value in spec.to_dict().items() if name != "schema_version"}
    return RunSpec(**merge_layers(plain, fields))


def _check_pair(baseline: RunSpec, candidate: RunSpec) -> None:
    """Refuse a pair that cannot be compared before anything is measured."""
    if baseline == candidate:
        raise UsageError(
            f"{candidate.label} is the same case on both sides. --against must differ from it: another environment, "
            "or other values of fields."
        )
    for field in attrs.fields(RunSpec):
        base, value = getattr(baseline, field.name), getattr(candidate, field.name)
        if field.metadata["role"] == "workload" and base != value:
            raise UsageError(
                f"The two sides of {candidate.label} do not measure equal work: {field.name} {base} against {value}."
            )
    protocols = baseline.resolved_protocol(), candidate.resolved_protocol()
    if any(protocol.target is not None for protocol in protocols):
        raise UsageError(
            f"{candidate.label} has an adaptive protocol; pairs need equally many repeats on both sides. Give "
            "--repeats, or another protocol."
        )
    if protocols[0] != protocols[1]:
        raise UsageError(
            f"The two sides of {candidate.label} differ in their protocol (canonical_steps, warmup, steps or repeats). "
            "Give both the same."
        )
