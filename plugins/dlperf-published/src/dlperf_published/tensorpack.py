"""The three tables of tensorpack's multi-GPU benchmark, computed from its figures."""

from __future__ import annotations

from dlperf_published.grid import Grid, Square, Value
from dlperf_sdk.interfaces.collection import Figures
from dlperf_sdk.interfaces.figure import PublishedFigure

_PIPELINES = ("constant", "in-graph", "python-queue")
STRATEGIES = {"all_reduce": "replicated", "parameter_server": "parameter_server", "horovod": "horovod"}
"""Strategy of the figures → its name in the source."""


def tables(figures: Figures) -> tuple[Grid, ...]:
    """Return tensorpack's tables: those of September 2017, one per strategy, and that of May 2019.

    The rows of the former are numbers of devices, the rows of the latter flags of the program. `figures` are all
    figures of the collection `tensorpack`.
    """
    old = figures.filter(date="2017-09")
    grids = [_grid_by_devices(old.filter(strategy=strategy), strategy) for strategy in old.values("strategy")]
    new = figures.filter(date="2019-05")
    rows = {_flags(figure): (Square((_value(figure),)),) for figure in new}
    return (*grids, Grid("2019", "May 2019: eight V100, img/s", "flags", ("img/s",), rows))


def _grid_by_devices(figures: Figures, strategy: str) -> Grid:
    rows = {}
    for topology in figures.values("topology"):
        on_topology = figures.filter(topology=topology)
        own_figures = [
            on_topology.get(implementation="tensorpack", input_pipeline=pipeline) for pipeline in _PIPELINES
        ]
        other_figure = on_topology.get(implementation="tf_cnn_benchmarks")
        rows[str(topology.devices)] = (
            Square(tuple(_value(figure) for figure in own_figures)),
            Square((_value(other_figure, 2),)),
        )
    columns = ("tensorpack (GPU/CPU/Python)", "tensorflow/benchmarks")
    title = f"September 2017: P100, {STRATEGIES[strategy]}, img/s"
    return Grid(STRATEGIES[strategy], title, "GPUs", columns, rows)


def _value(figure: PublishedFigure, decimals: int = 0) -> Value:
    return Value(figure.throughput, decimals, "", (figure,))


def _flags(figure: PublishedFigure) -> str:
    """Return the flags of the run as the source writes them; a batch of 64 is tensorpack's default."""
    flags = ["--fake-location=gpu", f"--variable-update={STRATEGIES[figure.strategy]}"]
    if figure.precision == "fp16":
        flags.append("--use-fp16")
    if figure.batch_size != 64:
        flags.append(f"--batch {figure.batch_size}")
    if figure.compiler == "xla":
        flags.append("--use-xla-compile")
    return " ".join(flags)
