"""`fleet`: slow nodes, and nodes that compute differently, from one case on each node."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from dlperf_sdk.cli.case_arguments import spec_of
from dlperf_sdk.cli.common_flags import switch
from dlperf_sdk.cli.flags import add_case_flags, collect_fields
from dlperf_sdk.cli.gating import fraction
from dlperf_sdk.cli.output import write_file
from dlperf_sdk.cli.screen import AS_USUAL, Common, command, emit, say, show
from dlperf_sdk.errors import StoreError, UsageError
from dlperf_sdk.folders import FLEETS

if TYPE_CHECKING:
    from dlperf_sdk.analysis.fleet import Fleet
    from dlperf_sdk.results.result import Result
    from dlperf_sdk.results.store import ResultStore
    from dlperf_sdk.spec.run_spec import RunSpec

_NODES = Group("Nodes", sort_key=0)


@command
@add_case_flags
def fleet(
    case: Annotated[
        str,
        Parameter(
            help="A framework's name, or a spec file; or, alone, the directory of a fleet, or of runs with the label "
            "node=NAME, to examine what was measured."
        ),
    ],
    model: Annotated[str | None, Parameter(help="A model's name; not with a file or a directory.")] = None,
    /,
    *,
    hosts: Annotated[
        str,
        Parameter(
            metavar="LIST", group=_NODES, help="The nodes: a list with commas; n[1-4] stands for n1 to n4."
        ),
    ] = "",
    hostfile: Annotated[
        str, Parameter(metavar="FILE", group=_NODES, help="A file with a host per line instead.")
    ] = "",
    parallel: Annotated[
        int, Parameter(metavar="N", group=_NODES, help="Nodes that are measured at the same time.")
    ] = 32,
    minimum_effect: Annotated[
        str, Parameter(metavar="X%", group=_NODES, help="Smallest slowdown that makes a node slow.")
    ] = "3%",
    level: Annotated[
        str, Parameter(metavar="X%", group=_NODES, help="Probability of a false alarm of the whole fleet.")
    ] = "5%",
    output: Annotated[
        Path | None,
        Parameter(
            metavar="DIR",
            group=_NODES,
            show_default=False,
            help="Directory of the runs. Nodes that have finished the case in it are not measured again. Default: a "
            "new one in dlperf-fleets.",
        ),
    ] = None,
    report: Annotated[
        Path | None,
        Parameter(
            metavar="FILE",
            group=_NODES,
            show_default=False,
            help="Also write a report to this file: .html, which needs the extra report, or .md.",
        ),
    ] = None,
    quiet: Annotated[bool, switch("No progress.", name=["--quiet", "-q"], group=_NODES)] = False,
    common: Common = AS_USUAL,
    **flags: Any,
) -> int:
    """Measure one case on each node, and find slow nodes and nodes that compute differently.

    Each node has an ordinary run with the label node=NAME; the parity check is measured anew on each node. Nodes with
    equal devices are compared with each other, in their throughput and bit by bit in their final parameters.

    The exit code is the first of these that applies. 2: the arguments are wrong. 1: a node is slow, computes wrongly,
    or may compute wrongly. 4: all nodes failed. 6, inconclusive: there are too few nodes, or they vary too much. 5:
    some nodes failed. 0: none of these.
    """
    from dlperf_sdk.analysis.fleet import examine_fleet
    from dlperf_sdk.results.store import ResultStore

    limits = {
        "minimum_effect": fraction(minimum_effect, "--minimum-effect"),
        "level": fraction(level, "--level"),
    }
    if parallel < 1:
        raise UsageError(f"--parallel is {parallel}; it must be 1 or more.")
    _check_suffix(report)
    failures: dict[str, str] = {}
    if model is None and Path(case).is_dir():
        if hosts or hostfile or output is not None or collect_fields(flags):
            raise UsageError("A directory is examined as it is; leave the nodes and the flags of cases out.")
        store = ResultStore(case)
    else:
        store, failures = _measure(spec_of(case, model, flags), hosts, hostfile, parallel, output, quiet)
    examined = examine_fleet(_results_in(store, failures), failures, **limits)
    if report is not None:
        write_file(report, _render(examined, report).encode("utf-8", "backslashreplace"), Common())
    if common.json:
        emit(examined.to_dict())
    else:
        from dlperf_sdk.reports.fleet import fleet_page

        show(fleet_page(examined))
    return examined.exit_code


def _measure(
    spec: RunSpec, hosts: str, hostfile: str, parallel: int, output: Path | None, quiet: bool
) -> tuple[ResultStore, dict[str, str]]:
    """Measure the nodes that are not measured yet; return the store, and the reasons of nodes without a result."""
    from dlperf_sdk.campaigns.fleet import plan_fleet, run_fleet
    from dlperf_sdk.campaigns.planning import stamp
    from dlperf_sdk.launchers.hosts import HostOptions
    from dlperf_sdk.registry.plugins import Registry
    from dlperf_sdk.results.store import ResultStore

    specs = plan_fleet(spec, HostOptions(hosts=hosts, hostfile=hostfile).list_hosts(), Registry())
    directory = FLEETS / f"{stamp()}-{spec.framework}-{spec.model}" if output is None else output
    say(f"{spec.label} on {len(specs)} nodes, runs in {directory}")

    def watch(node: str, outcome: Result | str) -> None:
        if not quiet:
            text, style = _describe(outcome)
            say(f"{node}: {text}", style)

    store = ResultStore(directory)
    try:
        return store, run_fleet(specs, store, parallel=parallel, watch=watch)
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(
            f"Interrupted. Finished nodes are kept; the same command with --output {directory} measures the others."
        ) from error


def _describe(outcome: Result | str) -> tuple[str, str]:
    """Return a line about a node that has ended, and its style."""
    from dlperf_sdk.reports.numbers import quantity

    if isinstance(outcome, str):
        return outcome, "red"
    if outcome.failure is not None:
        return f"{outcome.status}: {outcome.failure.message}", "red"
    metric = outcome.metric("throughput")
    text = "no throughput" if metric is None else quantity(metric.value, metric.unit)
    failed = [verdict.name for verdict in outcome.verdicts if verdict.outcome == "fail"]
    return (text, "") if outcome.ok else (f"{text}; failed: {', '.join(failed)}", "red")


def _results_in(store: ResultStore, failures: dict[str, str]) -> list[Result]:
    """Return the results in a store; the reason of a node that has only a run without one is added to `failures`.

    Raises:
        StoreError: The store has no runs, or cannot be read.
    """
    from dlperf_sdk.analysis.fleet import LABEL
    from dlperf_sdk.results.recovery import Unreadable

    results: list[Result] = []
    entries = list(store)
    if not entries and not failures:
        raise StoreError(
            f"{store.directory} contains no runs. `dlperf fleet … --output DIR` puts them there."
        )
    for entry in entries:
        if not isinstance(entry, Unreadable):
            results.append(entry)
            continue
        path = entry.path if entry.path.is_dir() else entry.path.parent
        spec = store.recover(path.name).spec
        if spec is not None and LABEL in spec.labels:
            failures.setdefault(spec.labels[LABEL], str(entry.error))
    return results


def _check_suffix(report: Path | None) -> None:
    if report is not None and report.suffix.lower() not in (".html", ".htm", ".md"):
        raise UsageError(f"{report} has the suffix {report.suffix or 'none'}; use .html or .md.")


def _render(examined: Fleet, report: Path) -> str:
    from dlperf_sdk.reports import html, markdown
    from dlperf_sdk.reports.fleet import fleet_page

    if report.suffix.lower() == ".md":
        return markdown.text_of(fleet_page(examined))
    return html.report_on_fleet(examined)
