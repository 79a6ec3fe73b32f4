"""Select the suite of the named plugin, for pytest to collect under `dlperf_sdk.testing.check`."""

from dlperf_sdk.testing import check

TestPlugin = check.chosen()
