"""The quality of predictions on the published series, as a page."""

from __future__ import annotations

from dlperf_published.collections import COLLECTIONS
from dlperf_published.validation import Trial, predict_largest_topologies, summary
from dlperf_sdk.reports.blocks import Block, Cell, Column, Heading, Paragraph, Table


def validation() -> list[Block]:
    """Return the summary by kind of step, and every series."""
    trials = [
        trial for collection in COLLECTIONS for trial in predict_largest_topologies(collection().figures)
    ]
    over_nodes = [trial for trial in trials if trial.prediction.topology.nodes > 1]
    within = [trial for trial in trials if trial.prediction.topology.nodes == 1]
    text = (
        "The largest topology of every published series, predicted from the smaller ones. The growth was learned "
        "from the series of other frameworks only. The form of the model was chosen with these series in view: "
        "its parameters are held out, its form is not. No series goes further than one doubling."
    )
    rows = [
        _summary("over nodes (2 to 4)", over_nodes),
        _summary("within a node (4 to 8)", within),
        _summary("all", trials),
    ]
    columns = ("series", "median error", "90th percentile", "largest", "in the 90 % interval")
    heads = (Column("kind"), *(Column(name, right=True) for name in columns))
    return [
        Heading("Prediction, validated"),
        Paragraph(text),
        Table(heads, tuple(rows)),
        _list_trials(trials),
    ]


def _summary(kind: str, trials: list[Trial]) -> tuple[str, ...]:
    total = summary(trials)
    errors = (f"{total.median:.1%}", f"{total.ninetieth:.1%}", f"{total.largest:.1%}")
    return (kind, str(total.trials), *errors, f"{total.covered:.0%}")


def _list_trials(trials: list[Trial]) -> Table:
    rows = []
    for trial in trials:
        prediction = trial.prediction
        rows.append(
            (
                trial.truth.name,
                str(trial.truth.batch_size),
                f"{trial.truth.throughput:.2f}",
                f"{prediction.throughput:.2f}",
                f"{prediction.low:.2f} – {prediction.high:.2f}",
                Cell(f"{trial.error:+.1%}", "plain" if trial.covered else "doubt"),
                "yes" if trial.covered else "no",
            )
        )
    columns = (
        Column("series"),
        Column("batch", right=True),
        Column("published", right=True),
        Column("predicted", right=True),
        Column("90 % interval", right=True),
        Column("error", right=True),
        Column("in it?"),
    )
    return Table(columns, tuple(rows), "Every series")
