"""Directories of runs and of campaigns: where the runs are, and what to say where none are."""

from __future__ import annotations

from pathlib import Path

from dlperf_sdk.errors import StoreError


def runs_in(path: Path) -> Path:
    """Return the directory that contains the runs: `runs` in a campaign's directory, else the given directory.

    A campaign's directory is one with a file `campaign.json`. The returned directory may not exist.
    """
    return path / "runs" if (path / "campaign.json").is_file() else path


def refuse_campaign(directory: Path) -> None:
    """Check that a directory is not that of a campaign, whose runs are in the directory `runs` below it.

    A directory that does not exist passes.

    Raises:
        StoreError: The directory has a file `campaign.json`.
    """
    if runs_in(directory) != directory:
        raise campaign_error(directory)


def refuse_only_campaigns(directory: Path) -> None:
    """Check that a directory, which has no runs itself, has no campaign one or two levels below it.

    If it has one, the user probably means the runs of that campaign. Whether the directory has runs is not checked.

    Raises:
        StoreError: There is a campaign's directory one or two levels below; the message names the runs of one.
    """
    if campaigns := _campaigns_below(directory):
        raise StoreError(_name_campaign(directory, campaigns, runs_in(campaigns[-1])))


def _campaigns_below(place: Path) -> list[Path]:
    files = (path for pattern in ("*", "*/*") for path in place.glob(f"{pattern}/campaign.json"))
    return sorted(path.parent for path in files if path.is_file())


def campaign_error(directory: Path) -> StoreError:
    """Return an error which says that `directory` is that of a campaign, and names the directory of the runs."""
    runs = runs_in(directory)
    return StoreError(f"{directory} is the directory of a campaign. Its runs are in {runs}: give that path.")


def explain_absence(directory: str | Path) -> str:
    """Return one or two sentences for the user who looks for results in a store that has none.

    If the store belongs to a campaign, they say how to continue it. Otherwise, if there are files of
    results, they say that none can be used; if there are campaigns one or two levels below, they name one of these;
    if there is nothing, they say how to add a result.

    Args:
        directory: The store's directory, or that of a campaign; it need not exist.
    """
    place = Path(directory)
    for campaign in (place, place.parent):
        if runs_in(campaign) != campaign and place in (campaign, runs_in(campaign)):
            return f"The campaign {campaign} has no results yet: `dlperf campaign resume {campaign}` continues it."
    if next(place.glob("*/result.json"), None) is not None:
        return (
            f"The results in {directory} cannot be read, or have no throughput: `dlperf validate {directory}` names "
            "those that cannot be read."
        )
    campaigns = _campaigns_below(place)
    if not campaigns:
        return (
            f"There are no results in {directory} yet: `dlperf run … --output {directory}` adds one. --store names "
            "another directory."
        )
    return _name_campaign(directory, campaigns, campaigns[-1])


def _name_campaign(directory: str | Path, campaigns: list[Path], example: Path) -> str:
    """Return the advice to name a campaign, such as `example`, in place of `directory`."""
    return (
        f"There are no results in {directory} itself, but in campaigns below it ({len(campaigns)} found). Name one of "
        f"them instead, such as {example}."
    )
