"""A campaign's directory: the definition, the journal, and the runs.

::

    DIR/
        campaign.json     the resolved cases, the skipped cases and the settings; written once
        journal.jsonl     what has happened, one entry per line
        lock              held by the controller
        runs/RUN-ID/      an ordinary run directory per case
        set-aside/        runs of another spec, and attempts that changed after they had ended
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import attrs
from attrs import field, frozen

from dlperf_sdk import __version__
from dlperf_sdk.campaigns import journal
from dlperf_sdk.campaigns.campaign import Campaign, CampaignCase, Settings
from dlperf_sdk.campaigns.planning import MISSING, Entry
from dlperf_sdk.documents.json_values import format_value
from dlperf_sdk.documents.reading import LARGEST_RESULT, load_document
from dlperf_sdk.errors import DocumentError, StoreError
from dlperf_sdk.planning.secret_variables import list_requested_variables
from dlperf_sdk.planning.spec_file import check_allowed
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.files import directory_of, explain_os_errors, write_whole
from dlperf_sdk.results.store import ResultStore, check_id
from dlperf_sdk.spec.run_spec import RunSpec

_SET_ASIDE = "set-aside"
DIRECTORY_VERSION = "1.0"


@frozen
class CampaignDirectory:
    """A campaign in its directory."""

    path: Path
    """The directory."""
    name: str
    """Name of the campaign."""
    stamp: str
    """Prefix of the ids of the campaign's cases."""
    source: str | None
    """Absolute path of the campaign's file; None for a campaign made in Python."""
    settings: Settings
    """Settings for the execution."""
    cases: tuple[CampaignCase, ...]
    """The cases to measure, in the campaign's order."""
    skipped: tuple[RunSpec, ...]
    """Specs of the cases that were skipped, because something that they need was missing."""
    overridden: tuple[str, ...]
    """Names of the settings that were given in place of the file's."""
    journal: journal.Journal = field(init=False)
    """The journal, `journal.jsonl`."""
    store: ResultStore = field(init=False)
    """The store with the runs, `runs`."""

    def __attrs_post_init__(self) -> None:
        ids = [case.id for case in self.cases]
        object.__setattr__(self, "journal", journal.Journal(self.path / "journal.jsonl", ids))
        object.__setattr__(self, "store", ResultStore(self.path / "runs"))

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Return a context manager in which this process holds the campaign's lock, as its only controller.

        Raises:
            StoreError: Another controller holds the lock, or the file `lock` cannot be created; or a folder that the
                campaign writes to is a symbolic link, which may lead out of the campaign's directory.
        """
        for folder in (self.store.directory, self.path / _SET_ASIDE):
            if folder.is_symlink():
                raise StoreError(
                    f"{folder} is a symbolic link, and a campaign is not written through links: remove it."
                )
        with journal.lock(self.path / "lock"):
            yield

    def set_aside(self, id: str, attempt: int | None = None) -> Path:
        """Move a run, or one attempt of it, into the campaign's folder `set-aside`, and return the new path.

        The campaign no longer takes the moved files into account. None of them is deleted.

        Args:
            id: Id of the case.
            attempt: Number of the attempt to move; None moves the whole run.

        Raises:
            StoreError: The run or the attempt cannot be moved.
        """
        folder, run = self.path / _SET_ASIDE, self.store.directory / id
        source, name = (
            (run, id) if attempt is None else (run / "attempts" / str(attempt), f"{id}-attempt-{attempt}")
        )
        with explain_os_errors(folder):
            folder.mkdir(mode=0o700, exist_ok=True)
            place = next(p for n in count(1) if not (p := folder / f"{name}-{n}").exists())
            source.rename(place)
        return place

    def is_locked(self) -> bool:
        """Return True if a controller holds the campaign's lock now."""
        return journal.is_locked(self.path / "lock")


def create_campaign(path: Path, campaign: Campaign, entries: list[Entry], stamp: str) -> CampaignDirectory:
    """Create the directory of a new campaign, and write its `campaign.json`.

    Args:
        path: The directory. It may exist, but not contain a campaign.
        campaign: The campaign.
        entries: Its cases, as `plan_campaign` returns them. Cases whose refusal is `missing` are skipped.
        stamp: The campaign's stamp, with which the ids of its cases begin.

    Raises:
        StoreError: The directory contains a campaign, or cannot be created or written.
    """
    _check_free(path)
    missing = {e.case.id: e.refusal[1] for e in entries if e.refusal is not None and e.refusal[0] == MISSING}
    cases = tuple(entry.case for entry in entries if entry.case.id not in missing)
    skipped = tuple(entry.case for entry in entries if entry.case.id in missing)
    source = None if campaign.source is None else str(Path(campaign.source).resolve())
    specs = tuple(skipped_case.spec for skipped_case in skipped)
    directory = CampaignDirectory(
        path, campaign.name, stamp, source, campaign.settings, cases, specs, campaign.overridden
    )
    document = {
        "schema_version": DIRECTORY_VERSION,
        "sdk_version": __version__,
        "name": campaign.name,
        "description": campaign.description,
        "stamp": stamp,
        "source": source,
        "settings": attrs.asdict(campaign.settings),
        "overridden": list(campaign.overridden),
        "order": "of a round: the cases in the order of this file, shuffled by a seed of the settings' and the round's",
        "cases": [{"id": case.id, "from": case.location, "spec": case.spec.to_dict()} for case in cases],
        "skipped": [
            {
                "id": skipped_case.id,
                "from": skipped_case.location,
                "spec": skipped_case.spec.to_dict(),
                "reason": missing[skipped_case.id],
            }
            for skipped_case in skipped
        ],
    }
    with explain_os_errors(path):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    with directory.lock():
        _check_free(path)  # another controller may have created one meanwhile
        directory.store.probe()
        with explain_os_errors(path), directory_of(path, ()) as descriptor:
            write_whole(descriptor, "campaign.json", (json.dumps(document, indent=1) + "\n").encode())
    return directory


def _check_free(path: Path) -> None:
    if (path / "campaign.json").exists():
        raise StoreError(
            f"There is a campaign in {path} already. Go on with it: `dlperf campaign resume {path}`; or choose "
            "another directory with --output."
        )


def open_campaign(path: Path) -> CampaignDirectory:
    """Return the campaign in a directory. Nothing is written.

    Args:
        path: The directory.

    Raises:
        StoreError: There is no campaign in the directory, or the id of a case cannot name a run.
        DocumentError: `campaign.json` cannot be read, is of another major version, or is malformed.
        UnknownName: A case or a setting has a name that does not exist.
    """
    file = path / "campaign.json"
    if not file.is_file():
        raise StoreError(
            f"There is no campaign in {path}: it has no campaign.json. Start one: `dlperf campaign run FILE`."
        )
    document = load_document(file, LARGEST_RESULT)
    version = str(document.get("schema_version"))
    if version.partition(".")[0] != DIRECTORY_VERSION.partition(".")[0]:
        raise DocumentError(f"{file} is of version {version}, this dlperf-sdk reads {DIRECTORY_VERSION}.")
    try:
        return CampaignDirectory(
            path,
            _text(document["name"]),
            _text(document["stamp"]),
            None if document["source"] is None else _text(document["source"]),
            _settings(document["settings"]),
            tuple(_case_from(entry) for entry in document["cases"]),
            tuple(_case_from(entry).spec for entry in document["skipped"]),
            tuple(map(_text, document["overridden"])),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DocumentError(f"{file} does not describe a campaign: {error!r}.") from error


def reopen_campaign(
    path: Path, allow: Collection[str] = (), registry: Registry | None = None
) -> CampaignDirectory:
    """Return the campaign in a directory to continue it, after a check that its cases are allowed and possible here.

    Args:
        path: The directory.
        allow: Names of settings that decide what is executed, such as `python`, and that are accepted from
            `campaign.json`. Any other such setting is refused.
        registry: The plugins; None for the installed ones.

    Raises:
        StoreError: There is no campaign in the directory, or the id of a case cannot name a run.
        DocumentError: `campaign.json` cannot be read, is of another major version, or is malformed.
        UnknownName: A case or a setting has a name that does not exist.
        SpecError: A case sets something that decides what is executed and is not in `allow`, or this shell lacks the
            value of an environment variable whose hash is in the case.
    """
    directory = open_campaign(path)
    cases = (case.spec.to_dict() for case in directory.cases)
    check_allowed(cases, str(path / "campaign.json"), allow, registry or Registry())
    for case in directory.cases:
        list_requested_variables(case.spec)
    return directory


def _case_from(entry: Mapping[str, Any]) -> CampaignCase:
    check_id(entry["id"])  # it names a directory, and the file may come from anybody
    fields = {name: value for name, value in entry["spec"].items() if name != "schema_version"}
    return CampaignCase(entry["id"], RunSpec(**fields), _text(entry["from"]))


def _settings(document: Mapping[str, Any]) -> Settings:
    """Return the settings of a document, whose values are of the types of the defaults."""
    settings = Settings(**document)
    for name, default in attrs.asdict(Settings()).items():
        value = getattr(settings, name)
        if isinstance(default, bool | str):
            is_valid = type(value) is type(default)
        elif isinstance(default, dict):
            is_valid = all(type(number) is int for number in value.values())
        else:
            is_valid = value is default or type(value) in (int, float)
        if not is_valid:
            raise TypeError(f"the setting {name} is {format_value(value)}")
    return settings


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{format_value(value)} is not text")
    return value
