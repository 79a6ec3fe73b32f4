"""Lookup of the runs and results that a command's words name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import define, field

from dlperf_sdk.errors import DlperfError, StoreError

if TYPE_CHECKING:
    from dlperf_sdk.registry.plugins import Registry
    from dlperf_sdk.results.result import Result
    from dlperf_sdk.results.store import ResultStore


@define
class Matches:
    """Outcome of a lookup."""

    results: list[tuple[Result, Path | None]] = field(factory=list)
    """Each result, with the directory of its files; None if that must not be shown."""
    unfinished: list[tuple[ResultStore, str]] = field(factory=list)
    """The store and the name of each run without a result."""
    errors: list[str] = field(factory=list)
    """Messages on what could not be found or read."""


def find(selection: tuple[str, ...], directory: Path) -> Matches:
    """Return the results and unfinished runs that some words name, with messages on what cannot be found or read.

    The runs of one campaign are in the order of its plan, even if their names are given in another.

    Args:
        selection: The words: names of runs in `directory`, or paths of result files, runs, stores or campaigns.
        directory: The store in which names are looked up.

    Raises:
        StoreError: The directory or one of the words is a URL.
    """
    from dlperf_sdk.results.run_places import explain_absence, runs_in
    from dlperf_sdk.results.store import ResultStore, refuse_url

    refuse_url(str(directory), *selection)
    matches = Matches()
    for name in selection:
        path = Path(name)
        try:
            if path.is_file():
                matches.results.append((ResultStore(directory).load(path), path.parent))
            elif is_run(path):
                _take(matches, ResultStore(path.absolute().parent), path.absolute().name, path)
            elif path.is_dir():
                store = ResultStore(runs_in(path))
                ids = [run_id for run_id in _list_runs(store) if is_run(store.directory / run_id)]
                if not ids and store.directory != path:
                    raise StoreError(f"The campaign in {path} has begun no run yet.")
                if not ids:
                    raise StoreError(explain_absence(path))
                for run_id in ids:
                    _take(matches, store, run_id, store.directory / run_id)
            elif name == str(directory):
                raise StoreError(explain_absence(directory))
            elif (directory / name).is_dir() and "/" not in name:
                _take(matches, ResultStore(directory), name, directory / name)
            elif "/" in name or path.suffix == ".json":
                raise StoreError(f"There is no file or directory {name}.")
            else:
                ResultStore(directory).load(name)
        except DlperfError as error:
            matches.errors.append(str(error))
    _order_by_plan(matches.results)
    return matches


def _order_by_plan(results: list[tuple[Result, Path | None]]) -> None:
    """Move the runs of each campaign behind its first one, in the order of its plan."""
    from dlperf_sdk.results.run_places import runs_in

    plans: dict[Path, dict[str, int]] = {}
    first: dict[Path, int] = {}
    keys = {}
    for number, (result, path) in enumerate(results):
        runs = None if path is None else path.absolute().parent
        if runs is None or runs_in(runs.parent) != runs:
            keys[result.id, path] = number, 0
            continue
        if runs not in plans:
            plans[runs], first[runs] = _places_of(runs.parent), number
        keys[result.id, path] = first[runs], plans[runs].get(result.id, len(plans[runs]))
    results.sort(key=lambda entry: keys[entry[0].id, entry[1]])


def _list_runs(store: ResultStore) -> Sequence[str]:
    """Return the names of a store's runs, the newest first; those of a campaign in the order of its plan."""
    from dlperf_sdk.results.run_places import runs_in

    ids, campaign = store.ids(), store.directory.absolute().parent
    if runs_in(campaign) != store.directory.absolute():
        return ids
    places = _places_of(campaign)
    return sorted(ids, key=lambda run_id: places.get(run_id, len(places)))


def _places_of(campaign: Path) -> dict[str, int]:
    """Return the name of each run of a campaign → its place in the plan; empty if the campaign cannot be read."""
    from dlperf_sdk.campaigns.campaign_directory import open_campaign

    try:
        return {case.id: place for place, case in enumerate(open_campaign(campaign).cases)}
    except DlperfError:  # the results are as good without it
        return {}


def is_run(path: Path) -> bool:
    """Return True if the path is the directory of a run, finished or not."""
    return any((path / name).exists() for name in ("result.json", "spec.json", "attempts"))


def unit_of(model: str, registry: Registry) -> str:
    """Return the unit of a model's throughput; `samples/s` if the model's plugin cannot be loaded."""
    try:
        return registry.model(model).unit
    except DlperfError:
        return "samples/s"


def _take(matches: Matches, store: ResultStore, run_id: str, shown_as: Path) -> None:
    """Add a run's result; a run without one is added as unfinished."""
    if not (store.directory / run_id / "result.json").exists():
        matches.unfinished.append((store, run_id))
        return
    try:
        matches.results.append((store.load(store.directory / run_id), shown_as))
    except DlperfError as error:
        matches.errors.append(f"{shown_as}: {error}")
