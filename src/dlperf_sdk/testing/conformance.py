"""The base class of all conformance suites: known gaps, parameters of tests, and the format of failure messages."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import pytest

MARKERS = (
    "pairwise: a combination of declared values; without these tests each value is tried once",
    "source_build: needs an environment with parts that are built from source, which can take many minutes",
)
"""Lines that register the markers with pytest."""


def advice(problem: str, reason: str, change: str) -> str:
    """Return the message of a failed test, in three lines.

    Args:
        problem: What is wrong, as a sentence with its full stop.
        reason: Why it matters, as a clause without a full stop.
        change: What to change, as a clause without a full stop.
    """
    return f"{problem}\n  Why it matters: {reason}\n  What to change: {change}"


class Conformance:
    """The base class of the conformance suites.

    Subclass one of the suites under a name that begins with `Test`, so that pytest collects it.
    """

    known_gaps: ClassVar[Mapping[str, str]] = {}
    """Tests that the plugin cannot pass yet → the reason.

    A key is `test_name`, or `test_name[parameter]` for one case of the test. Such a test is expected to fail. If it
    passes, pytest reports a failure, and the entry has to be removed.
    """

    @pytest.fixture(autouse=True)
    def _known_gap(self, request: pytest.FixtureRequest) -> None:
        node = request.node
        reason = self.known_gaps.get(node.name) or self.known_gaps.get(getattr(node, "originalname", ""))
        if reason:
            node.add_marker(pytest.mark.xfail(reason=f"known gap: {reason}", strict=True))

    def axes(self) -> Mapping[str, Sequence[Any]]:
        """Return a dict from the name of a parameter of the tests to the values to try for it.

        A test that takes a parameter named here runs once per value, and is skipped if there are no values.
        Parameters that are not named here are left to pytest. The base class names none.
        """
        return {}

    def combinations(self) -> Collection[Any]:
        """Return the values of `axes` that only combine settings: each of the settings is tested by another value, too.

        Tests with these values get the marker `pairwise`: `pytest -m "not pairwise"` leaves them out. The base class
        returns an empty tuple.
        """
        return ()

    def values_with_source_builds(self) -> Collection[Any]:
        """Return the values of `axes` that need an environment with parts built from source.

        Tests with these values get the marker `source_build`: `pytest -m "not source_build"` leaves them out. The base
        class returns an empty tuple.
        """
        return ()

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Give a test the values of each axis that it takes as parameters; pytest calls this hook for each test.

        Values in `combinations` get the marker `pairwise`, and those in `values_with_source_builds` the marker
        `source_build`. With pytest-xdist installed, all tests of one value get the same `xdist_group`, so that one
        process runs them and they share the runs made for it. Values that are mappings get neither marker nor group. An
        axis without values becomes one skipped test. The markers are registered in the configuration of pytest.
        """
        for line in MARKERS:
            metafunc.config.addinivalue_line("markers", line)
        spread = metafunc.config.pluginmanager.hasplugin("xdist")
        combinations, built = self.combinations(), self.values_with_source_builds()
        for name, values in self.axes().items():
            if name in metafunc.fixturenames:
                placeholder = pytest.param(
                    None, id="none", marks=pytest.mark.skip(reason=f"the plugin declares no {name} to try")
                )
                argument_values = [
                    value
                    if isinstance(value, Mapping)
                    else pytest.param(
                        value,
                        id=str(value),
                        marks=[
                            *([pytest.mark.xdist_group(str(value))] if spread else []),
                            *([pytest.mark.pairwise] if value in combinations else []),
                            *([pytest.mark.source_build] if value in built else []),
                        ],
                    )
                    for value in values
                ]
                metafunc.parametrize(name, argument_values or [placeholder])

    def test_known_gaps_are_names_of_tests(self) -> None:
        """Each key of `known_gaps` names a test of the suite; its [parameter] is not checked."""
        unknown = [name for name in self.known_gaps if not hasattr(self, name.partition("[")[0])]
        assert not unknown, advice(
            f"known_gaps names {', '.join(unknown)}, and the suite has no such test.",
            "a mistyped gap excuses nothing",
            "use the name that pytest prints, with its [parameter] where only one case is meant",
        )
