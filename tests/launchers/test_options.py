"""Options that launchers share."""

import pytest

from dlperf_sdk.launchers.options import option


def test_a_misspelt_effect_of_an_option_is_an_error():
    with pytest.raises(TypeError, match="execute"):
        option("The program.", execute=True)
