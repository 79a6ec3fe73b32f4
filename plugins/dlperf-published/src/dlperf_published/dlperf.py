"""DLPerf's tables, computed from its figures: the README's summaries, the v1.0 report, and all speedups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import evolve

from dlperf_published.grid import Grid, Square, Value
from dlperf_sdk.analysis.case import Case, cases
from dlperf_sdk.analysis.scaling import speedup
from dlperf_sdk.interfaces.collection import Figures
from dlperf_sdk.interfaces.figure import PublishedFigure

_NGC = "NVIDIADeepLearningExamples"
_REPOSITORIES = {_NGC: "NVIDIA-DeepLearningExamples"}
"""Implementation → another name that the README has for it."""
_RESNET: dict[str, Mapping[str, Any]] = {
    "OneFlow": {"framework": "oneflow", "release": "v1.0"},
    "NGC MXNet": {"framework": "mxnet", "implementation": _NGC},
    "NGC TensorFlow 1.x": {"framework": "tensorflow", "implementation": _NGC},
    "NGC PyTorch": {"framework": "torch", "implementation": _NGC},
    "MXNet": {"framework": "mxnet", "implementation": "gluon-cv"},
    "TensorFlow 2.x": {"framework": "tensorflow", "implementation": "TensorFlow-models"},
    "PyTorch": {
        "framework": "torch",
        "implementation": "PyTorch-examples",
        "loader_workers": 48,
        "input_pipeline": "DataLoader",
    },
    "PaddlePaddle": {"framework": "paddle"},
}
"""Row of the tables of ResNet-50, by the source's name → the conditions that select its figures."""
_BERT: dict[str, Mapping[str, Any]] = {
    "OneFlow": {"framework": "oneflow", "release": "v1.0", "clip_norm": 1.0},
    "NGC TensorFlow 1.x": {"framework": "tensorflow", "implementation": _NGC},
    "NGC PyTorch": {"framework": "torch", "implementation": _NGC},
    "PaddlePaddle": {"framework": "paddle"},
    "OneFlow W/O clip": {"framework": "oneflow", "release": "v1.0", "clip_norm": 0},
    "MXNet W/O clip": {"framework": "mxnet", "implementation": "gluon-nlp"},
}
_MIXED = ("amp-fp16", "fp16")
_TOPOLOGIES = ("1n1d", "1n8d", "2n8d", "4n8d")
_LEFT_OUT_SCALES = ("static",)
"""The tables show runs with dynamic loss scaling, or with the framework's only policy; a second run with a static
scale stands in the implementations' own reports only."""


def tables(figures: Figures) -> tuple[Grid, ...]:
    """Return the two summaries of DLPerf's README, the six tables of its v1.0 report, and the table of speedups.

    `figures` are all figures of the collection `dlperf-v1.0`.
    """
    return (_summary_resnet(figures), _summary_bert(figures), *_report(figures), speedups(figures))


def _chosen(figures: Figures, batch_size: int | None, **conditions: Any) -> list[PublishedFigure]:
    """Return the figure that the tables show for each compiler, input pipeline and topology.

    It is the figure of the wanted batch size, or of the largest below it; of the largest of all where none is wanted.
    """
    groups: dict[tuple[Any, ...], list[PublishedFigure]] = {}
    for figure in figures.filter(**conditions):
        if figure.options.get("loss_scale") in _LEFT_OUT_SCALES:
            continue
        if batch_size is None or figure.batch_size <= batch_size:
            pipeline = figure.options.get("input_pipeline")
            groups.setdefault((figure.compiler, pipeline, str(figure.topology)), []).append(figure)
    return [_select_largest(group) for group in groups.values()]


def _select_largest(group: list[PublishedFigure]) -> PublishedFigure:
    # Where a run without AMP is there, the tables show that one.
    return max(group, key=lambda figure: (figure.precision == "fp16", figure.batch_size))


def _add_footnotes(
    figures: Iterable[PublishedFigure], *, uncompiled: str = ""
) -> list[tuple[PublishedFigure, str]]:
    """Return each figure with the mark that distinguishes it from the others in its cell.

    Args:
        figures: The figures of the cell.
        uncompiled: The mark of a figure without XLA beside one with it.
    """
    listed = list(figures)
    has_xla = any(figure.compiler == "xla" for figure in listed)
    if len(listed) == 1:
        compiled = listed[0].compiler != "none"
        return [(listed[0], " w/XLA" if compiled else "")]
    marks = []
    for figure in listed:
        if figure.compiler == "xla":
            marks.append((figure, " w/XLA"))
        elif figure.options.get("input_pipeline") == "dali" and any(
            other.options.get("input_pipeline") != "dali" for other in listed
        ):
            marks.append((figure, " w/DALI"))
        else:
            marks.append((figure, uncompiled if has_xla else ""))
    return marks


def _throughputs(
    figures: Iterable[PublishedFigure],
    claims: Mapping[str, Any],
    *,
    batch: bool = False,
    uncompiled: str = "",
) -> Square:
    values = []
    for figure, mark in _add_footnotes(figures, uncompiled=uncompiled):
        suffix = mark + (f" bsz={figure.batch_size}" if batch else "")
        values.append(Value(figure.throughput, 2, suffix, (figure,)))
    return Square(tuple(values), claims)


def _speedups(
    figures: Iterable[PublishedFigure], candidates: Iterable[Case], claims: Mapping[str, Any]
) -> Square:
    values = []
    for figure, mark in _add_footnotes(figures):
        value = _speedup(figure, candidates, mark)
        if value is not None:
            values.append(value)
    return Square(tuple(values), claims)


def _speedup(figure: PublishedFigure, candidates: Iterable[Case], mark: str = "") -> Value | None:
    scaled = speedup(figure, candidates)
    if scaled.value is None or scaled.baseline is None:
        return None
    # The throughputs are printed with two decimals.
    slack = scaled.value * (0.005 / figure.throughput + 0.005 / scaled.baseline.throughput)
    return Value(scaled.value, 2, mark, (figure,), slack)


def _summary_resnet(figures: Figures) -> Grid:
    rows = {}
    for name, conditions in _RESNET.items():
        if name == "MXNet":
            continue  # the summary that is regenerated here came before gluon-cv's figures
        squares = []
        for precision, batch in (("fp32", 128), (_MIXED, 256)):
            claims = _claims("resnet50", precision, batch)
            chosen = _order(
                name,
                _chosen(
                    figures,
                    batch,
                    model=("resnet50", "resnet50-v1b"),
                    topology="4n8d",
                    precision=precision,
                    **conditions,
                ),
            )
            candidates = cases(figures.filter(**conditions))
            squares += [_throughputs(chosen, claims), _speedups(chosen, candidates, claims)]
        rows[name] = (_source(squares), *squares)
    columns = ("Source", "FP32 throughput", "FP32 speedup", "AMP throughput", "AMP speedup")
    title = "ResNet-50 v1.5, 4 nodes of 8 V100, img/s: FP32 at batch size 128, AMP at 256 per device"
    return Grid("summary-resnet50", title, "implementation", columns, rows)


def _source(squares: Iterable[Square]) -> Square:
    """Return the cell that names the repositories of the code that a row's figures were measured with."""
    names = {
        _REPOSITORIES.get(figure.implementation, figure.implementation)
        for square in squares
        for value in square.values
        for figure in value.figures
    }
    return Square(words=", ".join(sorted(names)))


def _order(name: str, chosen: list[PublishedFigure]) -> list[PublishedFigure]:
    """Return figures in the order of the source: with XLA before without, without DALI before with."""
    if name == "PaddlePaddle":
        return sorted(chosen, key=lambda figure: figure.options.get("input_pipeline") == "dali")
    return sorted(chosen, key=lambda figure: figure.compiler != "xla")


def _summary_bert(figures: Figures) -> Grid:
    kinds: tuple[tuple[Any, int | None], ...] = (("fp32", None), ("fp32", 32), (_MIXED, None), (_MIXED, 64))
    rows = {}
    for name, conditions in _BERT.items():
        squares = []
        for precision, batch in kinds:
            chosen = _order(
                name,
                _chosen(
                    figures, batch, model="bert-base", topology="4n8d", precision=precision, **conditions
                ),
            )
            if batch is None:
                # Of the compilers that were tried, the fastest.
                chosen = sorted(chosen, key=lambda figure: -figure.throughput)[:1]
            claims = _claims("bert-base", precision, batch)
            squares.append(_throughputs(chosen, claims, batch=batch is None, uncompiled=" W/O XLA"))
        rows[name] = (_source(squares), *squares)
    columns = ("Source", "FP32 bsz=max", "FP32 bsz=32", "AMP bsz=max", "AMP bsz=64")
    title = "BERT-Base, 4 nodes of 8 V100, seq/s, batch size per device"
    return Grid("summary-bert", title, "implementation", columns, rows)


def _claims(model: str, precision: Any, batch: int | None) -> dict[str, Any]:
    claims = {"model": model, "precision": "fp32" if precision == "fp32" else "amp-fp16"}
    return claims if batch is None else {**claims, "batch_size": batch}


def _report(figures: Figures) -> list[Grid]:
    kinds: tuple[tuple[str, str, Any, int | None], ...] = (
        ("resnet50-fp32-128", "resnet50", "fp32", 128),
        ("resnet50-amp-256", "resnet50", _MIXED, 256),
        ("bert-fp32-32", "bert-base", "fp32", 32),
        ("bert-fp32-max", "bert-base", "fp32", None),
        ("bert-amp-64", "bert-base", _MIXED, 64),
        ("bert-amp-max", "bert-base", _MIXED, None),
    )
    return [_grid_by_topology(figures, *kind) for kind in kinds]


def _grid_by_topology(figures: Figures, name: str, model: str, precision: Any, batch: int | None) -> Grid:
    models = ("resnet50", "resnet50-v1b") if model == "resnet50" else model
    columns: dict[str, dict[str, PublishedFigure]] = {}
    for title, conditions in (_RESNET if model == "resnet50" else _BERT).items():
        chosen = _chosen(
            figures, batch, model=models, topology=_TOPOLOGIES, precision=precision, **conditions
        )
        for figure in chosen:
            mark = "" if figure.compiler == "none" else " w/XLA"
            if figure.framework == "paddle" and figure.options.get("input_pipeline") == "dali":
                mark = " w/DALI"
            columns.setdefault(title + mark, {})[str(figure.topology)] = figure
    claims = _claims(model, precision, batch)
    rows = {
        topology: tuple(
            _throughputs([column[topology]] if topology in column else [], claims)
            for column in columns.values()
        )
        for topology in _TOPOLOGIES
    }
    size = "the largest batch size" if batch is None else f"batch size {batch}"
    kind = "FP32" if precision == "fp32" else "AMP"
    title = f"{'ResNet-50 v1.5' if model == 'resnet50' else 'BERT-Base'}, {kind}, {size} per device"
    return Grid(name, title, "topology", tuple(columns), _strip_marks(rows))


def _strip_marks(rows: Mapping[str, tuple[Square, ...]]) -> dict[str, tuple[Square, ...]]:
    """Return the rows without the marks that the columns' titles contain."""
    return {
        name: tuple(
            Square(tuple(evolve(value, suffix="") for value in square.values), square.claims)
            for square in squares
        )
        for name, squares in rows.items()
    }


def speedups(figures: Figures) -> Grid:
    """Return the table of the speedups over one device, with a row per figure of `figures`.

    Each row has one cell. The cell is empty unless exactly one figure is of the same case on one device. A row's name
    is the place of the figure in its source. The reports of the implementations print this column.
    """
    rows = {}
    candidates = {
        cell_key: cases(figures.filter(framework=cell_key[0], model=cell_key[1]))
        for cell_key in {(figure.framework, figure.model) for figure in figures}
    }
    for figure in figures:
        value = _speedup(figure, candidates[figure.framework, figure.model])
        rows[str(figure.source)] = (Square(() if value is None else (value,)),)
    return Grid("speedup", "Speedup over one device", "source", ("speedup",), rows)
