"""Tables of declared objects."""

import pytest

from dlperf_sdk.spec.precision import PRECISIONS
from dlperf_sdk.spec.table import Table


def test_a_name_that_is_declared_twice_is_an_error():
    """Otherwise a copy whose name was not changed would replace the bounds of the original."""
    with pytest.raises(ValueError, match="The precision 'fp32' is declared twice"):
        Table("precision", [*PRECISIONS, PRECISIONS["fp32"]])
