"""Provide the parts that all suites share: known gaps, axes from a plugin's declarations, failures with advice."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import pytest

MARKER = "pairwise: a combination of declared values; without these tests each value is tried once"


def advice(problem: str, reason: str, change: str) -> str:
    """Return the message of a failed test: the problem, the reason why it matters, and what to change."""
    return f"{problem}\n  Why it matters: {reason}\n  What to change: {change}"


class Conformance:
    """A suite to subclass under a name that begins with `Test`."""

    known_gaps: ClassVar[Mapping[str, str]] = {}
    """Test → why the plugin cannot pass it yet: `test_name`, or `test_name[parameter]` for one of its cases.

    A gap is strict: when its test passes, that is a failure, and the gap has to go.
    """

    @pytest.fixture(autouse=True)
    def _known_gap(self, request: pytest.FixtureRequest) -> None:
        node = request.node
        reason = self.known_gaps.get(node.name) or self.known_gaps.get(getattr(node, "originalname", ""))
        if reason:
            node.add_marker(pytest.mark.xfail(reason=f"known gap: {reason}", strict=True))

    def axes(self) -> Mapping[str, Sequence[Any]]:
        """Return the values that each parameter of a test takes."""
        return {}

    def combinations(self) -> Collection[Any]:
        """Return the values of the axes that only combine what other values of the axis have."""
        return ()

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Give each test the values of the axes that it names, as parameters.

        Combinations get the marker `pairwise`. With pytest-xdist all tests of one value run in one process, since they
        share what is run for it.
        """
        metafunc.config.addinivalue_line("markers", MARKER)
        spread = metafunc.config.pluginmanager.hasplugin("xdist")
        combinations = self.combinations()
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
                        ],
                    )
                    for value in values
                ]
                metafunc.parametrize(name, argument_values or [placeholder])

    def test_known_gaps_are_names_of_tests(self) -> None:
        """A gap that names no test would hide nothing, and nobody would notice."""
        unknown = [name for name in self.known_gaps if not hasattr(self, name.partition("[")[0])]
        assert not unknown, advice(
            f"known_gaps names {', '.join(unknown)}, and the suite has no such test.",
            "a mistyped gap excuses nothing",
            "use the name that pytest prints, with its [parameter] where only one case is meant",
        )
