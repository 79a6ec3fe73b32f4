"""`cost`: the cost of samples, in money and in energy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import attrs
from cyclopts import Parameter

from dlperf_sdk.cli.common_flags import LOOKUP_STORE, RUNS
from dlperf_sdk.cli.lookup import find
from dlperf_sdk.cli.screen import AS_USUAL, PARTIAL, Common, command, emit, say, show
from dlperf_sdk.errors import AnalysisError, StoreError, UsageError
from dlperf_sdk.folders import RESULTS
from dlperf_sdk.reports.blocks import Block, Cell, Column, Notes, Table, interval_cell

if TYPE_CHECKING:
    from dlperf_sdk.analysis.cost import Cost
    from dlperf_sdk.results.result import Result


@command
def cost(
    *runs: RUNS,
    per_device_hour: Annotated[float | None, Parameter(help="Price per device and hour.")] = None,
    per_node_hour: Annotated[
        float | None, Parameter(help="Price per node and hour, including its devices.")
    ] = None,
    per_kwh: Annotated[float | None, Parameter(help="Price per kilowatt-hour.")] = None,
    watts: Annotated[
        float | None,
        Parameter(
            metavar="W",
            help="Power per device, including its share of the node, used where energy was not measured.",
        ),
    ] = None,
    currency: Annotated[
        str, Parameter(metavar="CODE", help="Currency of the prices, three capital letters.")
    ] = "USD",
    store: LOOKUP_STORE = RESULTS,
    common: Common = AS_USUAL,
) -> int:
    """Show the cost of a million samples, and the energy per sample: as measured, else computed from --watts.

    `dlperf cost dlperf-results --per-device-hour 2.5 --currency EUR --per-kwh 0.3`

    The exit code is 5 if a named run has no result, cannot be read, or has no valid throughput.
    """
    from dlperf_sdk.analysis.cost import Price
    from dlperf_sdk.analysis.cost import cost as cost_of

    price = None
    if per_device_hour is not None or per_node_hour is not None:
        price = Price(per_device_hour=per_device_hour, per_node_hour=per_node_hour, currency=currency)
    elif per_kwh is None and watts is None:
        raise UsageError(
            "No price is given: add --per-device-hour, --per-node-hour or --per-kwh; --watts where the energy was "
            "not measured."
        )
    matches = find(runs or (str(store),), store)
    if not matches.results:
        raise StoreError(
            " ".join([*matches.errors, *(f"{run} has no result yet." for _, run in matches.unfinished)])
        )
    costs: list[tuple[Result, Cost]] = []
    errors = list(matches.errors)
    for result, _ in matches.results:
        try:
            sample_cost = cost_of(result, price=price, per_kwh=per_kwh, watts=watts, currency=currency)
            costs.append((result, sample_cost))
        except AnalysisError as error:
            errors.append(str(error))
    for text in errors:
        say(f"Error: {text}", "red")
    if common.json:
        emit(
            {"costs": [_cost_to_dict(result, sample_cost) for result, sample_cost in costs], "errors": errors}
        )
    else:
        show(_blocks(costs))
    return PARTIAL if errors or matches.unfinished else 0


def _cost_to_dict(result: Result, sample_cost: Cost) -> dict[str, object]:
    parts = {
        "price": sample_cost.price,
        "energy": sample_cost.energy,
        "energy_price": sample_cost.energy_price,
    }
    return {
        "id": result.id,
        **{name: None if part is None else attrs.asdict(part) for name, part in parts.items()},
    }


def _blocks(costs: list[tuple[Result, Cost]]) -> list[Block]:
    from dlperf_sdk.reports.labels import title
    from dlperf_sdk.reports.numbers import quantity, scale

    notes: list[str] = []
    rows: list[tuple[Cell | str, ...]] = []
    for result, cost in costs:
        name = f"{title(result)}, {quantity(cost.case.throughput, cost.case.unit)}"
        for label, part in (
            ("the hours", cost.price),
            ("energy", cost.energy),
            ("the energy", cost.energy_price),
        ):
            if part is None:
                continue
            if part.basis not in notes:
                notes.append(part.basis)
            scaled = scale(part.value, part.unit.split()[0])
            rows.append(
                (
                    name,
                    f"{label} [{notes.index(part.basis) + 1}]",
                    f"{scaled.with_unit(part.value)} per {part.unit.partition(' per ')[2]}",
                    interval_cell(part.low, part.high, scaled.interval),
                )
            )
            name = ""
        if cost.energy is None:
            rows.append((name, "energy", Cell("not measured, and no watts given", "doubt"), ""))
    columns = (
        Column("case"),
        Column("cost of"),
        Column("median", right=True),
        Column("95 % interval", right=True),
    )
    return [Table(columns, tuple(rows)), Notes(tuple(notes))]
