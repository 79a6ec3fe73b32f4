"""`predict`: the predicted throughput of a topology that was not measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import attrs
from cyclopts import Parameter

from dlperf_sdk.cli.lookup import find
from dlperf_sdk.cli.output import write_file
from dlperf_sdk.cli.screen import AS_USUAL, PARTIAL, Common, command, emit, say, show
from dlperf_sdk.errors import AnalysisError, StoreError, UsageError
from dlperf_sdk.reports.blocks import Block, Cell, Column, Notes, Table

if TYPE_CHECKING:
    from dlperf_sdk.analysis.case import Case
    from dlperf_sdk.analysis.prediction import Prediction


@command
def predict(
    directory: Annotated[Path, Parameter(help="A campaign's, a store's or a run's directory.")],
    /,
    *,
    to: Annotated[str, Parameter(metavar="TOPOLOGY", help="Topology to predict: 16n8d, 1n8d, …")],
    plot: Annotated[
        Path | None, Parameter(metavar="FILE", help="Also write a plot to this file, as an HTML page.")
    ] = None,
    common: Common = AS_USUAL,
) -> int:
    """Predict the throughput of a larger topology from measured smaller ones and from published series.

    For a topology of several nodes, two smaller numbers of nodes must be measured, with the same number of devices per
    node. For a topology of one node, two smaller numbers of devices must be measured. If a case has several runs, the
    newest is used. The interval is calibrated so that it contains nine of ten throughputs of published series. It does
    not cover the noise of your measurements: a note warns of that. Where predictions of published series are not
    accurate enough, there is an interval only, and a note names the topology to measure.

    Exit codes: 2 no series can be predicted; 5 some series cannot be predicted.
    """
    from dlperf_sdk.analysis.case import Case
    from dlperf_sdk.analysis.prediction import predict as predict_topology
    from dlperf_sdk.analysis.series import group_by_series
    from dlperf_sdk.spec.values import TopologySpec

    topology, reference = TopologySpec.parse(to), published_series()
    if not reference:
        raise UsageError(
            "Predictions are learned from published series, and none are installed: "
            "pip install --find-links dist dlperf-published."
        )
    matches = find((str(directory),), directory)
    errors, cases = list(matches.errors), []
    # The newest run of a topology comes last, and counts.
    for result, _ in sorted(matches.results, key=lambda match: match[0].started_at):
        try:
            cases.append(Case.from_source(result))
        except AnalysisError as error:
            errors.append(str(error))
    predictions: list[tuple[Case, Prediction]] = []
    for series in group_by_series(cases):
        largest = series[max(series, key=lambda size: size.devices)]
        try:
            prediction = predict_topology(series.values(), topology, reference=reference)
            predictions.append((largest, prediction))
        except AnalysisError as error:
            errors.append(f"{largest.name}: {error}")
    if not predictions:
        raise StoreError(" ".join(errors) or f"{directory} has no results.")
    for text in errors:
        say(f"Left out: {text}", "yellow")
    if plot is not None:
        from dlperf_sdk.reports import html

        page = html.report_on_prediction(cases, topology, reference)
        write_file(plot, page.encode("utf-8", "backslashreplace"), AS_USUAL)  # --json prints the predictions
    if common.json:
        emit(
            {"predictions": [_plain(case, prediction) for case, prediction in predictions], "errors": errors}
        )
    else:
        show(_blocks(predictions))
    return PARTIAL if errors else 0


def published_series() -> tuple[Case, ...]:
    """Return the published figures of all installed collections, each as a case; empty without a collection.

    Raises:
        PluginError: A collection cannot be used.
    """
    from dlperf_sdk.analysis.case import cases
    from dlperf_sdk.registry.plugins import Registry

    registry = Registry()
    names = registry.names("collections")
    return cases(figure for name in names for figure in registry.collection(name).figures)


def _plain(case: Case, prediction: Prediction) -> dict[str, object]:
    plain = attrs.asdict(prediction, filter=attrs.filters.exclude("center"))
    return {
        "case": case.name,
        **plain,
        "topology": str(prediction.topology),
        "throughput": prediction.throughput,
        "step_time": prediction.step_time,
        "measured": str(prediction.measured),
    }


def _blocks(predictions: list[tuple[Case, Prediction]]) -> list[Block]:
    from dlperf_sdk.reports.numbers import scale
    from dlperf_sdk.reports.series import labels

    notes: list[str] = []
    rows: list[tuple[Cell | str, ...]] = []
    names = labels([case for case, _ in predictions], ("topology",))
    for name, (case, prediction) in zip(names, predictions, strict=True):
        display_scale, throughput = scale(prediction.center, prediction.unit), prediction.throughput
        notes += [note for note in prediction.notes if note not in notes]
        marks = "".join(f" [{notes.index(note) + 1}]" for note in prediction.notes)
        ideal = case.throughput * prediction.topology.devices / case.topology.devices
        rows.append(
            (
                f"{name}, {case.facts.get('model')}, batch {case.batch_size}",
                str(prediction.measured),
                f"{prediction.topology}{marks}",
                "interval only" if throughput is None else display_scale.with_unit(throughput),
                f"{display_scale.interval(prediction.low, prediction.high)} {display_scale.unit}",
                "–" if throughput is None else f"{throughput / ideal:.1%}",
            )
        )
    columns = (
        Column("case"),
        Column("measured up to"),
        Column("predicted"),
        Column("throughput", right=True),
        Column("90 % interval", right=True),
        Column("efficiency kept", right=True),
    )
    blocks: list[Block] = [Table(columns, tuple(rows))]
    return [*blocks, Notes(tuple(notes))] if notes else blocks
