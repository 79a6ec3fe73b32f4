"""Campaign files: YAML, TOML or JSON (schema `campaign`), and the files and presets that they extend.

The user who runs a file need not have read it. A file is data; it extends only files below its own directory, and
its cases may set no more than those of a spec file (`dlperf_sdk.planning.spec_file`). Here, a data folder is
resolved against the directory of the file that names it. What the cases execute is checked on the expanded cases
(`campaign.expand_cases`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs
from attrs import frozen

from dlperf_sdk.campaigns.campaign import Block, Campaign, Excluded, Settings
from dlperf_sdk.campaigns.matrix import Matrix, Override, flatten_fields, merge_layers
from dlperf_sdk.campaigns.misplaced_fields import explain_misplaced_fields
from dlperf_sdk.campaigns.predicate import predicate
from dlperf_sdk.documents import diagnostics, source_positions
from dlperf_sdk.documents.json_values import format_value
from dlperf_sdk.documents.reading import load_document
from dlperf_sdk.errors import CampaignError, DocumentError, PluginError, UnknownName, UsageError
from dlperf_sdk.folders import follow_links
from dlperf_sdk.planning.spec_file import resolve_data
from dlperf_sdk.registry.plugins import Registry

PRESETS = "presets"
"""The group of the plugins that are presets: each is the `Path` of a campaign file."""
PRESET = "preset:"
ALL = "all"
"""Value of the axis `framework` that stands for all installed frameworks."""
_MATRIX = ("fields", "axes", "zip", "include", "exclude")
CAMPAIGN_VERSION = "1.0"
DEEPEST = 20
"""Maximum length of a chain of files that extend one another."""
_OWN_KEYS = {*_MATRIX, "name", "overrides", "matrices", "extends"}
"""Keys that a spec file does not have."""


def list_presets() -> tuple[str, ...]:
    """Return the names of the installed presets, sorted."""
    return Registry().names(PRESETS)


def is_campaign(source: str) -> bool:
    """Return True if the source is a campaign: a text `preset:…`, or a file with a key that only campaign files have.

    The result is False for the file of one case, for a file that cannot be read, and if there is no such file. It
    is not checked that a preset exists.
    """
    if source.startswith(PRESET):
        return True
    try:
        return Path(source).is_file() and bool(_OWN_KEYS & set(load_document(Path(source))))
    except DocumentError:
        return False


def load_campaign(source: str | Path) -> Campaign:
    """Load a campaign from a file or a preset.

    Args:
        source: The path of a YAML, TOML or JSON file, or `preset:NAME`.

    Raises:
        CampaignError: The file, or one that it extends, is invalid. The message has a line `FILE:LINE: …` for each
            mistake.
        DocumentError: A file cannot be read or parsed.
        UnknownName: There is no such preset; or the source has no suffix and is not a file.
        PluginError: The distribution of the preset does not work, or two distributions have it.
    """
    name, path = str(source), Path(source)
    if name.startswith(PRESET):
        return _load(_preset(name), (), {})
    if not path.suffix and not path.exists():
        presets = [f"{PRESET}{preset}" for preset in list_presets()]
        raise UnknownName("campaign", name, presets, "Or name a file: .yaml, .toml or .json.")
    return _load(_File(path, path.parent, str(path)), (), {})


@frozen
class _File:
    """A campaign file, the directory that the paths of its data folders are relative to, and its name for users."""

    path: Path
    data: Path
    name: str


@frozen
class _Text:
    """A document, with the positions of its keys in the file."""

    file: _File
    document: Mapping[str, Any]
    lines: Mapping[source_positions.Place, int]

    def locate(self, *place: str | int) -> str:
        return source_positions.location(self.file.name, self.lines, place)

    def refusal(self, error: Exception, *place: str | int) -> CampaignError:
        return CampaignError(f"{self.locate(*place)}: {error}")


def _load(source: _File, ancestors: tuple[Path, ...], known: dict[Path, Campaign]) -> Campaign:
    """Load one file. `ancestors` are the files that extend it, `known` the files already read: each is read once."""
    path = source.path
    place = follow_links(path)
    if place in known:
        return known[place]
    text = _read(source)
    document = text.document
    bases = [_load(base, (*ancestors, path), known) for base in _load_extended(text, (*ancestors, path))]
    problems: list[str] = []
    blocks = _merge_unique(base.blocks for base in bases)
    if any(key in document for key in _MATRIX):
        with diagnostics.gather_errors(problems):
            blocks.append(_make_block(text, document, ()))
    for i, matrix in enumerate(document.get("matrices", ())):
        with diagnostics.gather_errors(problems):
            blocks.append(_make_block(text, matrix, ("matrices", i)))
    exclude = _merge_unique(base.exclude for base in bases)
    for i, entry in enumerate(document.get("exclude", ())):
        with diagnostics.gather_errors(problems):
            exclude.append(
                Excluded(when=_predicate(text, entry, "exclude", i), location=text.locate("exclude", i))
            )
    overrides = _merge_unique(base.overrides for base in bases)
    for i, entry in enumerate(document.get("overrides", ())):
        with diagnostics.gather_errors(problems):
            overrides.append(_override(text, entry, i))
    if problems:
        raise CampaignError(diagnostics.join_errors(problems))
    settings = bases[-1].settings if bases else Settings()
    known[place] = Campaign(
        name=document["name"],
        description=document.get("description", ""),
        blocks=tuple(blocks),
        exclude=tuple(exclude),
        overrides=tuple(overrides),
        settings=_settings(document, settings),
        source=str(path),
    )
    return known[place]


def _merge_unique(parts: Iterable[Iterable[Any]]) -> list[Any]:
    """Return the items of all parts in order, and each object once: two files may extend the same third one."""
    return list({id(item): item for part in parts for item in part}.values())


def _read(source: _File) -> _Text:
    path = source.path
    document = load_document(path)
    places = source_positions.lines_of(path.read_text(encoding="utf-8-sig"), path.suffix.lower())
    text = _Text(source, document, places)
    try:
        problems = diagnostics.list_file_errors(
            path,
            "campaign",
            {"schema_version": CAMPAIGN_VERSION, **document},
            places,
            explain_misplaced_fields(document),
        )
    except DocumentError as error:
        raise text.refusal(error, "schema_version") from error
    if problems:
        raise CampaignError(diagnostics.join_errors(problems))
    return text


def _load_extended(text: _Text, ancestors: tuple[Path, ...]) -> list[_File]:
    """Return the files that a file extends; refuse files outside its directory and cycles."""
    files = []
    for i, name in enumerate(text.document.get("extends", ())):
        try:
            if len(ancestors) > DEEPEST:
                raise UsageError(
                    f"The files extend each other more than {DEEPEST} deep; put together what belongs together."
                )
            files.append(
                _preset(name) if name.startswith(PRESET) else _extended_file(text.file.path, name, ancestors)
            )
        except (PluginError, UsageError) as error:
            raise text.refusal(error, "extends", i) from error
    return files


def _extended_file(extending: Path, name: str, ancestors: tuple[Path, ...]) -> _File:
    """Return the file that a file extends under a name."""
    folder, path = extending.resolve().parent, extending.parent / name
    try:
        resolved = path.resolve()
        is_file = resolved.is_file()
    except (OSError, ValueError, RuntimeError) as error:  # too long, or links in a circle
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"It extends {format_value(name)}: {reason}.") from error
    if folder not in resolved.parents:
        raise UsageError(f"It extends {name}, which lies outside the file's own directory, {folder}.")
    if resolved in [ancestor.resolve() for ancestor in ancestors]:
        chain = " → ".join(str(ancestor) for ancestor in (*ancestors, path))
        raise UsageError(f"The files extend each other in a circle: {chain}.")
    if not is_file:
        raise UsageError(f"It extends {name}, but there is no such file.")
    return _File(path, path.parent, str(path))


def _preset(name: str) -> _File:
    """Return the file of `preset:NAME`. It has no data of its own: paths are relative to the current directory."""
    registry, name = Registry(), name.removeprefix(PRESET)
    path = registry.load(PRESETS, name)
    if not isinstance(path, Path):
        raise PluginError(
            f"The preset {name!r} of {registry.distribution(PRESETS, name)} is {path!r}, not the Path of a campaign "
            "file. Repair that distribution, or uninstall it."
        )
    return _File(path, Path.cwd(), f"{PRESET}{name}")


def _make_block(text: _Text, matrix: Mapping[str, Any], place: source_positions.Place) -> Block:
    shared = text.document.get("fields", {}) if place else {}
    location = text.locate(
        *place, next((key for key in ("axes", "zip", "include", *_MATRIX) if key in matrix), "")
    )
    try:
        resolved = Matrix(
            # Fields at the top of a file apply to all of its matrices.
            fields=merge_layers(
                _resolve_paths(text, shared, "fields"),
                _resolve_paths(text, matrix.get("fields", {}), *place, "fields"),
            ),
            axes=_resolve_path_lists(text, _name_frameworks(matrix.get("axes", {})), *place, "axes"),
            zip=[
                _resolve_path_lists(text, group, *place, "zip", i)
                for i, group in enumerate(matrix.get("zip", ()))
            ],
            include=[
                _resolve_paths(text, fields, *place, "include", i)
                for i, fields in enumerate(matrix.get("include", ()))
            ],
            # At the top of a file, `exclude` applies to all cases, those of extended files included.
            exclude=[
                _predicate(text, condition, *place, "exclude", i)
                for i, condition in enumerate(matrix.get("exclude", ()))
            ]
            if place
            else (),
        )
    except UnknownName as error:
        raise text.refusal(error, *_locate_field(matrix, error.name, place)) from error
    except CampaignError:
        raise
    except UsageError as error:
        raise text.refusal(error, *place, "zip" if "go together" in str(error) else "axes") from error
    places = {name: text.locate("fields", *keys) for name, keys, _ in flatten_fields(shared)}
    places |= {
        name: text.locate(*place, "fields", *keys)
        for name, keys, _ in flatten_fields(matrix.get("fields", {}))
    }
    places |= {name: text.locate(*place, "axes", name) for name in matrix.get("axes", {})}
    for i, group in enumerate(matrix.get("zip", ())):
        places |= {name: text.locate(*place, "zip", i, name) for name in group}
    includes = tuple(text.locate(*place, "include", i) for i in range(len(resolved.include)))
    spots = {(name, str(value)): text.locate("fields", *keys) for name, keys, value in flatten_fields(shared)}
    spots |= _locate_values(text, matrix, place)
    return Block(matrix=resolved, location=location, places=places, spots=spots, includes=includes)


def _locate_values(
    text: _Text, matrix: Mapping[str, Any], place: source_positions.Place
) -> dict[tuple[str, str], str]:
    """Return the `FILE:LINE` where each value of each field first occurs, by field and value as a text."""
    places: dict[tuple[str, str], str] = {}
    groups: list[tuple[source_positions.Place, Mapping[str, Any]]] = [(("axes",), matrix.get("axes", {}))]
    groups += [(("zip", i), group) for i, group in enumerate(matrix.get("zip", ()))]
    for key, group in groups:
        for name, values in group.items():
            for i, axis_value in enumerate(values):
                for field, keys, value in flatten_fields({name: axis_value}):
                    places.setdefault((field, str(value)), text.locate(*place, *key, name, i, *keys[1:]))
    layers: list[tuple[source_positions.Place, Mapping[str, Any]]] = [
        (("include", i), entry) for i, entry in enumerate(matrix.get("include", ()))
    ]
    for key, fields in [*layers, (("fields",), matrix.get("fields", {}))]:
        for name, keys, value in flatten_fields(fields):
            places.setdefault((name, str(value)), text.locate(*place, *key, *keys))
    return places


def _locate_field(
    matrix: Mapping[str, Any], name: str, place: source_positions.Place
) -> source_positions.Place:
    """Return the place of an unknown field in a matrix: its axis, its entry of `zip`, else the matrix itself."""
    if name in matrix.get("axes", {}):
        return (*place, "axes", name)
    for i, group in enumerate(matrix.get("zip", ())):
        if name in group:
            return (*place, "zip", i, name)
    return place


def _predicate(text: _Text, plain: Any, *place: str | int) -> Any:
    try:
        return predicate(plain)
    except UsageError as error:
        raise text.refusal(error, *place, getattr(error, "name", "")) from error


def _override(text: _Text, plain: Mapping[str, Any], i: int) -> tuple[Override, str]:
    condition = None if "when" not in plain else _predicate(text, plain["when"], "overrides", i, "when")
    return Override(_resolve_paths(text, plain["set"], "overrides", i, "set"), condition), text.locate(
        "overrides", i
    )


def _resolve_paths(text: _Text, fields: Mapping[str, Any], *place: str | int) -> dict[str, Any]:
    try:
        return resolve_data(fields, text.file.data / text.file.path.name)
    except UsageError as error:
        raise text.refusal(error, *place) from error


def _resolve_path_lists(text: _Text, axes: Mapping[str, Any], *place: str | int) -> dict[str, list[Any]]:
    return {
        name: [_resolve_paths(text, {name: value}, *place, name)[name] for value in values]
        for name, values in axes.items()
    }


def _name_frameworks(axes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the axes with the names of all installed frameworks in place of `ALL`."""
    values = axes.get("framework", ())
    if ALL not in values:
        return dict(axes)
    names = Registry().names("frameworks")
    return {
        **axes,
        "framework": [name for value in values for name in (names if value == ALL else (value,))],
    }


def _settings(document: Mapping[str, Any], base: Settings) -> Settings:
    """Return the settings of `base`, overridden by those that the document gives."""
    order, limits, quiet = (document.get(key, {}) for key in ("order", "limits", "quiet"))
    settings = {
        "seed": order.get("seed"),
        "interleave": order.get("interleave"),
        "retry": {**base.retry, **document["retry"]} if "retry" in document else None,
        "case_limit": limits.get("case"),
        "campaign_limit": limits.get("campaign"),
        "cooldown": document.get("cooldown"),
        "quiet_share": quiet.get("share"),
        "quiet_wait": quiet.get("wait"),
        "missing": document.get("missing"),
        "max_cases": document.get("max_cases"),
        "trace": document.get("trace"),
    }
    return attrs.evolve(base, **{name: value for name, value in settings.items() if value is not None})
