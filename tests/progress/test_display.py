"""The progress: how far a run is, in plain lines and drawn live."""

import io
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from dlperf_sdk import RunSpec
from dlperf_sdk.hookspecs import listeners
from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.progress.display import PRINT_INTERVAL, Lines, LiveDisplay, display
from dlperf_sdk.progress.state import AT_ONCE, SURE, TITLES, Advance, Course, course_of
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.worker.progress import PHASES

COURSE = Course(warmup=10, steps=100, repeats=3, max_repeats=3, global_batch_size=8, unit="img/s")


class Clock:
    """Time that passes when it is told to."""

    now = 100.0

    def __call__(self):
        return self.now


# -- how far


def test_every_phase_of_a_worker_has_a_title():
    assert set(TITLES) == set(PHASES)


def test_the_pace_is_that_of_the_phase():
    advance = Advance(COURSE)
    advance.start_repeat(1, 0.0)
    advance.record_step("warmup", 1, 1.0)
    assert advance.throughput is None
    advance.record_step("warmup", 5, 3.0)
    assert advance.throughput == pytest.approx(8 * 2)
    advance.record_step("measure", 0, 4.0)
    assert advance.throughput is None
    advance.record_step("measure", 40, 8.0)
    assert advance.throughput == pytest.approx(8 * 10)


def test_simultaneous_reports_give_no_rate():
    advance = Advance(COURSE)
    advance.start_repeat(1, 0.0)
    for step in (10, 20, 30):
        advance.record_step("measure", step, 5.0 + step * AT_ONCE / 1000)
    assert advance.pace is None
    advance.record_step("measure", 40, 6.0)
    assert advance.pace == pytest.approx(10, rel=0.1)


def test_time_left_of_the_first_repeat_follows_its_rate():
    advance = Advance(COURSE)
    advance.start_repeat(1, 0.0)
    assert advance.seconds_left(5.0) is None
    advance.record_step("measure", 0, 10.0)
    advance.record_step("measure", 50, 15.0)
    # 50 steps at 10 steps/s are 5 s; the whole repeat will have taken 20 s, and two more follow.
    assert advance.seconds_left(15.0) == pytest.approx(5 + 2 * 20)


def test_a_phase_that_takes_longer_than_estimated_claims_no_time_left():
    advance = Advance(Course(10, 100, 1, 1, 8, "img/s"))
    advance.record_stage("parity", 0.0)
    advance.record_stage("launch", 10.0)
    advance.start_repeat(1, 10.0)
    advance.record_step("compile", 0, 11.0)
    assert advance.seconds_left(15.0) == pytest.approx(5)
    assert advance.seconds_left(20.0) is None
    assert advance.seconds_left(99.0) is None


def test_the_last_step_is_not_the_end_of_the_run():
    advance = Advance(Course(0, 100, 1, 1, 8, "img/s"))
    advance.start_repeat(1, 0.0)
    advance.record_step("measure", 0, 10.0)
    advance.record_step("measure", 100, 20.0)
    assert advance.seconds_left(20.0) is None


def test_time_left_of_later_repeats_follows_earlier_ones():
    advance = Advance(COURSE)
    advance.start_repeat(1, 0.0)
    advance.end_repeat(80.0, 20.0)
    advance.start_repeat(2, 20.0)
    assert advance.seconds_left(25.0) == pytest.approx(15 + 20)
    assert advance.seconds_left(60.0) == pytest.approx(20)
    advance.end_repeat(80.0, 40.0)
    advance.start_repeat(3, 40.0)
    assert advance.seconds_left(45.0) == pytest.approx(15)
    assert advance.seconds_left(100.0) is None


@given(
    st.lists(st.tuples(st.sampled_from(PHASES), st.integers(0, 10**9), st.floats(0, 10)), max_size=30),
    st.integers(1, 5),
)
def test_whatever_is_reported_the_numbers_make_sense(reports, attempt):
    advance, now = Advance(COURSE), 0.0
    advance.start_repeat(attempt, now)
    for phase, step, later in reports:
        now += later
        advance.record_step(phase, step, now)
        assert advance.pace is None or (advance.pace > 0 and math.isfinite(advance.pace))
        left = advance.seconds_left(now)
        assert left is None or (left >= 0 and math.isfinite(left))


def test_an_adaptive_run_has_no_fixed_number_of_repeats():
    assert Advance(COURSE).repeats == "3"
    assert Advance(Course(10, 100, 6, 30, 8, "img/s")).repeats == "6 to 30"


# -- in lines


def a_plan(**fields):
    fields = {"batch_size": 4, "topology": "1n2d", "warmup": 10, "steps": 100, "repeats": 2, **fields}
    return make_plan(RunSpec(framework="numpy", model="linear", **fields), Registry())


def hooks_of(observer):
    """The hooks, called as a run calls them."""
    return next(iter(listeners([observer]).values())).hook


def told(lines, clock):
    """The hooks of a run of two repeats, the second of which fails."""
    hook = hooks_of(lines)
    hook.dlperf_run_started(run_id="r", plan=a_plan(), directory="results/r")
    hook.dlperf_stage(run_id="r", stage="environment", detail="reusing numpy-cpu\x1b[31m")
    hook.dlperf_repeat_started(run_id="r", attempt=1)
    hook.dlperf_worker_started(run_id="r", attempt=1, node=0, name="rank-0", pid=1234)
    for phase, step, later in (
        ("start", 0, 1),
        ("warmup", 2, 1),
        ("measure", 5, 1),
        ("measure", 25, 2),
        ("measure", 60, PRINT_INTERVAL),
    ):
        clock.now += later
        hook.dlperf_step_progress(run_id="r", attempt=1, node=0, rank=0, phase=phase, step=step)
    # Another node's report is no news.
    hook.dlperf_step_progress(run_id="r", attempt=1, node=1, rank=1, phase="measure", step=1)
    hook.dlperf_repeat_ended(run_id="r", attempt=1, status="ok", throughput=123.456)
    hook.dlperf_repeat_started(run_id="r", attempt=2)
    clock.now += 3
    hook.dlperf_repeat_ended(run_id="r", attempt=2, status="crashed", throughput=None)


def test_plain_lines_tell_the_run_in_order_and_hold_no_control_characters():
    clock, file = Clock(), io.StringIO()
    told(Lines(Console(file=file, width=80, highlight=False), clock=clock), clock)
    # 55 steps in 12 s: 40 more take 8.7 s. The repeat will have taken 23.7 s, and one more follows.
    assert file.getvalue().splitlines() == [
        "numpy linear 1n2d on cpu, batch 4 per device (8 in all), fp32, dlperf-v1",
        "results in results/r",
        "environment: reusing numpy-cpu�[31m",
        "repeat 1 of 2: warming up, step 2 of 10",
        "repeat 1 of 2: measuring, step 5 of 100",
        "repeat 1 of 2: measuring, step 60 of 100, about 36.67 samples/s, 32 s left",
        "repeat 1 of 2: 123.5 samples/s in 15 s",
        "repeat 2 of 2: crashed after 3.0 s",
    ]


def test_verbose_lines_name_the_processes():
    clock, file = Clock(), io.StringIO()
    told(Lines(Console(file=file, width=80, highlight=False), verbose=True, clock=clock), clock)
    assert "repeat 1: node 0 started rank-0 as process 1234\n" in file.getvalue()


def test_a_long_line_is_not_broken_in_a_pipe():
    file = io.StringIO()
    Lines(Console(file=file, width=80)).dlperf_stage(stage="environment", detail="x" * 200)
    assert file.getvalue() == f"environment: {'x' * 200}\n"


# -- drawn live


def drawn(screen, width=80):
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(screen.render())
    return console.file.getvalue()


def test_current_state_is_drawn():
    clock = Clock()
    screen = LiveDisplay(Console(file=io.StringIO(), force_terminal=True, width=80), clock=clock)
    assert "preparing" in drawn(screen)
    hook = hooks_of(screen)
    hook.dlperf_run_started(run_id="r", plan=a_plan(), directory=None)
    hook.dlperf_stage(run_id="r", stage="environment", detail="Downloading numpy")
    assert "environment: Downloading numpy" in drawn(screen)
    hook.dlperf_repeat_started(run_id="r", attempt=1)
    assert "repeat 1 of 2: starting the workers" in drawn(screen)
    for step in (10, 30):
        clock.now += 2 * SURE
        hook.dlperf_step_progress(run_id="r", attempt=1, node=0, rank=0, phase="measure", step=step)
    text = drawn(screen)
    assert "repeat 1 of 2: measuring, step 30 of 100, about 160.0 samples/s" in text
    assert "left" in text
    assert "━" in text
    for width in (20, 40, 80, 140):
        assert all(len(line) <= width for line in drawn(screen, width).splitlines())


def test_only_final_lines_are_printed_on_a_terminal():
    clock, file = Clock(), io.StringIO()
    screen = LiveDisplay(Console(file=file, width=80, color_system=None), clock=clock)
    told(screen, clock)
    text = file.getvalue()
    assert "repeat 1 of 2: 123.5 samples/s" in text
    assert "environment:" not in text
    screen.dlperf_stage(stage="note", detail="GPU 0 is held")
    assert "note: GPU 0 is held" in file.getvalue()


def test_the_live_display_takes_its_lines_away():
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=80, _environ={"TERM": "xterm"})
    with display(console, live=True) as screen:
        screen.dlperf_stage(stage="environment", detail="making it")
        screen._live.refresh()
    assert "making it" in file.getvalue()
    assert file.getvalue().rstrip().endswith("\x1b[2K")
    assert "\x1b[?25h" in file.getvalue()  # the cursor is shown again


def test_a_display_for_no_terminal_draws_nothing():
    file = io.StringIO()
    with display(Console(file=file), live=False):
        pass
    assert file.getvalue() == ""


def test_the_course_is_the_plans():
    assert course_of(a_plan(protocol="adaptive", repeats=None)) == Course(10, 100, 6, 30, 8, "samples/s")


@pytest.mark.parametrize("live", [False, True])
def test_a_redacted_display_does_not_say_where_the_results_are(live):
    console = Console(file=io.StringIO(), width=120)
    hooks_of(display(console, live=live, redact=True)).dlperf_run_started(
        run_id="r", plan=a_plan(), directory="/home/somebody/r"
    )
    assert "results in r" in console.file.getvalue()
    assert "somebody" not in console.file.getvalue()
