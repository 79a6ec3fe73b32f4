"""The HTML report: one file that needs no network; and the same content as blocks, for Markdown.

`measured` and `collection` turn results and published figures into a `page.Page` of plain values. `line_charts`
and `case_charts` turn numbers into Vega-Lite, and `render` writes the page. The extra `report` installs the
dependencies.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlperf_sdk.analysis.case import Case
from dlperf_sdk.analysis.fleet import Fleet
from dlperf_sdk.analysis.history import History
from dlperf_sdk.interfaces.collection import Collection
from dlperf_sdk.reports.blocks import Block
from dlperf_sdk.results.result import Result
from dlperf_sdk.spec.values import TopologySpec


def report_on_results(
    results: Sequence[Result],
    unread: Sequence[str] = (),
    published: Collection | None = None,
    reference: Sequence[Case] = (),
) -> str:
    """Return the report on results as an HTML document.

    Args:
        results: The results, at least one.
        unread: A sentence for each result that could not be read; the report shows them.
        published: Published figures, which are compared with results of the same case; None: no comparison.
        reference: Published cases from which the growth of throughput is learned; empty: no prediction.

    Raises:
        StoreError: There is no result.
        UsageError: The extra `report` is not installed.
    """
    from dlperf_sdk.reports.html import measured, render

    render.require()
    return render.document(measured.page(results, unread, published, reference))


def report_on_prediction(cases: Sequence[Case], topology: TopologySpec, reference: Sequence[Case]) -> str:
    """Return measured series, and predictions of their throughput on a larger topology, as an HTML document.

    A series from which the topology cannot be predicted has no prediction.

    Args:
        cases: The measured cases, which are grouped into series.
        topology: The topology to predict.
        reference: Published cases from which the growth is learned; without any, nothing is predicted.

    Raises:
        UsageError: The extra `report` is not installed.
    """
    from dlperf_sdk.reports.html import measured, render

    render.require()
    return render.document(measured.prediction_page(cases, topology, reference))


def report_on_collection(published: Collection) -> str:
    """Return the report on a collection of published figures as an HTML document.

    Raises:
        UsageError: The extra `report` is not installed.
    """
    from dlperf_sdk.reports.html import collection, render

    render.require()
    return render.document(collection.page(published))


def report_on_history(case_history: History) -> str:
    """Return the page on the history of a case as an HTML document.

    Raises:
        UsageError: The extra `report` is not installed.
        ValueError: The history has no run.
    """
    from dlperf_sdk.reports.html import history, render

    render.require()
    return render.document(history.page(case_history))


def report_on_fleet(nodes: Fleet) -> str:
    """Return the page on the nodes of a fleet as an HTML document.

    Raises:
        UsageError: The extra `report` is not installed.
    """
    from dlperf_sdk.reports.html import fleet, render

    render.require()
    return render.document(fleet.page(nodes))


def blocks_of_results(
    results: Sequence[Result],
    unread: Sequence[str] = (),
    published: Collection | None = None,
    reference: Sequence[Case] = (),
) -> list[Block]:
    """Return the report on results as blocks, with the content and in the order of the HTML page.

    It does not need the extra `report`.

    Args:
        results: The results, at least one.
        unread: A sentence for each result that could not be read; the report shows them.
        published: Published figures, which are compared with results of the same case; None: no comparison.
        reference: Published cases from which the growth of throughput is learned; empty: no prediction.

    Raises:
        StoreError: There is no result.
    """
    from dlperf_sdk.reports.html import as_blocks, measured

    return as_blocks.blocks_of(measured.page(results, unread, published, reference))


def blocks_of_collection(published: Collection) -> list[Block]:
    """Return the report on a collection as blocks, with the content and in the order of the HTML page.

    It does not need the extra `report`.

    Args:
        published: The collection of published figures.
    """
    from dlperf_sdk.reports.html import as_blocks, collection

    return as_blocks.blocks_of(collection.page(published))
