"""Slurm without a cluster: plans, submission, what is left in its queue, and what it says of jobs."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

from dlperf_sdk import RunSpec, run
from dlperf_sdk.campaigns.campaign import digest
from dlperf_sdk.cli.app import main
from dlperf_sdk.errors import Unavailable
from dlperf_sdk.execution.attaching import attach, find_job
from dlperf_sdk.launchers import agent_command
from dlperf_sdk.launchers.slurm import jobs, launcher, stream, submission
from dlperf_sdk.launchers.slurm.options import SlurmOptions
from dlperf_sdk.results.store import run_id

UNREACHED = "srun: error: Task launch for StepId=7.0 failed on node n3: Communication connection failure\n"


def test_a_node_that_srun_does_not_reach_is_named():
    kind, message, node = jobs.explain_end("", UNREACHED, "n[1,3-4]")
    assert (kind, node) == ("lost-node", 1)
    assert "the agent of node 1 (n3): Communication connection failure. Check that the node" in message
    kind, message, node = jobs.explain_end("", UNREACHED, "")
    assert (kind, node) == ("lost-node", None)
    assert "the agent of n3: " in message


@pytest.mark.parametrize(
    ("state", "output", "kind"),
    [
        ("TIMEOUT", "", "timeout"),
        ("", "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026 DUE TO TIME LIMIT ***", "timeout"),
        ("CANCELLED", "", "interrupted"),
        ("", "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026 ***", "interrupted"),
        ("NODE_FAIL", "srun: error: Node failure on n3", "lost-node"),
        ("OUT_OF_MEMORY", "", "out-of-memory"),
        ("PREEMPTED", "", "interrupted"),
        ("RUNNING", "srun: error: n1: task 0: Killed", None),
        ("COMPLETED", "", None),
        ("RUNNING", f"{UNREACHED}slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026 ***", "lost-node"),
        ("CANCELLED", UNREACHED, "interrupted"),
    ],
)
def test_outcomes_of_slurm_are_distinguished(state, output, kind):
    message = jobs.explain_end(state, output)
    assert (message and message[0]) == kind


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Slurm's commands as shell scripts; what they are called with stands in `called`."""
    called = tmp_path / "called"

    def command(name, script):
        (tmp_path / name).write_text(f'#!/bin/sh\necho "$0 $*" >> {called}\n{script}\n')
        (tmp_path / name).chmod(0o700)

    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    command.called = called
    return command


def test_the_script_of_a_plan_is_the_script_that_sbatch_gets(fake, tmp_path, monkeypatch, capsys):
    """But for what no plan can know: the run's name, and its bundle with the secret in it."""
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    fake("srun", "")
    fake("sbatch", f"cat > {tmp_path / 'script'}\necho sbatch: error: no such partition >&2\nexit 1")
    options = {"partition": "gpu", "linger": 7, "srun_flags": "--container-image='a b'"}
    words = [word for name, value in options.items() for word in ("--set", f"{name}={value}")]
    for command in (("plan",), ("run", "--dry-run")):
        assert main([*command, "numpy", "linear", "--topology", "2n1d@slurm", *words, "--json"]) == 0
        plan = json.loads(capsys.readouterr().out)
        result = run(
            *("numpy", "linear"),
            topology="2n1d@slurm",
            options=options,
            python=sys.executable,
            store=tmp_path / "store",
        )
        assert (result.status, "no such partition" in result.failure.message) == ("unavailable", True)
        text = (tmp_path / "script").read_text()
        bundle = re.search(r"b64decode\('([^']+)'\)", text)[1]
        unknown = {
            repr(bundle): "…",
            repr(agent_command.bootstrap_program()): "'BOOTSTRAP'",
            repr(str(len(base64.b64decode(bundle)))): "'BYTES'",
            result.id: "<run>",
        }
        for known, placeholder in unknown.items():
            assert known in text, placeholder
            text = text.replace(known, placeholder)
        assert text == plan["script"]
        submitted = fake.called.read_text().splitlines()[-1].partition("/sbatch ")[2]
        assert [" ".join(command) for command in plan["commands"]] == [
            f"sbatch {submitted}".replace(result.id, "<run>")
        ]


def test_a_plan_for_people_shows_the_script_whole(fake, monkeypatch, capsys):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    fake("srun", "")
    case = ("numpy", "linear", "--topology", "1n1d@slurm")
    assert main(["plan", *case, "--json"]) == 0
    script = json.loads(capsys.readouterr().out)["script"]
    assert main(["plan", *case]) == 0
    output = capsys.readouterr().out
    assert max(map(len, script.splitlines())) > 80
    assert script in output  # to the letter, and no line broken, whatever the terminal's width
    assert "one per node" not in output


def test_inside_an_allocation_a_plan_has_a_step_and_no_script(fake, monkeypatch, capsys):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    fake("srun", "")
    assert main(["plan", "numpy", "linear", "--topology", "2n1d@slurm", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["script"] is None
    assert [command[0] for command in plan["commands"]] == ["srun"]


@pytest.mark.parametrize("nodes", ["²", "9" * 5000, "-1", ""])
def test_an_allocation_with_an_odd_number_of_nodes_is_srun_to_judge(fake, monkeypatch, nodes):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", nodes)
    fake("srun", "")
    assert main(["plan", "numpy", "linear", "--topology", "2n1d@slurm"]) == 0


def test_an_srun_that_cannot_be_executed_is_named(fake, monkeypatch, tmp_path):
    fake("scontrol", "echo JobId=7 JobState=RUNNING BatchHost=n1")
    (tmp_path / "srun").write_text("#!/nowhere/sh\n", encoding="utf-8")
    (tmp_path / "srun").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match=r"^srun cannot be executed: No such file"):
        next(iter(stream.follow_job("7")))


def test_slurms_controller_may_be_restarted_while_a_job_waits(fake, monkeypatch):
    """It answers, does not, and answers again that the job has been cancelled."""
    monkeypatch.setattr(stream, "_POLL", 0.0)
    fake(
        "scontrol",
        f"case $(wc -l < {fake.called}) in 1) echo JobId=7 JobState=PENDING Reason=Priority;; "
        "[23]) echo down >&2; exit 1;; *) echo JobId=7 JobState=CANCELLED;; esac",
    )
    *waiting, last = stream.follow_job("7")
    output = [json.loads(line) for line in waiting]
    assert output == [{"event": "waiting", "text": "Slurm job 7 is waiting: Priority"}] * 3
    assert json.loads(last)["status"] == "interrupted"


def test_busy_slurm_controller_is_queried_again(fake, monkeypatch):
    monkeypatch.setattr(jobs, "_RETRY", 0.0)
    fake(
        "scontrol",
        f"case $(wc -l < {fake.called}) in 1) echo Socket timed out on send/recv operation >&2; exit 1;; "
        "*) echo JobId=7 JobState=RUNNING;; esac",
    )
    assert jobs.query_job("7")["JobState"] == "RUNNING"


ENDED = {"event": "ended", "failure": {"message": "…"}}


@pytest.mark.parametrize("status", ["crashed", "lost-node"])
@pytest.mark.parametrize(
    ("state", "kind"), [("CANCELLED", "interrupted"), ("TIMEOUT", "timeout"), ("RUNNING", None)]
)
def test_job_that_slurm_is_ending_has_not_crashed(fake, monkeypatch, status, state, kind):
    """Slurm ends workers and agents, and says why only behind that; meanwhile there are heartbeats."""
    monkeypatch.setattr(stream, "_POLL", 0.0)
    fake(
        "scontrol",
        f"case $(wc -l < {fake.called}) in [12]) echo JobState=COMPLETING;; *) echo JobState={state};; esac",
    )
    line = json.dumps({**ENDED, "status": status}).encode()
    *before, last = launcher.explain_allocation_end(iter([line]), "7")
    assert [json.loads(item)["event"] for item in before] == ["heartbeat"] * 2
    assert json.loads(last)["status"] == (kind or status)


@pytest.mark.parametrize("line", [b'"ended" {\n', b'["ended"]\n', b'{"diagnostics": 1}\n'])
def test_line_of_a_jobs_stream_that_is_not_an_event_is_skipped(line):
    assert stream._final_event(line) is None
    assert stream._final_event(json.dumps(ENDED).encode()) == ENDED


def test_other_failures_are_passed_on_at_once(fake):
    fake("scontrol", "exit 1")
    line = json.dumps({**ENDED, "status": "out-of-memory"}).encode()
    assert next(launcher.explain_allocation_end(iter([line]), "7")) == line
    assert not fake.called.exists()


@pytest.fixture
def queue(fake, tmp_path):
    """A queue that holds the case's job from the end of `sbatch` until it is cancelled; returns what was done."""
    job = tmp_path / "job"
    fake("sbatch", f"sleep 0.3; touch {job}; echo arrived >> {fake.called}; echo 7")
    fake("squeue", f"test ! -e {job} || echo 7 RUNNING dlperf-case")
    fake("scancel", f"rm {job}")
    return lambda: [line for line in fake.called.read_text().splitlines() if "/squeue" not in line]


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interruption_while_a_job_is_being_submitted_cancels_it(queue, job, monkeypatch, error):
    """By its name: its number is not known. Python's locks may make a RuntimeError of a Ctrl-C."""
    real = submission.run_slurm

    def interrupted(command, *text):
        answer = real(command, *text)
        if command[0] == "sbatch":
            raise error
        return answer

    monkeypatch.setattr(submission, "run_slurm", interrupted)
    options = SlurmOptions()
    with pytest.raises(error), submission.submit(job(options), ("srun",)):
        pass
    assert queue()[-1].endswith("scancel --me --name=dlperf-case 7")


@pytest.mark.parametrize("is_started", [True, False])
def test_an_interruption_while_the_submission_is_being_started(queue, job, monkeypatch, is_started):
    """Its thread may run already, or may run later: the job is cancelled, or never submitted."""
    real, threads = threading.Thread.start, []

    def start(thread):
        threads.append(thread)
        if is_started:
            real(thread)
        raise KeyboardInterrupt

    options = SlurmOptions()
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(threading.Thread, "start", start)
        with submission.submit(job(options), ("srun",)):
            pass
    if not is_started:
        real(threads[0])
    threads[0].join()
    called = queue()
    assert not any("sbatch" in line for line in called) or "scancel" in called[-1], called
    assert is_started or called == [], called


def test_job_being_submitted_is_canceled_once_it_is_queued(fake, queue, job, tmp_path):
    """Ctrl-C does not reach sbatch, whose request may have left; before it is answered there is nothing to cancel."""
    pressed = tmp_path / "pressed"
    slowly = f"until test -e {pressed}; do sleep 0.05; done; sleep 0.5"
    fake("sbatch", f"{slowly}; touch {tmp_path / 'job'}; echo arrived >> {fake.called}; echo 7")
    options = SlurmOptions()

    def press():
        while not fake.called.exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
        pressed.touch()

    pressing = threading.Thread(target=press)
    pressing.start()
    with pytest.raises(KeyboardInterrupt), submission.submit(job(options), ("srun",)):
        pass
    pressing.join()
    submitted, arrived, cancelled = queue()
    assert "sbatch --parsable" in submitted
    assert arrived == "arrived"
    assert cancelled.endswith("scancel --me --name=dlperf-case 7")


QUEUE = """\
7 RUNNING dlperf-case
8 COMPLETING dlperf-case
9 PENDING dlperf-largest-case
10 COMPLETED dlperf-case
11 CANCELLED dlperf-case
12 RUNNING dlperf-case2
13 RUNNING train
14 RUNNING dlperf-case of mine
15 PENDING 
16 SUSPENDED case
"""
"""Two of ours to end, and one that is ending; then ours that have ended, and others' that are called nearly so."""


def test_only_own_orphaned_jobs_are_canceled_in_slurm(fake):
    fake("squeue", f"cat << 'EOF'\n{QUEUE}EOF")
    fake("scancel", "")
    left = launcher.Slurm().cancel_orphaned_jobs({"case", "largest-case", "parity-case"}, SlurmOptions())
    assert left == {
        "Slurm job 7": "RUNNING",
        "Slurm job 8": "COMPLETING",
        "Slurm job 9": "PENDING",
    }
    requested, *cancelled = [line.rpartition("/")[2] for line in fake.called.read_text().splitlines()]
    assert requested.startswith("squeue --me --all --states=all ")
    # By name and user as well: in between, a number may have passed to somebody else's job.
    assert cancelled == [
        "scancel --me --name=dlperf-case 7",
        "scancel --me --name=dlperf-largest-case 9",
    ]


def test_a_users_own_defaults_for_squeue_hide_no_job(fake, monkeypatch):
    monkeypatch.setenv("SQUEUE_PARTITION", "gpu")
    fake("squeue", 'test -n "$SQUEUE_PARTITION" || echo 7 COMPLETING dlperf-case')
    assert submission.cancel_orphaned_jobs({"case"}) == {"Slurm job 7": "COMPLETING"}


def test_a_submission_under_way_counts_as_left(fake):
    """Its controller was killed while sbatch waited for Slurm: the job is yet to come."""
    fake("squeue", "")
    code = "import time; print('there', flush=True); time.sleep(60)"
    words = [sys.executable, "-c", code, "--parsable", "--job-name=dlperf-case"]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as sbatch:
        try:
            assert sbatch.stdout.readline() == b"there\n"
            assert submission.cancel_orphaned_jobs({"case"}) == {
                f"the sbatch with the process {sbatch.pid}": "submitting"
            }
            assert submission.cancel_orphaned_jobs({"cas", "case2"}) == {}
        finally:
            sbatch.kill()
    assert submission.cancel_orphaned_jobs({"case"}) == {}


def test_orphaned_jobs_are_unknown_without_an_answer_of_slurm(fake):
    fake("squeue", "echo slurm_load_jobs error: Unable to contact slurm controller >&2; exit 1")
    with pytest.raises(Unavailable, match="squeue failed: .*Unable to contact"):
        submission.cancel_orphaned_jobs({"case"})


def test_no_orphaned_jobs_without_slurm(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert submission.cancel_orphaned_jobs({"case"}) == {}


def test_only_our_own_jobs_are_attached_to(fake, tmp_path):
    fake("scontrol", "echo JobId=7 JobName=train JobState=RUNNING")
    with pytest.raises(Unavailable, match="dlperf did not submit Slurm job 7"):
        attach(find_job("7@slurm"), tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_slurms_reason_for_a_waiting_job_is_shown_until_it_runs(fake, tmp_path, monkeypatch, capsys):
    """As a run shows it that has submitted one."""
    monkeypatch.setattr(stream, "_POLL", 0.0)
    fake(
        "scontrol",
        f"case $(wc -l < {fake.called}) in [123]) echo JobId=7 JobName=dlperf-x JobState=PENDING Reason=Resources;; "
        "*) echo JobId=7 JobName=dlperf-x JobState=CANCELLED;; esac",
    )
    assert main(["attach", "7@slurm", "--output", str(tmp_path / "store")]) == 2
    output = capsys.readouterr().err.splitlines()
    assert output[0] == "queue: Slurm job 7 is waiting: Resources"
    assert output[1].startswith("Error: The run ended before it described its case: The job was cancelled"), (
        output
    )
    assert len(output) == 2


@pytest.mark.parametrize("word", ["", "largest-"])
def test_a_campaigns_job_is_not_attached_to(fake, tmp_path, capsys, word):
    spec = RunSpec(framework="numpy", model="linear", topology="2n1d@slurm")
    name = f"{word}{run_id(spec, '20260102T030405Z-0b61e2', digest(spec))}"
    fake("scontrol", f"echo JobId=7 JobName=dlperf-{name} JobState=RUNNING")
    assert main(["attach", "7@slurm", "--output", str(tmp_path / "store")]) == 2
    output = capsys.readouterr().err
    assert "Slurm job 7 is one attempt of a campaign's case" in output
    assert "`dlperf campaign resume DIR`" in output
    assert "dlperf-campaigns/20260102T030405Z-0b61e2-NAME" in output
    assert len(output.splitlines()) == 1
    assert not (tmp_path / "store").exists()


def test_slurm_without_a_cluster_is_reported_with_advice(fake):
    words = "fatal: Could not establish a configuration source"
    fake("scontrol", f"echo 'scontrol: {words}' >&2; exit 1")
    with pytest.raises(
        Unavailable, match=rf"{words}\. Slurm's commands are .* login nodes, .* SLURM_CONF, .*"
    ):
        jobs.query_job("7")
