"""`site`: a static site on the histories of a store."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, validators

from dlperf_sdk.cli.common_flags import STORE, switch
from dlperf_sdk.cli.output import say_unreadable
from dlperf_sdk.cli.screen import AS_USUAL, Common, command, emit, say
from dlperf_sdk.folders import RESULTS


@command
def site(
    store: STORE = str(RESULTS),
    /,
    *,
    output: Annotated[
        Path,
        Parameter(
            name=["--output", "-o"], metavar="DIR", help="Directory of the site: new, empty, or with a site."
        ),
    ] = Path("site"),
    reports: Annotated[
        int,
        Parameter(
            metavar="N",
            validator=validators.Number(gte=0),
            help="Number of newest runs of each case that get a report; the runs on both sides of a change get one, "
            "too.",
        ),
    ] = 3,
    redact: Annotated[bool, switch("Leave out the names of hosts and users.")] = False,
    common: Common = AS_USUAL,
) -> int:
    """Write a static site: all cases with search, a page per case with its history and changes, and reports on runs.

    The pages need no server and no network: open index.html, or put the directory on any web server. If the directory
    has a site already, that site is replaced.
    """
    import attrs

    from dlperf_sdk.cli.redacting import make_local_redactor, redact_local
    from dlperf_sdk.exchange.databases import open_store
    from dlperf_sdk.reports.html.site import Redaction, write_site
    from dlperf_sdk.reports.numbers import format_count

    with closing(open_store(store)) as results:
        written = write_site(
            results, output, reports, Redaction(redact_local, make_local_redactor) if redact else None
        )
    say_unreadable(written.unreadable)
    if common.json:
        sizes = attrs.asdict(written, filter=attrs.filters.exclude("unreadable"))
        emit({"index": str(output / "index.html"), **sizes})
    else:
        say(
            f"{output / 'index.html'}: {format_count(written.cases, 'case')}, "
            f"{format_count(written.reports, 'report')}, {written.bytes / 1e6:,.1f} MB"
        )
    return 0
