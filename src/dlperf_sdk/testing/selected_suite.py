"""What `dlperf_sdk.testing.check` lets pytest collect: the suite of the plugin that was named."""

from dlperf_sdk.testing import check

TestPlugin = check.chosen()
