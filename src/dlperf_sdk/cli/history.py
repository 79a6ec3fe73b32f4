"""`history`: a case over time, versions or a label."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import attrs
from cyclopts import Parameter

from dlperf_sdk.cli.common_flags import STORE
from dlperf_sdk.cli.output import say_unreadable, write_file
from dlperf_sdk.cli.screen import AS_USUAL, Common, command, emit, show
from dlperf_sdk.errors import StoreError, UnknownName, UsageError
from dlperf_sdk.folders import RESULTS

if TYPE_CHECKING:
    from dlperf_sdk.analysis.history import History

_HOW_TO_NAME = "Give words of a case's name, or its key."


@command
def history(
    *words: Annotated[
        str,
        Parameter(
            help="Words of the names of cases, such as resnet50 1n2d b64, or a case's key. Default: all cases."
        ),
    ],
    store: STORE = str(RESULTS),
    order: Annotated[
        str,
        Parameter(
            name="--by",
            metavar="ORDER",
            help="Order of the runs: time, framework_version, sdk_version, or the name of a label, whose values are "
            "in the order of their first runs.",
        ),
    ] = "time",
    output: Annotated[
        Path | None,
        Parameter(
            name=["--output", "-o"],
            metavar="FILE",
            show_default=False,
            help="Write the history of one case to this file: .html, which needs the extra report, or .md.",
        ),
    ] = None,
    common: Common = AS_USUAL,
) -> int:
    """Show the throughput of a case over time or versions, and where its level changed.

    One case is shown in full; several cases are shown as a table. Change points are computed from the ranks of the
    valid runs' throughputs, so a single unusual run is not reported as a change.
    """
    from dlperf_sdk.analysis.history import ALL_RUNS, make_histories
    from dlperf_sdk.exchange.databases import open_store
    from dlperf_sdk.reports import history as blocks
    from dlperf_sdk.results.run_places import explain_absence

    with closing(open_store(store)) as results:
        answer = results.query(ALL_RUNS)
    say_unreadable(answer.unreadable)
    matches = _select(make_histories(answer, order), words)
    histories = [history for history in matches if history.runs]
    if not histories:
        raise StoreError(explain_absence(results.location))
    if output is not None:
        if len(histories) > 1:
            raise UsageError(
                f"-o takes the history of one case, and {len(histories)} have these words. Add a word or the case's "
                f"key; `dlperf site` writes all."
            )
        write_file(output, _render(histories[0], output).encode("utf-8", "backslashreplace"), common)
    elif common.json:
        emit([_to_json(history) for history in histories])
    else:
        show(blocks.history_page(histories[0]) if len(histories) == 1 else blocks.overview(histories))
    return 0


def _select(histories: Sequence[History], words: Sequence[str]) -> list[History]:
    """Return the histories whose names have all words, or whose key is one of them.

    Raises:
        UnknownName: No history has the word, or all words at once.
    """
    known = {history.key: {history.key, *history.name.split()} for history in histories}
    known_words = set().union(*known.values()) if known else set()
    for word in words:
        if histories and word not in known_words:
            raise UnknownName("case", word, known_words, _HOW_TO_NAME)
    chosen = [history for history in histories if set(words) <= known[history.key]]
    if histories and not chosen:
        raise UnknownName("case", " ".join(words), {history.name for history in histories}, _HOW_TO_NAME)
    return chosen


def _to_json(history: History) -> dict[str, Any]:
    """Return a history as JSON values."""
    plain = attrs.asdict(history, filter=lambda attribute, _: attribute.name not in ("levels", "changes"))
    plain["levels"] = [
        {
            "from": level.runs[0].id,
            "to": level.runs[-1].id,
            "runs": len(level.runs),
            "throughput": level.throughput,
        }
        for level in history.levels
    ]
    plain["changes"] = [
        {
            "before": change.before.id,
            "after": change.after.id,
            "ratio": change.ratio,
            "differences": list(change.differences),
        }
        for change in history.changes
    ]
    return plain


def _render(history: History, output: Path) -> str:
    from dlperf_sdk.reports import history as blocks
    from dlperf_sdk.reports import html, markdown

    if output.suffix.lower() in (".html", ".htm"):
        return html.report_on_history(history)
    if output.suffix.lower() == ".md":
        return markdown.text_of(blocks.history_page(history))
    raise UsageError(f"{output} has the suffix {output.suffix or 'none'}; use .html or .md.")
