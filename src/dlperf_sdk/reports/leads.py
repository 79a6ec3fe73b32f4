"""The lead of the fastest case over the second, as text: its ratio, its interval and its reservations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from dlperf_sdk.analysis.case import IMPORTED, MODEL, STEADY_STATE, Case, key
from dlperf_sdk.analysis.comparison import NOT_STATED, RESERVED_FACTS, Comparison
from dlperf_sdk.analysis.ranking import Ranking
from dlperf_sdk.reports.blocks import Cell, Table
from dlperf_sdk.reports.numbers import format_count, format_estimate
from dlperf_sdk.reports.wording import format_name, format_value, join_names
from dlperf_sdk.spec.compiler import COMPILERS

RULE = (
    "Only cases of equal workload (model, batch size, clipping of gradients), precision, topology, data and hardware "
    f"are ranked. A reservation is a difference in {', '.join(map(format_name, RESERVED_FACTS))}, compiler or "
    "protocol, or one of these facts that a side does not state."
)
"""The rule that decides what a report ranks."""
ESTIMATORS = (
    "the sources compute the throughput in different ways (samples over the elapsed time, the mean of the steps' "
    "rates, which is too high where steps vary, or samples over the summed step times)"
)
NOT_SIGNIFICANT = "not significant"
STATED_BY_NEITHER, _STATED_BY_ONE = "stated by neither", "stated by one side"
_TERMS = {
    "faster": "not comparable, for the reason in parentheses",
    f"clip norm {STATED_BY_NEITHER}": "gradients may or may not have been clipped",
    "compiler differs": "only one of the first two was compiled",
    "estimator differs": ESTIMATORS,
    "loss scale differs": "the loss of AMP is scaled in different ways",
    "layout differs": "images lie in memory in different orders",
    "protocol differs": "the first two were measured with other numbers of steps or repeats",
    "protocol not stated": "the source of one of the first two leaves out a number of steps or repeats",
    f"{IMPORTED} unverified": "no check has seen the run of another program",
    f"{MODEL} unverified": "the losses could not be compared with the model's float64 reference",
    f"{STEADY_STATE} unverified": "the warm-up may have been too short, so the throughput may be biased",
    "not measured": "it may have been faster, so the lead is over the measured ones only",
}
"""What a cell says → its explanation."""
_VALUES = re.compile(r" \([^)]*\)$")


def lead(ranking: Ranking) -> Cell:
    """Return a cell with the ratio of a ranking's fastest case to the second: `1.29× (1.25 – 1.33) jax`.

    The name of the second and the reservations follow the ratio and its interval. A ratio without an interval begins
    with `≈` and has the tone `quiet`. One with an interval has the tone `doubt` if it has a reservation, else `plain`.

    Raises:
        IndexError: The ranking has fewer than two entries.
    """
    compared = ranking.comparison
    second = f"{ranking.entries[1].facts.get(ranking.factor)}{describe_compiler(ranking, ranking.entries[1])}"
    reservations = ranking_reservations(ranking)
    text = "; ".join(
        [f"{format_ratio(compared)} {second}", *([", ".join(reservations)] if reservations else [])]
    )
    return Cell(text, "quiet" if compared.low is None else "doubt" if reservations else "plain")


def ranking_reservations(ranking: Ranking) -> list[str]:
    """Return what makes the lead of a ranking uncertain, such as `compiler differs (none, xla)`; empty without any.

    The first is `not significant` if the test of the lead is not significant.

    Raises:
        IndexError: The ranking has fewer than two entries.
    """
    compared = ranking.comparison
    insignificant = [NOT_SIGNIFICANT] if compared.significant is False else []
    return [*insignificant, *list_reservations(compared, ranking.unstated)]


def list_reservations(compared: Comparison, unstated: Iterable[str] = ()) -> list[str]:
    """Return what makes a comparison of two ranked cases uncertain, such as `compiler differs (none, xla)`.

    These are reservations: a difference in a fact of `RESERVED_FACTS`, in the compiler or in the protocol; such a fact
    that only one side states; a number of the protocol that a source does not state; and a check that a
    result has not passed. The list is empty without any.

    Args:
        compared: The comparison.
        unstated: Names of facts that neither side states, though other cases of the model do; each is a reservation.
    """
    differences = [f"{format_name(name)} {STATED_BY_NEITHER}" for name in unstated]
    compilers = [factor for factor in compared.factors if factor.startswith("compiler: ")]
    one_sided = [note for note in compared.footnotes if NOT_STATED in _split(note)[1]]
    differences += [_format_difference(text) for text in (*compared.reasons, *compilers, *one_sided)]
    protocol = compared.a.protocol.differences(compared.b.protocol)
    missing = join_names(dict.fromkeys((*compared.a.protocol.unstated, *compared.b.protocol.unstated)))
    values = [f"{name} {first}, {second}" for name, (first, second) in protocol.items()]
    if values and missing:
        values.append(f"{missing} not stated")
    if values:
        differences.append(f"protocol differs ({'; '.join(values)})")
    elif missing:
        differences.append(f"protocol not stated ({missing})")
    sides: dict[str, list[str]] = {}
    for case in (compared.a, compared.b):
        for name in case.unverified:
            sides.setdefault(name, []).append(str(case.facts.get("framework")))
    differences += [
        f"{name} unverified ({join_names(dict.fromkeys(names))})" for name, names in sides.items()
    ]
    return differences


def remove_values(reservation: str) -> str:
    """Return a reservation without the values in parentheses at its end: `compiler differs`."""
    return _VALUES.sub("", reservation)


def format_ratio(compared: Comparison) -> str:
    """Format the ratio of two throughputs as `≈1.29×` or, with an interval, `1.29× (1.25 – 1.33)`."""
    if compared.low is None or compared.high is None:
        return f"≈{compared.ratio:.2f}×"
    low, ratio, high = format_estimate(compared.low, compared.ratio, compared.high)
    return f"{ratio}× ({low} – {high})"


def _split(difference: str) -> tuple[str, list[str]]:
    name, _, values = difference.partition(": ")
    return name, values.split(" against ")


def _format_difference(difference: str) -> str:
    name, values = _split(difference)
    in_words = [format_value(name, value) for value in values if value != NOT_STATED]
    verb = "differs" if len(in_words) > 1 else _STATED_BY_ONE
    return f"{format_name(name)} {verb} ({', '.join(in_words)})"


def describe_compiler(ranking: Ranking, case: Case) -> str:
    """Return ` with xla` for a case that was compiled by xla, if the first two of its ranking differ in the compiler.

    Otherwise the text is empty.

    Args:
        ranking: The ranking.
        case: A case of the ranking.
    """
    compilers = [key(entry.facts.get("compiler")) for entry in ranking.entries[:2]]
    compiler = case.facts.get("compiler")
    is_plain = compiler in (None, COMPILERS.default) or len(set(compilers)) == 1
    return "" if is_plain else f" with {compiler}"


def count_intervals(rankings: Sequence[Ranking]) -> str:
    """Return how many leads have an interval, such as `3 of 52 leads have an interval, none without a reservation`."""
    certain = [ranking for ranking in rankings if ranking.comparison.low is not None]
    verb = "has" if len(rankings) == 1 else "have"
    text = f"{len(certain)} of {format_count(len(rankings), 'lead')} {verb} an interval"
    if not certain:
        return text
    firm = sum(not ranking_reservations(ranking) for ranking in certain)
    return f"{text}, {firm or 'none'} without a reservation"


def explain_colors(table: Table, rankings: Sequence[Ranking]) -> str:
    """Return a line of sentences on how many leads have an interval, and on the colors in a table of rankings.

    Args:
        table: The table of the rankings. Its cells with a lead contain `×`. Only the colors of the table are explained.
        rankings: The rankings in the table.
    """
    tones = {cell.tone for row in table.rows for cell in row if "×" in cell.text}
    sentences = [f"{count_intervals(rankings)}."]
    if "quiet" in tones:
        sentences.append("Grey, with ≈: no interval, perhaps noise.")
    if "doubt" in tones:
        sentences.append("Amber: an interval with a reservation.")
    return " ".join(sentences)


def explain_terms(texts: Iterable[str]) -> str:
    """Return one sentence for each kind of reservation, such as `compiler differs`, that occurs in texts on rankings.

    The sentences are joined by spaces; the result is empty if no reservation occurs.
    """
    text = "\n".join(texts)
    terms = [f"{term}: {meaning}" for term, meaning in _TERMS.items() if term in text]
    return " ".join(f"{term[0].upper()}{term[1:]}." for term in terms)


def ranking_values(ranking: Ranking) -> dict[str, Any]:
    """Return a ranking as JSON values.

    The keys are `facts` (name → value, those that all entries share), `unit`, `entries` (the fastest first; each has
    the ranked fact under its own name, such as `framework`, the case's `name` and `throughput`), `ratio` (of the first
    to the second), `interval` (its two ends, or None), `significant` (None without an interval) and `reservations`
    (texts).
    """
    compared = ranking.comparison
    return {
        "facts": dict(ranking.facts),
        "unit": ranking.entries[0].unit,
        "entries": [
            {ranking.factor: case.facts.get(ranking.factor), "name": case.name, "throughput": case.throughput}
            for case in ranking.entries
        ],
        "ratio": compared.ratio,
        "interval": None if compared.low is None else [compared.low, compared.high],
        "significant": compared.significant,
        "reservations": list_reservations(compared, ranking.unstated),
    }
