"""The section with every published figure: its case, its numbers, its protocol and its source."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from dlperf_sdk.analysis.case import Case, cases
from dlperf_sdk.analysis.scaling import efficiency, speedup
from dlperf_sdk.interfaces.collection import Collection
from dlperf_sdk.interfaces.figure import PublishedFigure
from dlperf_sdk.reports.blocks import ABSENT, Cell, Column, Notes, Table
from dlperf_sdk.reports.html.page import Item, Section, Sortable
from dlperf_sdk.reports.measurement_summary import describe_check, short_version
from dlperf_sdk.reports.missing_intervals import spread
from dlperf_sdk.reports.series import format_fact
from dlperf_sdk.reports.wording import describe_strategy, format_name, format_value
from dlperf_sdk.spec.compiler import COMPILERS

PROTOCOL_CHECK = "protocol check"
_PAGE_ROWS = 25
_ALWAYS = ("model", "topology", "batch", "throughput", "source")
_COLUMNS = (
    *(Column(name, key=True) for name in ("framework", "version", "model", "topology")),
    Column("batch", right=True, key=True),
    *(Column(name, key=True) for name in ("precision", "strategy", "data", "hardware", "settings and notes")),
    Column("throughput", right=True),
    Column("efficiency", right=True),
    Column("spread", right=True),
    Column("protocol"),
    Column(PROTOCOL_CHECK),
    Column("source"),
    *(Column(name, whole=True) for name in ("implementation", "estimator")),
    *(Column(name, right=True) for name in ("speedup", "printed speedup")),
)
_CAUSES = {"data": ("model",), "strategy": ("framework", "implementation")}
"""Column → other columns. The column comes last if it follows from these."""
_FILTERS = (
    "framework",
    "version",
    "model",
    "topology",
    "batch",
    "precision",
    "strategy",
    "data",
    "hardware",
    PROTOCOL_CHECK,
)


def section(collection: Collection) -> Section:
    """Return the section with a table of every figure of a collection, and the notes that it refers to.

    A column with the same text in all rows is left out, and its text is stated once.
    """
    figures = collection.figures
    # A baseline has the same model and batch size: searching only there is faster.
    groups: dict[tuple[str, int], list[Case]] = {}
    for case in cases(figures):
        groups.setdefault((str(case.facts.get("model")), case.batch_size), []).append(case)
    notes = list(dict.fromkeys(footnote for figure in figures for footnote in figure.footnotes))
    rows = [_row(figure, groups[figure.model, figure.batch_size], notes, collection) for figure in figures]
    table, constant = _drop_constant_columns(rows)
    keys = {column.title for column in table.columns if column.key}
    filters = tuple(name for name in _FILTERS if name in keys or name == PROTOCOL_CHECK)
    items: list[Item] = [Sortable(table, filters, _PAGE_ROWS)]
    if notes:
        items.append(Notes(tuple(notes)))
    lede = (
        'Search for words, or for a phrase in quotes, such as "20 + 100 steps". Speedup and efficiency are computed '
        "from the figures. The spread is the standard deviation between repeats, in percent of their median, where the "
        "repeats are published."
    )
    if constant:
        lede += f" All figures have: {', '.join(constant)}."
    return Section("Every figure", tuple(items), lede)


def _drop_constant_columns(rows: Sequence[tuple[Cell | str, ...]]) -> tuple[Table, list[str]]:
    """Return the table without the columns that distinguish no rows, and the texts of these columns."""
    columns = _COLUMNS
    texts = [{_text(row[index]) for row in rows} for index in range(len(columns))]
    visible = [
        index for index, column in enumerate(columns) if column.title in _ALWAYS or len(texts[index]) > 1
    ]
    titles = [column.title for column in columns]
    for name, names in _CAUSES.items():
        position = titles.index(name)
        causes = [tuple(_text(row[titles.index(cause)]) for cause in names) for row in rows]
        if len(set(causes)) == len(
            {(*cause, _text(row[position])) for cause, row in zip(causes, rows, strict=True)}
        ):
            visible.sort(key=position.__eq__)
            columns = (*columns[:position], evolve(columns[position], key=False), *columns[position + 1 :])
    constant = [
        f"{column.title} {next(iter(texts[index]))}"
        for index, column in enumerate(columns)
        if index not in visible and texts[index].isdisjoint({"", ABSENT.text})
    ]
    table = Table(columns, tuple(rows), "Each figure with the document and the line that it stands in")
    return table.select(visible), constant


def _text(cell: Cell | str) -> str:
    return cell.text if isinstance(cell, Cell) else cell


def _row(
    figure: PublishedFigure, candidates: Sequence[Case], notes: list[str], collection: Collection
) -> tuple[Cell | str, ...]:
    prescribed = collection.prescribed
    faster, scaled = speedup(figure, candidates).value, efficiency(figure, candidates).value
    deviation = spread(figure.repeats)
    details = [
        f"{format_name(name)} {value}" if isinstance(value, str) else format_fact(name, value)
        for name, value in sorted(figure.options.items())
    ]
    if figure.compiler != COMPILERS.default:
        details.insert(0, figure.compiler)
    marks = [f"[{notes.index(footnote) + 1}]" for footnote in figure.footnotes]
    return (
        figure.framework,
        short_version(figure),
        figure.model,
        str(figure.topology),
        str(figure.batch_size),
        figure.precision,
        describe_strategy(figure.strategy, collection.printed_names),
        figure.data,
        figure.hardware,
        " ".join([", ".join(details), *marks]).lstrip(),
        f"{f'{figure.throughput:,}'.removesuffix('.0')} {figure.unit}",
        ABSENT if scaled is None else f"{scaled:.1%}",
        ABSENT if deviation is None else f"{deviation:.1%}",
        str(figure.protocol),
        describe_check(figure.protocol, prescribed)[0] if prescribed else "",
        str(figure.source),
        figure.implementation,
        format_value("estimator", figure.estimator),
        ABSENT if faster is None else f"{faster:.2f}",
        "" if figure.printed_speedup is None else f"{figure.printed_speedup:g}",
    )
