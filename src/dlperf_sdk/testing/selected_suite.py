"""The test module that `dlperf_sdk.testing.check` has pytest collect: it holds the suite of the checked plugin."""

from dlperf_sdk.testing import check

TestPlugin = check.get_suite()
