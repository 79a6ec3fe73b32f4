"""The tiles of the report on published figures: the fastest, the extent, the protocol and the disagreements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from dlperf_sdk.analysis.case import Case, cases
from dlperf_sdk.analysis.effects import Pair, effect
from dlperf_sdk.analysis.ranking import Ranking
from dlperf_sdk.analysis.scaling import efficiency
from dlperf_sdk.errors import AnalysisError
from dlperf_sdk.interfaces.collection import Collection
from dlperf_sdk.reports.blocks import Tone
from dlperf_sdk.reports.collection_page import (
    count_disagreements,
    describe_rounding,
    group_cells,
)
from dlperf_sdk.reports.html.page import Tile
from dlperf_sdk.reports.html.summary import fastest_tiles
from dlperf_sdk.reports.measurement_summary import sort_topologies
from dlperf_sdk.reports.numbers import format_count
from dlperf_sdk.reports.wording import join_names
from dlperf_sdk.spec.data_source import DATA_SOURCES
from dlperf_sdk.spec.stated_protocol import AS_PRESCRIBED, DEVIATES, NOT_STATED

SUMMARY_TITLE = "Coverage and protocol"
DISAGREEMENTS_TITLE = "Source disagreements"


def tiles(collection: Collection, ranked: Sequence[Ranking]) -> tuple[Tile, ...]:
    """Return the tiles of a collection's report: fastest frameworks, protocol if one is prescribed, disagreements.

    Without a ranking, tiles with the scaling efficiency and the cost of real data replace those of fastest frameworks.

    Args:
        collection: The collection of published figures.
        ranked: The rankings of its figures; may be empty.

    Raises:
        ValueError: The collection has no figure.
    """
    return (
        *(fastest_tiles(ranked, 3) or _tiles_without_ranking(cases(collection.figures))),
        *_protocol_tile(collection),
        _disagreements_tile(collection),
    )


def describe_extent(measured: Sequence[Case]) -> str:
    """Return two sentences as one text: on the largest topology of all cases, and on each model's largest batch size.

    Args:
        measured: The cases.

    Raises:
        IndexError: There is no case.
    """
    largest = sort_topologies(case.topology for case in measured)[-1]
    batches: dict[str, int] = {}
    for case in measured:
        model = str(case.facts.get("model"))
        batches[model] = max(batches.get(model, 0), case.batch_size)
    sizes = join_names(f"{size} ({model})" for model, size in batches.items())
    return (
        f"Largest topology measured: {largest} ({format_count(largest.devices, 'device')}); nothing larger is "
        f"predicted here. Largest batch measured per device: {sizes}."
    )


def _protocol_tile(collection: Collection) -> tuple[Tile, ...]:
    if collection.prescribed is None:
        return ()
    checks = Counter(figure.protocol.check(collection.prescribed) for figure in collection.figures)
    tone: Tone = "good" if set(checks) == {AS_PRESCRIBED} else "doubt"
    protocol = collection.prescribed
    text = (
        f"Prescribed: {protocol.warmup} warm-up + {protocol.steps} measured steps, {protocol.repeats} repeats. "
        f"{checks[NOT_STATED]} more do not state all of these; {checks[AS_PRESCRIBED]} follow them."
    )
    value = f"{checks[DEVIATES]} of {checks.total()}"
    return (Tile("Figures that deviate from the prescribed protocol", value, text, tone, SUMMARY_TITLE),)


def _disagreements_tile(collection: Collection) -> Tile:
    cells = group_cells(collection.disagreements())
    text = f"of {format_count(collection.count_printed_cells(), 'printed cell')}{describe_rounding(cells)}"
    if cells and (largest := cells[0][0]).difference is not None:
        document = largest.document.rpartition("/")[2]
        text += (
            f"; the number that differs most ({abs(largest.difference):.0%}) is in the cell “{largest.cell}” of "
            f"{document}: {largest.reason}"
        )
    tone: Tone = "doubt" if cells else "good"
    return Tile(
        DISAGREEMENTS_TITLE, count_disagreements(cells) or "none", f"{text}.", tone, DISAGREEMENTS_TITLE
    )


def _tiles_without_ranking(measured: Sequence[Case]) -> tuple[Tile, ...]:
    """Return tiles with the efficiencies and the cost of real data, on the largest topology, where they are known."""
    largest = max((case.topology for case in measured), key=lambda topology: topology.devices)
    on_largest = [case for case in measured if case.topology == largest]
    scaled = [(value, case) for case in on_largest if (value := efficiency(case, measured).value) is not None]
    tiles = []
    if scaled and largest.devices > 1:
        (worst, slow), (best, fast) = min(scaled, key=_first), max(scaled, key=_first)
        text = (
            f"Throughput over {largest.devices} times that of one device. Lowest: {_describe(slow)}; highest: "
            f"{_describe(fast)}."
        )
        tiles.append(
            Tile(f"Scaling efficiency on {largest}", f"{worst:.1%} to {best:.1%}", text, section="Scaling")
        )
    pairs: list[Pair] = []
    for source in DATA_SOURCES:
        if source.takes_folder:
            with suppress(AnalysisError):
                pairs += effect(on_largest, factor="data", levels=(source.name, DATA_SOURCES.default)).pairs
    if not pairs:
        return tuple(tiles)
    low, high = min(pairs, key=lambda pair: pair.ratio), max(pairs, key=lambda pair: pair.ratio)
    text = (
        f"Throughput on real data over that on synthetic data. Lowest: {_describe(low.a)}; highest: "
        f"{_describe(high.a)}. Only pairs on {largest}; Effects has those of all topologies."
    )
    spread = f"{low.ratio:.2f}× to {high.ratio:.2f}×"
    return (*tiles, Tile(f"Real over synthetic data on {largest}", spread, text, section="Effects"))


def _first(scaled: tuple[float, Case]) -> float:
    return scaled[0]


def _describe(case: Case) -> str:
    facts = (str(case.facts[name]) for name in ("model", "hardware", "data") if name in case.facts)
    return f"{' '.join(facts)}, batch {case.batch_size}"
