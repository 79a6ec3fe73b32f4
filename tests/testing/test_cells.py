"""The matrix that the conformance suite tries: every pair of declared values is in a cell, and each cell has a name."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlperf_sdk.interfaces.framework import Capabilities
from dlperf_sdk.testing.cells import Cell, list_pair_cells, list_single_replica_cells, select_covering

MODELS = ("bert-base", "resnet50")
DECLARED = st.builds(
    Capabilities,
    precisions=st.sets(st.sampled_from(["tf32", "amp-fp16", "amp-bf16"])).map(
        lambda actual: actual | {"fp32"}
    ),
    compilers=st.sets(st.sampled_from(["graph", "xla", "inductor"])).map(lambda actual: actual | {"none"}),
    strategies=st.sets(st.sampled_from(["all_reduce", "parameter_server", "independent"]), min_size=1),
)


@given(DECLARED)
def test_every_pair_of_declared_values_is_tried(can: Capabilities) -> None:
    single, double = list_single_replica_cells(MODELS, can), list_pair_cells(MODELS, can)
    meet = can.strategies - {"independent"}
    assert {(one.compiler, one.precision) for one in single} == set(product(can.compilers, can.precisions))
    assert {(one.strategy, one.compiler) for one in double} == set(product(meet, can.compilers))
    assert {(one.strategy, one.precision) for one in double} == set(product(meet, can.precisions))
    # Without a compiler every model is tried in every precision, and in fp32 with every strategy.
    assert {(one.models, one.precision) for one in single if one.compiler == "none"} == {
        ((model,), precision) for model, precision in product(MODELS, can.precisions)
    }
    plain = [one for one in double if (one.compiler, one.precision) == ("none", "fp32")]
    assert {(one.models, one.strategy) for one in plain} == {((m,), s) for m, s in product(MODELS, meet)}
    assert all(one.strategy is None for one in single)


@given(DECLARED)
def test_the_cover_has_each_declared_value(can: Capabilities) -> None:
    cells = (*list_single_replica_cells(MODELS, can), *list_pair_cells(MODELS, can))
    chosen = select_covering(cells)
    assert {one.precision for one in chosen} == can.precisions
    assert {one.compiler for one in chosen} == can.compilers
    assert {one.strategy for one in chosen} == {None, *(can.strategies - {"independent"})}
    assert {(model,) for model in MODELS} <= {one.models for one in chosen}
    values = len(MODELS) + len(can.precisions) + len(can.compilers) + len(can.strategies)
    assert len(chosen) <= values, "one more cell for each further value"


@given(DECLARED)
def test_no_two_cells_have_one_name(can: Capabilities) -> None:
    cells = (*list_single_replica_cells(MODELS, can), *list_pair_cells(MODELS, can))
    assert len({str(one) for one in cells}) == len(cells)


def test_without_models_there_is_nothing_to_try() -> None:
    can = Capabilities(compilers={"none", "graph"}, strategies={"all_reduce"})
    assert list_single_replica_cells((), can) == list_pair_cells((), can) == ()


@pytest.mark.parametrize(
    ("cell", "name", "plain"),
    [
        (Cell(("linear",)), "linear", True),
        (Cell(("linear",), "amp-bf16"), "linear-amp-bf16", False),
        (Cell(MODELS, "amp-bf16", "graph"), "amp-bf16-graph", False),
        (Cell(("linear",), strategy="all_reduce"), "linear-all_reduce", False),
        (Cell(MODELS, compiler="graph", strategy="all_reduce"), "all_reduce-graph", False),
    ],
)
def test_cell_is_named_by_its_non_default_values(cell: Cell, name: str, plain: bool) -> None:
    assert (str(cell), cell.is_plain) == (name, plain)
