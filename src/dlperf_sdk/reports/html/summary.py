"""The head of the report: an introductory sentence, the number of valid results, and the fastest framework."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dlperf_sdk.analysis.ranking import Ranking
from dlperf_sdk.reports.blocks import Cell
from dlperf_sdk.reports.fastest import describe_shared_facts, format_excluded, lead
from dlperf_sdk.reports.html.page import Tile
from dlperf_sdk.reports.numbers import format_count, quantity
from dlperf_sdk.results.result import Result


def lede(results: Sequence[Result]) -> str:
    """Return a sentence on the models, frameworks and topologies of the results, and on the days of measurement.

    There must be at least one result.
    """
    specs = [result.spec for result in results]
    frameworks = join_names(dict.fromkeys(spec.framework for spec in specs))
    models = join_names(dict.fromkeys(spec.model for spec in specs))
    topologies = dict.fromkeys(str(spec.topology) for spec in sorted(specs, key=lambda s: s.topology.devices))
    days = sorted({result.started_at[:10] for result in results})
    period = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    count = format_count(len(results), "result")
    return f"{models} in {frameworks}, on {join_names(topologies)}; {count} measured {period} (UTC)."


_MAX_NAMES = 6
"""Maximum number of names that a sentence lists."""


def join_names(names: Iterable[str]) -> str:
    """Join names as `a, b and c`; after six names the others are counted. Empty without names."""
    all_names = list(names)
    if len(all_names) > _MAX_NAMES:
        return f"{', '.join(all_names[:_MAX_NAMES])} and {len(all_names) - _MAX_NAMES} more"
    return (
        " and ".join(part for part in (", ".join(all_names[:-1]), all_names[-1]) if part) if all_names else ""
    )


def validity_tile(results: Sequence[Result], outcomes: Sequence[Cell]) -> Tile:
    """Return the tile with the number of valid results, and the numbers of those that failed or have warnings.

    Args:
        results: The results.
        outcomes: The outcome of each result, in the same order.
    """
    tones = [outcome.tone for outcome in outcomes]
    failed = sum(result.failure is not None for result in results)
    invalid = tones.count("bad") - failed
    valid = len(results) - failed - invalid
    warnings = tones.count("doubt")
    remarks = [
        *([f"{failed:,} failed"] if failed else []),
        *([f"{invalid:,} failed validation"] if invalid else []),
        *([f"{warnings:,} with warnings"] if warnings else []),
    ]
    total = (
        f"all {len(results):,}" if valid == len(results) and not remarks else f"{valid:,} of {len(results):,}"
    )
    return Tile(
        "Validity",
        f"{total} valid",
        "; ".join(remarks) or "every check passed",
        "bad" if invalid else "doubt" if remarks else "good",
    )


UNDECIDED = "no clear lead"
"""The answer where the difference between the first two is not significant."""


def fastest_tiles(rankings: Sequence[Ranking], at_most: int) -> tuple[Tile, ...]:
    """Return tiles with the fastest framework, from the first ranking of each model and precision.

    If the lead is not significant, the tile says so in place of a framework.

    Args:
        rankings: The rankings, the most important first.
        at_most: Maximum number of tiles.
    """
    tiles: dict[tuple[str, ...], Tile] = {}
    for ranking in rankings:
        first, facts = ranking.entries[0], ranking.facts
        tile_key = (str(facts.get("model", "")), str(facts.get("precision", "")))
        if tile_key in tiles:
            continue
        case = [tile_key[0], f"{facts['topology']}", tile_key[1], f"batch {facts['batch_size']}"]
        case += [text for text in [describe_shared_facts(ranking, rankings)] if text]
        excluded = format_excluded(ranking)
        name, note = str(first.facts.get(ranking.factor)), quantity(first.throughput, first.unit)
        if ranking.comparison.significant is False:
            name, note = UNDECIDED, f"{name} {note}"
        note += f": {lead(ranking).text}"
        if excluded:
            note += f". Not compared: {excluded}"
        tiles[tile_key] = Tile(f"Fastest: {' · '.join(case)}", name, f"{note}.")
        if len(tiles) == at_most:
            break
    return tuple(tiles.values())
