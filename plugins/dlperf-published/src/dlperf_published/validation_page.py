"""The quality of predictions on the published series, as blocks of a page."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from dlperf_published.collections import COLLECTIONS
from dlperf_published.validation import Trial, attainable_ninetieth, predict_topologies, summary
from dlperf_sdk.analysis.accuracy import LARGE_ERROR, MAX_MEDIAN_ERROR, MAX_NINETIETH_ERROR
from dlperf_sdk.interfaces.figure import PublishedFigure
from dlperf_sdk.reports.blocks import Block, Cell, Column, Heading, Paragraph, Table

METHOD = (
    "A trial predicts the throughput of one topology of a published series from two smaller topologies, and compares "
    "it with the published throughput. A series is one case on several topologies. The growth of step times is "
    "learned only from series of other releases (leave one release out). The form of the model, however, was chosen "
    "with all of these series in view, so errors on new series may be larger. No series has more than four nodes."
)
COLUMNS = (
    "The depth is the step from the larger of the two smaller topologies to the predicted one. The error is the "
    "center of the prediction divided by the published throughput, minus 1. The median, the 90th percentile and the "
    "largest error are those of its absolute value. A trial is too high if its prediction exceeds the published "
    "throughput. Constant efficiency is the simplest prediction: the throughput per device stays the same."
)
ONE_SIDED = (
    f"Most predictions are too high, and so are all with an error above {LARGE_ERROR:.0%}. In most releases the "
    "network costs little more after the second node. In some releases (OneFlow v0.2 with small batches, PaddleNLP "
    "with AMP) each doubling costs as much as the one before. Measurements of smaller topologies do not show which of "
    "the two will happen. So most intervals are wider towards lower throughput, except from two to four devices of a "
    "node."
)
HEADER = ("depth", "trials", "median error", "90th percentile of errors", "largest error", "trials too high")
"""Headings of the columns of the table by depth."""
PLAIN = (
    "median error with constant efficiency",
    "90th percentile with constant efficiency",
    "published throughput in the 90 % interval",
    "point forecast",
)


@cache
def figures() -> tuple[PublishedFigure, ...]:
    """Return the figures of all collections of this distribution, one collection after the other."""
    return tuple(figure for collection in COLLECTIONS for figure in collection().figures)


@cache
def trials() -> tuple[Trial, ...]:
    """Return the trials of all collections, those of `predict_topologies`.

    The first call takes seconds; later calls return the same tuple.
    """
    return predict_topologies(figures())


@cache
def attainable() -> tuple[float, float]:
    """Return lower bounds of the 90th percentile of the errors of predictions for eight devices of a node.

    Returns:
        The bounds for predictions from two devices and from four, as fractions: results of
        `attainable_ninetieth`.
    """
    return attainable_ninetieth(figures(), 2, 8), attainable_ninetieth(figures(), 4, 8)


def validation() -> list[Block]:
    """Return the blocks of the page about the quality of predictions.

    Under a first heading they are the method, a table of the errors by depth (`Trial.depth`) and the limitations; under
    a second heading, a table of all trials.
    """
    heads = (Column(HEADER[0]), *(Column(name, right=True) for name in (*HEADER[1:], *PLAIN)))
    return [
        Heading("Errors by depth"),
        Paragraph(METHOD),
        Paragraph(COLUMNS),
        Table(heads, tuple((depth, *cells) for depth, cells in rows_by_depth().items())),
        *map(Paragraph, limitation().split("\n\n")),
        Paragraph(ONE_SIDED),
        Heading("Every trial"),
        Paragraph(
            "Throughputs are in images or sequences per second on all devices; the batch size is that of one device. A "
            "series is named by the framework, the model, the predicted topology and the precision, with the document "
            "and the line of the published throughput."
        ),
        _trials_table(trials()),
    ]


def limitation() -> str:
    """Return several paragraphs, separated by empty lines, about the limitations of predictions.

    They state the goal for the errors, the depths that have a point forecast, and how reliable the intervals are.
    """
    totals = {depth: summary(members) for depth, members in by_depth().items()}
    meeting = [depth for depth, total in totals.items() if total.accuracy.meets_goal]
    missing = [depth for depth in totals if depth not in meeting]
    no_worse = [depth for depth, total in totals.items() if total.is_no_worse_than_plain]
    to_eight = [trial for trial in trials() if "8 devices" in trial.depth]
    large = [trial for trial in to_eight if abs(trial.error) > LARGE_ERROR]
    covered = sum(trial.covered for trial in large)
    series, overestimated = (
        len({id(trial.published) for trial in members})
        for members in (to_eight, [trial for trial in large if trial.error > 0])
    )
    from_two, from_four = attainable()
    return (
        f"The goal is an error of at most {MAX_MEDIAN_ERROR:.0%} in the median and {MAX_NINETIETH_ERROR:.0%} at the "
        f"90th percentile. A prediction has a point forecast only for a depth that meets it ({_join(meeting)}). For "
        "all other depths, it has an interval only, with the reason and the topology to measure.\n\n"
        f"The goal is missed for {_join(missing)}. In {overestimated} of {series} series, a prediction for eight "
        f"devices exceeds the published throughput by more than {LARGE_ERROR:.0%}. A likely reason is that the input "
        "pipeline of the host saturates between four and eight devices. Smaller topologies do not show that. No fit of "
        "this model can meet the goal there: even parameters fitted to these same trials would have a 90th percentile "
        f"of {from_two:.1%} from two devices and {from_four:.1%} from four.\n\n"
        f"The interval does not cover such series reliably: it contains {covered} of the {len(large)} published "
        f"throughputs to eight devices whose prediction has an error above {LARGE_ERROR:.0%}. The note of a prediction "
        "states these two numbers for its depth.\n\n"
        "In the median and at the 90th percentile, errors are no larger than those of constant efficiency for "
        f"{_join(no_worse) if len(no_worse) < len(totals) else 'every depth'}."
    )


def _join(texts: Iterable[str]) -> str:
    return " and ".join(texts)


def by_depth() -> dict[str, list[Trial]]:
    """Return a dict from depth (`Trial.depth`) to the list of its trials; the depths are sorted as texts."""
    return {
        depth: [trial for trial in trials() if trial.depth == depth]
        for depth in sorted({trial.depth for trial in trials()})
    }


def rows_by_depth() -> dict[str, tuple[str, ...]]:
    """Return a dict from depth (`Trial.depth`), in the order of `by_depth`, to the other cells of its row, as texts.

    They are the number of trials; the median, 90th percentile and maximum of the errors; the number of trials that are
    too high; the median and 90th percentile of the errors with constant efficiency; the share of published throughputs
    in the interval; and `yes` or `no` for a point forecast. Errors and share are percentages. The headings are
    `HEADER[1:]` and `PLAIN`.
    """
    rows = {}
    for depth, members in by_depth().items():
        total = summary(members)
        errors = (total.accuracy.median_error, total.accuracy.ninetieth_error, total.largest)
        plain = (total.plain_median, total.plain_ninetieth)
        rows[depth] = (
            str(total.trials),
            *(f"{error:.1%}" for error in errors),
            str(total.too_high),
            *(f"{error:.1%}" for error in plain),
            f"{total.accuracy.covered:.0%}",
            "yes" if total.accuracy.meets_goal else "no",
        )
    return rows


def _trials_table(trials: tuple[Trial, ...]) -> Table:
    rows = []
    for trial in trials:
        prediction = trial.prediction
        rows.append(
            (
                trial.published.name,
                str(trial.published.batch_size),
                f"{trial.smallest}, {prediction.measured}",
                f"{trial.published.throughput:.2f}",
                f"{prediction.center:.2f}",
                f"{prediction.low:.2f} – {prediction.high:.2f}",
                Cell(f"{trial.error:+.1%}", "plain" if trial.covered else "doubt"),
                "yes" if trial.covered else "no",
            )
        )
    columns = (
        Column("series"),
        Column("batch size", right=True),
        Column("predicted from"),
        Column("published throughput", right=True),
        Column("center of the prediction", right=True),
        Column("90 % interval of the prediction", right=True),
        Column("error", right=True),
        Column("published throughput in the interval"),
    )
    return Table(columns, tuple(rows))
