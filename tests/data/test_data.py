"""A folder is looked for only where a data source takes one: planning refuses the others."""

import pytest

from dlperf_sdk import data
from dlperf_sdk.errors import SpecError
from dlperf_sdk.spec.values import DataSpec


@pytest.mark.parametrize("source", ["synthetic", "no-such-source"])
def test_a_source_without_a_folder_is_left_to_planning(source, tmp_path):
    data.check_exists(DataSpec(source, str(tmp_path / "missing")))


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(SpecError, match="does not exist"):
        data.check_exists(DataSpec("images", str(tmp_path / "missing")))
