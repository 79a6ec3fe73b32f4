"""Measurement of both sides of a gate in one interleaved campaign, and the pairs of such a campaign."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from dlperf_sdk.cli.flags import parse_scalar
from dlperf_sdk.errors import UsageError
from dlperf_sdk.folders import CAMPAIGNS

if TYPE_CHECKING:
    from dlperf_sdk.campaigns.campaign_directory import CampaignDirectory
    from dlperf_sdk.results.result import Result


@contextmanager
def measuring_interleaved(
    source: str, against: Sequence[str], repeats: int | None, output: Path | None, quiet: bool
) -> Iterator[tuple[CampaignDirectory, Callable[[int], None]]]:
    """Return a context manager that measures the cases of a spec or campaign file and their baselines in one campaign.

    On entry, it runs the campaign to its end. The value of the context manager is a pair: the campaign's directory, and
    a function that takes the exit code of this process. If this process is the controller of a job, the job's other
    processes end with this code, too; they do not execute the block.

    Args:
        source: A spec file, a campaign file or a preset with the candidate's cases.
        against: The words of `--against`: one name of a baseline, or any number of FIELD=VALUE.
        repeats: Number of pairs; None: that of the protocol.
        output: The campaign's directory; None: a new one in `dlperf-campaigns`.
        quiet: True to show no progress.

    Raises:
        UsageError: `against` is malformed or names nothing that exists, or the two sides are not comparable.
        UnknownName, SpecError, DocumentError, CampaignError: A side is invalid; nothing was started.
        StoreError: The directory cannot be used; no case was started.
        PluginError: A plugin that is needed does not work.
        Unavailable: The directory could no longer be written.
        KeyboardInterrupt: The user pressed Ctrl-C; the message says how to continue.
        SystemExit, LostNode: This process belongs to a job, and another process of it is the controller.
    """
    from dlperf_sdk.campaigns.campaign_directory import create_campaign
    from dlperf_sdk.campaigns.interleaved import baseline_cases, load_cases, make_interleaved
    from dlperf_sdk.campaigns.planning import list_runnable, plan_campaign
    from dlperf_sdk.cli.campaigning import run_shown
    from dlperf_sdk.execution.controlling import controlling
    from dlperf_sdk.registry.plugins import Registry

    candidates, settings = load_cases(source)
    baselines = baseline_cases(candidates, _baseline(against))
    if repeats is not None:
        candidates, baselines = (
            [attrs.evolve(spec, repeats=repeats) for spec in side] for side in (candidates, baselines)
        )
    campaign = make_interleaved(candidates, baselines, settings)
    stamp, entries = plan_campaign(campaign, Registry())
    path = CAMPAIGNS / f"{stamp}-{campaign.name}" if output is None else output
    with controlling(list_runnable(entries), Registry()) as set_exit_code:
        yield run_shown(create_campaign(path, campaign, entries, stamp), quiet).directory, set_exit_code


def pairs_in(path: Path) -> tuple[list[tuple[Result, Result]], list[str]]:
    """Return the cases in the directory of an interleaved gate that are measured, and the labels of the others.

    Args:
        path: The directory.

    Returns:
        For each case that both sides have concluded, successfully or not, the results of baseline and candidate with
        all their repeats, in the order of the campaign; and the labels of the candidate's other cases.

    Raises:
        UsageError: The directory is not that of an interleaved gate.
        StoreError, DocumentError, UnknownName: The campaign or a result cannot be read.
    """
    from dlperf_sdk.campaigns.campaign_directory import open_campaign
    from dlperf_sdk.campaigns.interleaved import finished_pairs, is_interleaved

    if not path.exists():
        raise UsageError(f"{path} does not exist. Name the directory of an interleaved gate.")
    directory = open_campaign(path) if (path / "campaign.json").is_file() else None
    if directory is None or not is_interleaved(directory):
        raise UsageError(
            f"{path} is not the directory of an interleaved gate. Write `dlperf gate BASELINE CANDIDATE`, or measure "
            "both sides now: `dlperf gate CASES --against BASELINE`."
        )
    unfinished: list[str] = []
    return list(finished_pairs(directory, unfinished)), unfinished


def _baseline(against: Sequence[str]) -> str | Mapping[str, Any]:
    """Return the one name that `--against` gives, or the fields that it changes."""
    if len(against) == 1 and "=" not in against[0]:
        return against[0]
    fields: dict[str, Any] = {}
    for text in against:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise UsageError(
                f"--against {text}: give one spec file or environment, or FIELD=VALUE as often as needed."
            )
        if name.startswith("env."):
            fields.setdefault("env", {})[name.removeprefix("env.")] = value
        else:
            fields[name] = parse_scalar(value)
    return fields
