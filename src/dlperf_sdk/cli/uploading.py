"""`upload`: results of directories to a database."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import attrs
from cyclopts import Parameter

from dlperf_sdk.cli.common_flags import switch
from dlperf_sdk.cli.screen import AS_USUAL, PARTIAL, Common, command, emit, say
from dlperf_sdk.folders import RESULTS
from dlperf_sdk.reports.numbers import format_count
from dlperf_sdk.results.run_places import runs_in


@command
def upload(
    *directories: Annotated[
        Path, Parameter(help=f"Directories with runs, or of campaigns. Default: {RESULTS}.")
    ],
    store: Annotated[
        str, Parameter(metavar="URL", help="Database to upload to, such as postgresql://HOST/DATABASE.")
    ],
    upgrade: Annotated[
        bool, switch("First build the database's tables again if an older version of dlperf-sdk made them.")
    ] = False,
    common: Common = AS_USUAL,
) -> int:
    """Upload all results that a database lacks, or has in an earlier version. The directories do not change.

    The exit code is 5 if some results cannot be uploaded.
    """
    from dlperf_sdk.exchange import databases
    from dlperf_sdk.results.store import ResultStore

    total = databases.Uploaded()
    with closing(databases.open_database(store)) as database:
        if upgrade:
            database.upgrade()
        for directory in directories or (RESULTS,):
            outcome = databases.upload(ResultStore(runs_in(directory)), database)
            total.sent += outcome.sent
            total.errors.update(outcome.errors)
    for run_id, error in total.errors.items():
        say(f"{run_id} cannot be uploaded: {error}", "red")
    if common.json:
        emit({"database": database.location, **attrs.asdict(total)})
    else:
        say(f"Uploaded to {database.location}: {format_count(len(total.sent), 'result')}")
    return PARTIAL if total.errors else 0
