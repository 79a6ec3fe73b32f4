"""What a campaign shows while it is carried out: on terminals of any width, and where there is none."""

from __future__ import annotations

import io

import pytest
from cli_fixtures import dlperf  # noqa: F401 - a fixture
from rich.console import Console

from dlperf_sdk import Matrix
from dlperf_sdk.campaigns import planning
from dlperf_sdk.campaigns.campaign import make_campaign
from dlperf_sdk.campaigns.campaign_directory import create_campaign
from dlperf_sdk.campaigns.status import status
from dlperf_sdk.cli.campaign_tables import show_progress
from dlperf_sdk.cli.campaign_view import view
from dlperf_sdk.progress.state import Course
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.reports import terminal

FIELDS = {"model": "linear", "batch_size": 4, "repeats": 2, "options": {"features": 12}}


@pytest.fixture
def kept(tmp_path):
    what = make_campaign(Matrix(fields=FIELDS, axes={"framework": ["numpy"], "seed": [1, 2]}))
    stamp, entries = planning.plan_campaign(what, Registry())
    return create_campaign(tmp_path / "it", what, entries, stamp)


def shown(stored, width=100, live=False):
    console = Console(file=io.StringIO(), width=width, force_terminal=live, color_system=None, markup=False)
    return view(console, stored, live=live)


def happened(stored, observed, event, **about):
    """Written in the journal, and told."""
    observed.apply({**stored.journal.append(event, **about), "left": 75.0})


def measured(stored, observed):
    """A first repeat is over, and the second case is at work."""
    first, second = (case.id for case in stored.cases)
    happened(stored, observed, "session", changes=[])
    for id in (first, second):
        observed.courses[id] = Course(5, 20, 2, 2, 4, "samples/s")
    happened(stored, observed, "attempt-started", case=first, attempt=1)
    observed.dlperf_step_progress(0, "warmup", 3)
    happened(
        stored, observed, "attempt-ended", case=first, attempt=1, status="ok", throughput=1234.5, seconds=3.0
    )
    observed.dlperf_stage(
        second, "parity", "case small: 4 steps on 1n1d, compared with float64, and so on and on"
    )
    return first, second


def drawn(observed):
    observed.console.print(observed.render())
    return observed.console.file.getvalue().splitlines()


def test_canceled_jobs_are_reported_in_one_line(kept):
    observed = shown(kept)
    observed.apply(kept.journal.append("ending-left", jobs=["job 7 (RUNNING)", "job 8 (PENDING)"]))
    output = "Ending what an earlier controller left in the queue: job 7 (RUNNING), job 8 (PENDING).\n"
    assert observed.console.file.getvalue() == output


def test_queue_reason_is_shown_during_a_repeat(kept):
    observed = shown(kept)
    first = kept.cases[0].id
    happened(kept, observed, "attempt-started", case=first, attempt=1)
    observed.dlperf_stage(first, "queue", "Slurm's job 7 waits: Resources")
    assert observed.console.file.getvalue() == "queue: Slurm's job 7 waits: Resources\n"


@pytest.mark.parametrize("width", [24, 40, 60, 79, 80, 120, 200])
def test_no_line_of_the_live_view_wraps(kept, width):
    observed = shown(kept, width, live=True)
    measured(kept, observed)
    observed.console.file.truncate(0)
    observed.console.file.seek(0)
    lines = drawn(observed)
    assert len(lines) == (4 if width < 80 else 3)
    assert all(len(line) <= width for line in lines)


def test_live_view_shows_campaign_case_and_phase(kept):
    observed = shown(kept, 200, live=True)
    _, second = measured(kept, observed)
    text = "\n".join(drawn(observed)[-3:])
    assert "0 of 2 cases, 25 %, about 1 min 15 s left" in text
    assert "linear 1n1d b4 fp32 seed=2 features=12" in text
    assert "parity: case small" in text and "last repeat 1,234 samples/s" in text
    happened(kept, observed, "attempt-started", case=second, attempt=1)
    observed.dlperf_step_progress(0, "measure", 7)
    text = "\n".join(drawn(observed)[-3:])
    assert "repeat 1" in text and "measuring, step 7 of 20" in text
    observed.dlperf_step_progress(0, "teardown", 0)
    assert "collecting the records;" in drawn(observed)[-1]
    happened(kept, observed, "attempt-ended", case=second, attempt=1, status="crashed", seconds=1.0)
    happened(kept, observed, "concluded", case=second, status="crashed", ok=True)
    text = "\n".join(drawn(observed)[-3:])
    assert "1 of 2 cases, 75 %, 1 failed" in text


def test_cases_done_before_a_resume_are_counted(kept):
    observed = shown(kept)
    measured(kept, observed)
    later = shown(kept, 200, live=True)
    assert "0 of 2 cases, 25 %" in "\n".join(drawn(later))


def test_plain_lines_have_no_control_characters_and_stay_whole(kept):
    observed = shown(kept, width=40)
    first, _ = measured(kept, observed)
    happened(kept, observed, "session", changes=["machine.kernel: 5 before, 6 now."])
    happened(kept, observed, "concluded", case=first, status="ok", ok=True)
    happened(kept, observed, "problem", case=first, text="\x1b[31mred\x1b[0m")
    lines = observed.console.file.getvalue().splitlines()
    assert (
        lines[0]
        == "numpy linear 1n1d b4 fp32 seed=1 features=12, repeat 1: 1,234 samples/s in 3.0 s; about 1 min 15 s left"
    )
    assert lines[1] == "Changed since the last session: machine.kernel: 5 before, 6 now."
    assert lines[2].startswith("[1/2] numpy linear 1n1d b4 fp32 seed=1 features=12: ok")
    assert "\x1b" not in observed.console.file.getvalue()


def test_a_number_that_does_not_stand_is_not_shown_as_ok(kept):
    observed = shown(kept)
    first, _ = measured(kept, observed)
    happened(kept, observed, "concluded", case=first, status="ok", ok=False)
    text = terminal.text_of(show_progress(status(kept), False), styled=False)
    assert "invalid" in text.partition("seed=1")[2].partition("\n")[0]
    assert status(kept).counts == {"invalid": 1, "pending": 1}


def test_the_status_of_a_stopped_campaign_says_how_to_go_on(kept, dlperf):
    code, _, err = dlperf("campaign", "status", str(kept.path))
    assert code == 0
    assert f"dlperf campaign resume {kept.path}" in "".join(err.splitlines())
    for case in kept.cases:
        kept.journal.append("concluded", case=case.id, status="ok", ok=True)
    assert dlperf("campaign", "status", str(kept.path))[2] == ""
