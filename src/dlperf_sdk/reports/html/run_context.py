"""The section on the context of the results: environments and machines, each once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dlperf_sdk.reports import run_context
from dlperf_sdk.reports.blocks import Column, Table
from dlperf_sdk.reports.html.page import Folded, Item, Section, Sortable
from dlperf_sdk.reports.numbers import format_count
from dlperf_sdk.results.result import Result

_MAX_UNSORTED = 8
"""Maximum number of rows of a table without sorting and search."""
_MOST_LOCKS = 8


def section(results: Sequence[Result]) -> Section:
    """Return the section on environments, machines, package versions, and what workers report about themselves.

    Tables list the distinct environments, machines and reports of workers, such as their thread counts, each with the
    number of results that have it. A folded table per environment lists its packages. The section has no items if the
    results state none of these.
    """
    environments: Counter[tuple[str, ...]] = Counter()
    machines: Counter[str] = Counter()
    workers: Counter[str] = Counter()
    locks: dict[str, list[str]] = {}
    for result in results:
        framework, environment = result.spec.framework, result.environment
        if environment is not None:
            environments[framework, environment.plugin, environment.python, environment.kind] += 1
            locks.setdefault(environment.lock, []).append(framework)
        machines.update({text for _, text in run_context.hardware(result.hardware)})
        summary = ", ".join(
            f"{name.replace('_', ' ')} {value}" for name, value in run_context.context_of(result)
        )
        if summary:
            workers[f"{framework}: {summary}"] += 1
    items: list[Item] = []
    if environments:
        heads = (*(Column(name) for name in ("framework", "plugin", "Python", "environment")), _COUNT)
        rows = tuple((*environment, f"{count:,}") for environment, count in environments.items())
        items.append(Table(heads, rows, "Environments"))
    items += _counts_table("Machines", "machine", machines)
    items += _counts_table("What the workers found", "facts", workers)
    for lock, frameworks in list(locks.items())[:_MOST_LOCKS]:
        items += _versions(lock, ", ".join(dict.fromkeys(frameworks)))
    return Section("Environment and hardware", tuple(items))


_COUNT = Column("results", right=True)


def _counts_table(title: str, heading: str, counts: Counter[str]) -> list[Item]:
    if not counts:
        return []
    rows = tuple((text, f"{count:,}") for text, count in counts.most_common())
    table = Table((Column(heading), _COUNT), rows, title)
    return [table if len(rows) <= _MAX_UNSORTED else Sortable(table)]


def _versions(lock: str, owner: str) -> list[Item]:
    """Return the packages of a lock, without its comments and hashes."""
    lines = [line.removesuffix("\\").strip() for line in lock.splitlines()]
    packages = [line for line in lines if line and not line.startswith(("#", "--"))]
    if not packages:
        return []
    table = Table((Column("package"),), tuple((line,) for line in packages))
    return [Folded(f"Exact versions: {owner} ({format_count(len(packages), 'package')})", (table,))]
