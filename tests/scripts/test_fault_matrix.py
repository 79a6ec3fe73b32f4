"""The fault matrix: every entry is an outcome or a reason, and the page shows what was recorded."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def fault_outcomes():
    sys.path.insert(0, str(ROOT / "tests" / "engines"))
    try:
        import fault_outcomes
    finally:
        sys.path.remove(str(ROOT / "tests" / "engines"))
    return fault_outcomes


def test_the_page_is_current(monkeypatch):
    monkeypatch.setattr(sys, "path", sys.path[:])
    script = ROOT / "scripts" / "fault_matrix.py"
    names = {"__file__": str(script), "__name__": "fault_matrix"}
    exec(compile(script.read_text(encoding="utf-8"), str(script), "exec"), names)
    assert names["PAGE"].read_text(encoding="utf-8") == names["document"](), "run scripts/fault_matrix.py"


def test_every_entry_is_an_outcome_or_a_reason(fault_outcomes):
    entries = {
        fault_outcomes.key(fault, launcher)
        for fault, description in fault_outcomes.FAULTS.items()
        for launcher in fault_outcomes.LAUNCHERS
        if launcher not in description.not_applicable
    }
    assert set(fault_outcomes.committed()) == entries
    for description in fault_outcomes.FAULTS.values():
        assert set(description.not_applicable) < set(fault_outcomes.LAUNCHERS)
        assert all(description.not_applicable.values())


def test_every_fault_keeps_repeats_leaves_no_orphans_and_names_a_node_or_a_reason(fault_outcomes):
    for name, outcome in fault_outcomes.committed().items():
        assert outcome["kind"], name
        assert outcome["orphans"] == 0, name
        assert outcome["kept"] == outcome["finished"], name
        assert 0 <= outcome["seconds"] <= 60, name
        assert isinstance(outcome["node"], int) or fault_outcomes.FAULTS[outcome["fault"]].note, name
