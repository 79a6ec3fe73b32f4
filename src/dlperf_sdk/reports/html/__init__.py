"""The HTML report: one file that needs no network.

`measured` and `published` turn results and published figures into a `page.Page` of plain values, `charts` turns
numbers into Vega-Lite, and `render` writes the page. The extra `report` brings what it takes.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlperf_sdk.published.collection import Published
from dlperf_sdk.results.result import Result


def of_results(results: Sequence[Result], unread: Sequence[str] = (), beside: Published | None = None) -> str:
    """The report on results as one HTML document.

    `unread` says what was found with them and could not be read; figures of `beside` stand below those of the same
    case.

    Raises:
        StoreError: there is no result.
        UsageError: the extra `report` is not installed.
    """
    from dlperf_sdk.reports.html import measured, render

    render.require()
    return render.document(measured.page(results, unread, beside))


def of_published(figures: Published) -> str:
    """The report on a collection of published figures, all of it or a part, as one HTML document.

    Raises:
        UsageError: the extra `report` is not installed.
    """
    from dlperf_sdk.reports.html import published, render

    render.require()
    return render.document(published.page(figures))
