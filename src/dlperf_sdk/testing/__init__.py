"""The conformance suites: the tests that every plugin must pass, as test classes to subclass.

    from dlperf_sdk.testing import FrameworkConformance

    class TestMyFramework(FrameworkConformance):
        framework = "my"

There are five: `FrameworkConformance`, `ModelConformance`, `TopologyConformance`, `MeasurerConformance` and
`ObserverConformance`. A capability that the plugin does not declare is skipped, with the reason. A test that the
plugin cannot pass yet goes into `known_gaps`. pytest comes with the extra `dlperf-sdk[testing]`; without pytest,
importing this package raises ImportError. `dlperf check NAME` runs the same tests from the command line.
"""

try:
    import pytest
except ImportError as error:
    raise ImportError(
        "The conformance suite is written for pytest, which is not installed: pip install 'dlperf-sdk[testing]'."
    ) from error

# Before they are imported: so a failing `assert` shows its values.
for _name in (
    "asynchrony",
    "capabilities",
    "controller_half",
    "ending",
    "leftovers",
    "measurer",
    "model",
    "observer",
    "parity",
    "replicas",
    "reports",
    "topology",
    "training",
    "worker_half",
):
    pytest.register_assert_rewrite(f"{__name__}.{_name}")

from dlperf_sdk.testing.conformance import Conformance, advice  # noqa: E402
from dlperf_sdk.testing.framework import FrameworkConformance  # noqa: E402
from dlperf_sdk.testing.measurer import MeasurerConformance  # noqa: E402
from dlperf_sdk.testing.model import ModelConformance  # noqa: E402
from dlperf_sdk.testing.observer import ObserverConformance  # noqa: E402
from dlperf_sdk.testing.topology import TopologyConformance  # noqa: E402

__all__ = [
    "Conformance",
    "FrameworkConformance",
    "MeasurerConformance",
    "ModelConformance",
    "ObserverConformance",
    "TopologyConformance",
    "advice",
]
