"""A page as one HTML document that contains its scripts, styles and data."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from dlperf_sdk.errors import Unavailable, UsageError
from dlperf_sdk.reports.blocks import Heading, Labels, Notes, Paragraph, Table
from dlperf_sdk.reports.html import embed
from dlperf_sdk.reports.html.page import (
    NOT_COMPARABLE,
    WITH_RESERVATIONS,
    Abreast,
    Choice,
    Folded,
    Page,
    Plot,
    Sortable,
)
from dlperf_sdk.reports.html.palette import Palette
from dlperf_sdk.worker.exhaustion import describe_exhaustion

if TYPE_CHECKING:
    import jinja2

_BEHAVIOR = ("search.js", "tables.js", "behavior.js")
"""Files of the page's own script, which is one block of statements."""
_NEEDED = ("altair", "jinja2", "vl_convert")
_KINDS = (Abreast, Choice, Folded, Heading, Labels, Notes, Paragraph, Plot, Sortable, Table)


def document(page: Page, plot_library: str = "") -> str:
    """Return a page as an HTML document, in which all texts are escaped.

    The script of Vega is included only if the page has a plot. Running text of more than 2000 characters is cut, and
    so are cells and names of more than 300.

    Args:
        page: The page.
        plot_library: Relative address of a file with the script that `plot_script` returns; the page then requests
            this file, and nothing else. By default the script is in the page, which makes no requests.

    Raises:
        ModuleNotFoundError: The extra `report` is not installed; `require` checks that beforehand.
        ValueError: A number of a plot is not finite.
    """
    from markupsafe import Markup

    items = [item for section in page.sections for item in section.items]
    specs = {id(plot): plot.spec for plot in _plots(items)}
    plotted = bool(specs)
    behavior = "".join(map(_file, _BEHAVIOR))
    embedded = [
        *([plot_script()] if plotted and not plot_library else []),
        f'"use strict";\n{{\n{behavior}}}',
    ]
    return (
        _environment()
        .get_template("page.html")
        .render(
            page=page,
            aliases=dict(page.aliases),
            reasons=NOT_COMPARABLE,
            with_reservations=WITH_RESERVATIONS,
            notes=next((item.name for item in items if isinstance(item, Notes) and item.name), ""),
            policy=embed.policy(embedded, from_files=bool(plotted and plot_library)),
            # Files of this package, which the policy allows by their digests.
            style=Markup(_file("style.css")),  # noqa: S704
            library=plot_library if plotted else "",
            scripts=[Markup(script) for script in embedded],  # noqa: S704
            number=_Numbers(),
            palette=Palette.of_plots(specs.values()),
            spec_of=lambda plot: specs[id(plot)],
        )
    )


@cache
def _environment() -> jinja2.Environment:
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_file),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: embed.text(value, embed.LONGEST_PROSE) if type(value) is str else value,
    )
    for kind in _KINDS:
        environment.tests[kind.__name__.lower()] = _is(kind)
    environment.filters["json"] = lambda value: Markup(embed.to_json(value))  # noqa: S704 - escaped there
    environment.globals |= {
        "classes": embed.classes,
        "filters": embed.filters,
        "rows": embed.rows,
        "text": embed.text,
    }
    return environment


def require() -> None:
    """Check that the packages that the HTML report needs are installed.

    Raises:
        UsageError: The extra `report` is not installed.
    """
    for name in _NEEDED:
        if find_spec(name) is None:
            raise UsageError(
                f"The HTML report needs {name}, which is not installed: `pip install 'dlperf-sdk[report]'` brings all "
                "that it takes. The formats terminal, markdown, csv and json need nothing more."
            )


class _Numbers:
    """Names for elements that need one."""

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> str:
        """Return the next number."""
        self._last += 1
        return f"n{self._last}"


def _is(kind: type) -> Callable[[Any], bool]:
    def test(value: Any) -> bool:
        return isinstance(value, kind)

    return test


def _plots(items: Iterable[Any]) -> Iterator[Plot]:
    """Yield the plots in items, in the order of the page."""
    for item in items:
        if isinstance(item, Plot):
            yield item
        elif isinstance(item, Abreast | Folded):
            yield from _plots(item.items)
        elif isinstance(item, Choice):
            yield from _plots(item.options)


@cache
def _file(name: str) -> str:
    return (files("dlperf_sdk.reports.html") / "templates" / name).read_text(encoding="utf-8")


@cache
def plot_script() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script that is safe inside `<script>`.

    Raises:
        ModuleNotFoundError: The extra `report` is not installed.
        Unavailable: The library that makes the script failed, such as for lack of file descriptors.
    """
    import vl_convert

    try:
        bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    except BaseException as error:
        if (
            type(error).__name__ != "PanicException"
        ):  # it derives from BaseException, and no module exports it
            raise
        raise Unavailable(_explain_panic(str(error))) from error
    # In JavaScript both occur only in strings and regular expressions, where `\x3c` is equivalent.
    return bundle.replace("</script", "\\x3c/script").replace("<!--", "\\x3c!--")


def _explain_panic(text: str) -> str:
    """Return the message for a panic of vl-convert, which may contain the number of an error of the system."""
    code = re.search(r"\bcode: (\d+)", text)
    cause = OSError(int(code[1]), os.strerror(int(code[1]))) if code else RuntimeError(text)
    return describe_exhaustion(cause, "The HTML report") or f"The script of the plots cannot be made: {text}."
