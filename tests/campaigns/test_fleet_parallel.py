"""A fleet without its command: values that the command checks itself."""

from __future__ import annotations

import pytest

from dlperf_sdk import ResultStore
from dlperf_sdk.campaigns.fleet import run_fleet
from dlperf_sdk.errors import UsageError
from dlperf_sdk.spec.run_spec import RunSpec


@pytest.mark.timeout(20)
@pytest.mark.parametrize("parallel", [0, -1])
def test_a_fleet_that_may_measure_no_node_is_refused(tmp_path, parallel):
    specs = {"n1": RunSpec(framework="numpy", model="linear")}
    with pytest.raises(UsageError, match=f"parallel is {parallel}; it must be 1 or more"):
        run_fleet(specs, ResultStore(tmp_path / "runs"), parallel=parallel, watch=print)
    assert not (tmp_path / "runs").exists()
