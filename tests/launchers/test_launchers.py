"""Launchers without their engines: their command lines, how agents find their place and each other, what is swept."""

from __future__ import annotations

import ast
import base64
import fcntl
import io
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import tracemalloc
import zipfile
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlperf_sdk import RunSpec, run
from dlperf_sdk.campaigns.campaign import digest
from dlperf_sdk.campaigns.planning import stamp
from dlperf_sdk.cli.app import main
from dlperf_sdk.errors import SpecError, TimedOut, Unavailable
from dlperf_sdk.execution.replay import attach, find_job
from dlperf_sdk.interfaces.topology import Job, Topology
from dlperf_sdk.launchers import agent_command, events, mpi, ssh, start_failures, stream_events
from dlperf_sdk.launchers.hosts import HostOptions
from dlperf_sdk.launchers.local import Local
from dlperf_sdk.launchers.slurm import jobs, launcher, stream, submission
from dlperf_sdk.launchers.slurm.options import SlurmOptions
from dlperf_sdk.planning.spec_file import load_spec
from dlperf_sdk.results.store import campaign_of, new_run_id, run_id
from dlperf_sdk.worker.agent import preflight, rendezvous, scratch
from dlperf_sdk.worker.agent.placement import expand_hosts, resolve_placement

SECRET = "5" * 64


@pytest.fixture
def job(tmp_path):
    """A job with these options, and a bundle of twelve bytes."""
    (tmp_path / "case.pyz").write_bytes(b"twelve bytes")

    def make(options, nodes=2, **fields):
        return Job("case", tmp_path / "case.pyz", nodes, 1, "cpu", options, **fields)

    return make


# -- where an agent is


@pytest.mark.parametrize(
    ("short", "names"),
    [
        ("n1", ["n1"]),
        ("n[1-3],login", ["n1", "n2", "n3", "login"]),
        ("n[08-10]", ["n08", "n09", "n10"]),
        ("r[1-2]n[1,3]-ib", ["r1n1-ib", "r1n3-ib", "r2n1-ib", "r2n3-ib"]),
    ],
)
def test_slurms_short_form_of_hosts(short, names):
    assert expand_hosts(short) == names


@given(st.lists(st.from_regex(r"[a-z][a-z0-9.-]{0,8}", fullmatch=True), min_size=1))
def test_a_plain_list_of_hosts_is_itself(names):
    assert expand_hosts(",".join(names)) == names


NUMBERS = st.tuples(st.integers(0, 30), st.integers(0, 4), st.integers(1, 3)).map(
    lambda given: (f"{given[0]:0{given[2]}}", f"{given[0] + given[1]:0{given[2]}}")
)
PIECES = st.lists(
    st.tuples(st.sampled_from(["n", "-ib", "."]), st.lists(NUMBERS, max_size=2)), min_size=1, max_size=3
)


@given(PIECES)
def test_ranges_stand_for_their_numbers_of_which_the_last_go_fastest(pieces):
    short, names = "", [""]
    for text, ranges in pieces:
        brackets = f"[{','.join('-'.join(each) for each in ranges)}]" if ranges else ""
        short += text + brackets
        inside = [
            str(number).zfill(len(first))
            for first, last in ranges
            for number in range(int(first), int(last) + 1)
        ]
        names = [name + text + number for name in names for number in inside or [""]]
    assert expand_hosts(short) == names


@pytest.mark.parametrize(
    "text",
    [
        "a[0-399]b[0-399]",
        "a[0-99999]b[0-99999]c[0-99999]d[0-99999]",
        "a[0-99999],b[0-99999]",
        "a" * 1_000_000 + "[0-99999]",
        f"a[{'0' * 4000}-99999]",
        "[0]" * 1000 + "[0-99999]",
        "a[0-99999999999][2-1]",
        "a[2-1]",
    ],
)
def test_too_many_hosts_are_refused_before_any_is_named(text):
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"."):
            expand_hosts(text)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


@given(st.text(alphabet="n0123456789[]-,", max_size=12))
def test_any_text_is_a_list_of_hosts_or_an_error(text):
    try:
        assert all(name and "[" not in name for name in expand_hosts(text)) or "]" in text
    except ValueError:
        pass


@pytest.mark.parametrize("text", ["", "n[1-", "n]1[", "a,,b", "n[1-999999999]", "n[x]", "n[[1]]", "n[]"])
def test_what_is_no_list_of_hosts(text):
    with pytest.raises(ValueError, match=r"."):
        expand_hosts(text)


def test_a_place_comes_from_the_engines_variables():
    variables = {"SLURM_NODEID": "2", "SLURM_STEP_NODELIST": "n[1-4]"}
    assert resolve_placement("$SLURM_NODEID", "$SLURM_STEP_NODELIST", variables) == (
        2,
        ["n1", "n2", "n3", "n4"],
    )
    assert resolve_placement("1", "a,b", {}) == (1, ["a", "b"])


@pytest.mark.parametrize(("node", "hosts"), [("$ABSENT", "a"), ("2", "a,b"), ("-1", "a"), ("x", "a")])
def test_a_place_that_is_none(node, hosts):
    with pytest.raises(ValueError, match=r"."):
        resolve_placement(node, hosts, {})


# -- how agents find each other


def test_who_holds_the_secret_reckons_the_same_ports():
    candidates = rendezvous.candidate_ports(SECRET)
    assert candidates == rendezvous.candidate_ports(SECRET) != rendezvous.candidate_ports("6" * 64)
    assert len(set(candidates)) == rendezvous.CANDIDATES
    assert all(20000 <= port < 32000 for port in candidates)


def test_a_port_that_is_taken_is_passed_over():
    candidates = rendezvous.candidate_ports(SECRET)
    with (
        rendezvous.listen("127.0.0.1", candidates) as first,
        rendezvous.listen("127.0.0.1", candidates) as second,
    ):
        assert (first.getsockname()[1], second.getsockname()[1]) == (candidates[0], candidates[1])
        assert first.getsockname()[0] == "127.0.0.1"


def test_nobody_there_is_said():
    with pytest.raises(OSError, match="no coordinator of this run on 127.0.0.1"):
        rendezvous.connect("127.0.0.1", rendezvous.candidate_ports(SECRET), SECRET, 0.2)


# -- what is held against each other before the clock


def test_the_first_difference_is_named_with_its_node():
    same = {"python": "3.11.7", "packages": {"torch": "2.13.0"}}
    other = {"python": "3.11.7", "packages": {"torch": "2.12.0"}}
    assert preflight.difference([("n1", same), ("n2", dict(same))]) is None
    assert preflight.difference([("n1", same), ("n2", other)]) == "n2 has torch 2.12.0, and n1 has 2.13.0"
    assert "none" in preflight.difference([("n1", same), ("n2", {"python": "3.11.7", "packages": {}})])
    told = preflight.difference([("n1", same), ("n2", {"python": "3.12.1"})])
    assert told == "n2 has Python 3.12.1, and n1 has 3.11.7"


def test_an_environment_tells_its_versions():
    told = preflight.versions([sys.executable], dict(os.environ))
    assert told["python"] == ".".join(map(str, sys.version_info[:3]))
    assert "numpy" in told["packages"]
    assert preflight.versions(["/nowhere/python"], {}) == {}


def test_a_node_that_cannot_be_reached_is_named():
    door = preflight.Doorbell("127.0.0.1")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        doors = [[0, "127.0.0.1", door.port], [1, "127.0.0.1", closed.getsockname()[1]]]
        assert preflight.unreachable(doors) == [1]
    door.close()


# -- what is left behind is swept, and nothing else


def left_behind(folder, name, lock=True):
    path = folder / name
    (path / "bundle").mkdir(parents=True)
    if lock:
        (path / "lock").touch()
    return path


def test_only_what_nobody_holds_is_swept(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch.tempfile, "gettempdir", lambda: str(tmp_path))
    dead, alive = left_behind(tmp_path, "dlperf-aaaaaaaa"), left_behind(tmp_path, "dlperf-bbbbbbbb")
    others = [
        left_behind(tmp_path, name) for name in ("dlperf-results", "dlperf-cccccccc2", "other-dddddddd")
    ]
    mine = left_behind(tmp_path, "dlperf-eeeeeeee", lock=False)
    (tmp_path / "dlperf-ffffffff").symlink_to(others[0])
    with (alive / "lock").open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        scratch.sweep()
    assert not dead.exists()
    assert all(path.exists() for path in (alive, mine, *others, tmp_path / "dlperf-ffffffff"))


def test_what_a_killed_start_left_is_swept_an_hour_later(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch.tempfile, "gettempdir", lambda: str(tmp_path))
    path = tmp_path / "dlperf-aaaaaaaa"
    path.mkdir()
    (path / "bundle.pyz").touch()
    scratch.sweep()
    assert path.exists()
    os.utime(path, (time.time() - 4000,) * 2)
    scratch.sweep()
    assert not path.exists()


def test_a_scratch_directory_is_private_and_held(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch.tempfile, "tempdir", str(tmp_path))
    with scratch.scratch() as path:
        assert Path(path).stat().st_mode & 0o777 == 0o700
        assert (Path(path) / "lock").stat().st_mode & 0o777 == 0o600
        scratch.sweep()
        assert Path(path).is_dir()
    assert not Path(path).exists()


# -- the commands


def agent_of(command):
    """A command from the agent's interpreter on, its program left out."""
    at = command.index("-I")
    assert command[at + 1 : at + 4] == ("-S", "-c", agent_command.bootstrap_program())
    return (*command[at - 1 : at + 2], *command[at + 4 :])


def test_the_node_command_holds_the_size_and_no_secret(job):
    place = agent_command.PlacementArguments("$SLURM_NODEID", "$SLURM_STEP_NODELIST", "ib0", "40000-40100")
    command = agent_command.agent_command(job(None, prefix=("podman", "run", "-i")), "python3", place)
    assert command[:3] == ("podman", "run", "-i")
    assert agent_of(command) == (
        *("python3", "-I", "-S", "12", "agent", "--case", "case", "--node", "$SLURM_NODEID"),
        *("--hosts", "$SLURM_STEP_NODELIST", "--interface", "ib0", "--ports", "40000-40100", "--tether"),
    )


def test_ssh_gets_words_that_a_shell_takes_apart_as_they_were(job):
    import shlex

    commands = ssh.Ssh().agent_commands(job(HostOptions(hosts="n[1-3]", launcher_flags="-p 22")))
    assert [command[-2] for command in commands] == ["n1", "n2"]
    assert commands[0][:2] == ("ssh", "-T")
    assert "-p" in commands[0]
    assert "--node 1 --hosts n1,n2" in " ".join(agent_of(tuple(shlex.split(commands[1][-1]))))


def test_openmpi_hands_its_standard_input_to_all_agents(job):
    options = HostOptions(hosts="n1,n2", interface="ib0", launcher_flags="-x A")
    (command,) = mpi.Mpi().agent_commands(job(options))
    assert command[:3] == ("mpirun", "--host", "n1:1,n2:1")
    assert command[command.index("--stdin") :][:6] == ("--stdin", "all", "-np", "2", "-x", "A")
    at = command.index("A") + 1  # behind all of mpirun's: what runs the agent, and says so if it is not there
    assert command[at : at + 5] == ("sh", "-c", 'exec "$@"', "sh", "python3")
    assert "$OMPI_COMM_WORLD_RANK" in command


def test_an_mpirun_that_cannot_carry_the_bundle_is_refused(tmp_path, monkeypatch):
    (tmp_path / "mpirun").write_text("#!/bin/sh\necho HYDRA build details:\n")
    (tmp_path / "mpirun").chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    mpi.is_hydra.cache_clear()
    assert "hydra" in mpi.Mpi().unavailable_reason(2, 1, "cpu")
    (tmp_path / "mpirun").write_text("#!/bin/sh\necho 'mpirun (Open MPI) 4.1.4'\n")
    mpi.is_hydra.cache_clear()
    assert mpi.Mpi().unavailable_reason(2, 1, "cpu") is None
    mpi.is_hydra.cache_clear()


def test_a_hosts_file(job, tmp_path):
    (tmp_path / "hosts").write_text("# the nodes\nn1 slots=8\n\nn2\n")
    options = HostOptions(hostfile=str(tmp_path / "hosts"))
    assert options.select_hosts(2) == ["n1", "n2"]
    with pytest.raises(Unavailable, match="The case needs 3 nodes, and the hosts given are n1, n2"):
        options.select_hosts(3)
    with pytest.raises(Unavailable, match="cannot be read"):
        HostOptions(hostfile="/nowhere/hosts").select_hosts(1)


def test_the_options_of_a_job_are_sbatchs(job):
    options = SlurmOptions(
        partition="gpu",
        account="a",
        time_limit="30",
        constraint="h100",
        gres="gpu:8",
        sbatch_flags="--qos high",
    )
    words = submission.sbatch_command(job(options, 4))
    assert words[0] == "sbatch"
    for word in (
        "--partition=gpu",
        "--account=a",
        "--time=30",
        "--constraint=h100",
        "--gres=gpu:8",
        "--qos",
        "--exclusive",
    ):
        assert word in words
    assert "--nodes=4" in words
    assert not any(
        "=" in word and word.endswith("=") for word in submission.sbatch_command(job(SlurmOptions()))
    )


def test_a_step_places_one_agent_per_node(job):
    options = SlurmOptions(srun_flags="--container-image='a b'")
    (words,) = launcher.Slurm().agent_commands(job(options, 4))
    assert words[0] == "srun"
    for word in ("--nodes=4", "--ntasks=4", "--ntasks-per-node=1", "--overlap", "--container-image=a b"):
        assert word in words


def test_the_batch_script_is_python_and_carries_the_bundle():
    text = submission.batch_script(("srun", "a 'b'"), 7, b"\0secret")
    compile(text, "script", "exec")
    assert base64.b64decode(re.search(r"b64decode\((.*)\)\)", text)[1].strip("'")) == b"\0secret"
    assert '["srun", ' in text.replace("'srun'", '"srun"')
    assert text.startswith("#!/usr/bin/env python3\n")


@given(st.lists(st.sampled_from(["BUNDLE", "LINGER", "STEP", "$bundle", "$$", "'", "\n", "é"]) | st.text()))
def test_the_batch_script_has_the_steps_words_as_they_are(step):
    tree = ast.parse(submission.batch_script(step, 7, b"bundle"))
    (*_, linger, _, words) = next(
        node.elts for node in ast.walk(tree) if isinstance(node, ast.List) and len(node.elts) == 8
    )
    assert (linger.value, ast.literal_eval(words.value)) == ("7", step)


def test_whom_to_log_in_as_is_for_ssh_alone(job):
    """The agents know each other by their hosts' names."""
    command = ssh.Ssh().agent_commands(job(HostOptions(hosts="me@n1,me@n2")))[1]
    assert command[-2] == "me@n2"
    assert "--hosts n1,n2 " in command[-1]


def test_a_machine_that_is_named_twice_is_not_two_nodes(job):
    with pytest.raises(Unavailable, match="host n1 is named twice"):
        ssh.Ssh().agent_commands(job(HostOptions(hosts="n1,n2,n1"), 3))
    assert len(ssh.Ssh().agent_commands(job(HostOptions(hosts="n1,n2,n1"), 2))) == 2


@pytest.mark.parametrize("options", [HostOptions, SlurmOptions])
def test_what_is_no_range_of_ports_is_no_option(options):
    with pytest.raises(ValueError, match="no range of ports"):
        options(ports="80")
    assert options(ports="40000-40100").ports == "40000-40100"


@pytest.mark.parametrize("host", ["-oProxyCommand=x", "a b", "a;b", "$(x)"])
def test_what_is_no_host_is_never_handed_to_ssh(job, host):
    with pytest.raises(Unavailable, match="no name or address of a host"):
        ssh.Ssh().agent_commands(job(HostOptions(hosts=f"n1,{host}")))


@pytest.mark.parametrize("name", ["launcher_flags", "srun_flags", "sbatch_flags", "agent_python", "hostfile"])
def test_a_spec_file_names_no_program_through_a_launchers_options(name, tmp_path):
    document = {"framework": "numpy", "model": "linear", "options": {name: "x"}}
    (tmp_path / "case.json").write_text(json.dumps(document))
    with pytest.raises(SpecError, match=f"--set {name}="):
        load_spec(tmp_path / "case.json")


@pytest.mark.parametrize(
    ("state", "said", "kind"),
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
    ],
)
def test_what_slurm_did_is_told_apart(state, said, kind):
    told = jobs.explain_end(state, said)
    assert (told and told[0]) == kind


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
    said = capsys.readouterr().out
    assert max(map(len, script.splitlines())) > 80
    assert script in said  # to the letter, and no line broken, whatever the terminal's width
    assert "one per node" not in said


def test_inside_an_allocation_a_plan_has_a_step_and_no_script(fake, monkeypatch, capsys):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    fake("srun", "")
    assert main(["plan", "numpy", "linear", "--topology", "2n1d@slurm", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["script"] is None
    assert [command[0] for command in plan["commands"]] == ["srun"]


def test_slurms_controller_may_be_restarted_while_a_job_waits(fake, monkeypatch):
    """It answers, does not, and answers again that the job has been cancelled."""
    monkeypatch.setattr(stream, "_POLL", 0.0)
    fake(
        "scontrol",
        f"case $(wc -l < {fake.called}) in 1) echo JobId=7 JobState=PENDING Reason=Priority;; "
        "[23]) echo down >&2; exit 1;; *) echo JobId=7 JobState=CANCELLED;; esac",
    )
    *waiting, last = stream.follow_job("7")
    said = [json.loads(line) for line in waiting]
    assert said == [{"event": "waiting", "text": "Slurm job 7 is waiting: Priority"}] * 3
    assert json.loads(last)["status"] == "interrupted"


def test_slurms_controller_is_asked_once_more_where_it_was_busy(fake, monkeypatch):
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
def test_what_slurm_is_ending_has_not_crashed(fake, monkeypatch, status, state, kind):
    """Slurm ends workers and agents, and says why only behind that; meanwhile there are signs of life."""
    monkeypatch.setattr(stream, "_POLL", 0.0)
    fake(
        "scontrol",
        f"case $(wc -l < {fake.called}) in [12]) echo JobState=COMPLETING;; *) echo JobState={state};; esac",
    )
    line = json.dumps({**ENDED, "status": status}).encode()
    *before, last = launcher.explain_allocation_end(iter([line]), "7")
    assert [json.loads(each)["event"] for each in before] == ["heartbeat"] * 2
    assert json.loads(last)["status"] == (kind or status)


def test_other_failures_are_passed_on_at_once(fake):
    fake("scontrol", "exit 1")
    line = json.dumps({**ENDED, "status": "out-of-memory"}).encode()
    assert next(launcher.explain_allocation_end(iter([line]), "7")) == line
    assert not fake.called.exists()


def test_an_interruption_while_a_job_is_being_submitted_cancels_it(fake, job, monkeypatch):
    """By its name: its number is not known."""
    fake("scancel", "")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(submission, "run_slurm", interrupted)
    options = SlurmOptions()
    with pytest.raises(KeyboardInterrupt), submission.submit(job(options), ("srun",)):
        pass
    assert fake.called.read_text().endswith("scancel --me --name=dlperf-case\n")


def test_what_is_on_its_way_to_slurm_is_cancelled_when_it_has_arrived(fake, job, tmp_path):
    """Ctrl-C does not reach sbatch, whose request may have left; before it is answered there is nothing to cancel."""
    pressed = tmp_path / "pressed"
    slowly = f"until test -e {pressed}; do sleep 0.05; done; sleep 0.5"
    fake("sbatch", f"{slowly}; echo arrived >> {fake.called}; echo 7")
    fake("scancel", "")
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
    submitted, arrived, cancelled = fake.called.read_text().splitlines()
    assert "sbatch --parsable" in submitted
    assert arrived == "arrived"
    assert cancelled.endswith("scancel --me --name=dlperf-case")


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


def test_of_what_is_left_in_slurms_queue_our_own_is_ended_and_nothing_else(fake):
    fake("squeue", f"cat << 'EOF'\n{QUEUE}EOF")
    fake("scancel", "")
    left = launcher.Slurm().cancel_orphaned_jobs({"case", "largest-case", "parity-case"}, SlurmOptions())
    assert left == {
        "Slurm job 7": "RUNNING",
        "Slurm job 8": "COMPLETING",
        "Slurm job 9": "PENDING",
    }
    asked, *cancelled = [line.rpartition("/")[2] for line in fake.called.read_text().splitlines()]
    assert asked.startswith("squeue --me --all --states=all ")
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


def test_where_slurm_does_not_answer_nobody_knows_what_is_left(fake):
    fake("squeue", "echo slurm_load_jobs error: Unable to contact slurm controller >&2; exit 1")
    with pytest.raises(Unavailable, match="squeue failed: .*Unable to contact"):
        submission.cancel_orphaned_jobs({"case"})


def test_without_slurm_nothing_of_it_is_left(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert submission.cancel_orphaned_jobs({"case"}) == {}


def test_only_our_own_jobs_are_attached_to(fake, tmp_path):
    fake("scontrol", "echo JobId=7 JobName=train JobState=RUNNING")
    with pytest.raises(Unavailable, match="dlperf did not submit Slurm job 7"):
        attach(find_job("7@slurm"), tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_what_slurm_says_of_a_job_that_waits_is_shown_until_it_runs(fake, tmp_path, monkeypatch, capsys):
    """As a run shows it that has submitted one."""
    monkeypatch.setattr(stream, "_POLL", 0.0)
    fake(
        "scontrol",
        f"case $(wc -l < {fake.called}) in [123]) echo JobId=7 JobName=dlperf-x JobState=PENDING Reason=Resources;; "
        "*) echo JobId=7 JobName=dlperf-x JobState=CANCELLED;; esac",
    )
    assert main(["attach", "7@slurm", "--output", str(tmp_path / "store")]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "queue: Slurm job 7 is waiting: Resources"
    assert said[1].startswith("Error: The run was over before it said anything: The job was cancelled"), said
    assert len(said) == 2


@pytest.mark.parametrize("word", ["", "largest-"])
def test_a_campaigns_job_is_not_attached_to(fake, tmp_path, capsys, word):
    spec = RunSpec(framework="numpy", model="linear", topology="2n1d@slurm")
    name = f"{word}{run_id(spec, '20260102T030405Z-0b61e2', digest(spec))}"
    fake("scontrol", f"echo JobId=7 JobName=dlperf-{name} JobState=RUNNING")
    assert main(["attach", "7@slurm", "--output", str(tmp_path / "store")]) == 2
    said = capsys.readouterr().err
    assert "Slurm job 7 is one attempt of a campaign's case" in said
    assert "`dlperf campaign resume DIR`" in said
    assert "dlperf-campaigns/20260102T030405Z-0b61e2-NAME" in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "store").exists()


@given(st.from_regex(r"[a-z][a-z0-9._-]{0,20}", fullmatch=True))
def test_the_names_of_campaigns_runs_are_told_from_others(framework):
    spec = RunSpec(framework=framework, model="linear")
    when = stamp()
    assert campaign_of(run_id(spec, when, digest(spec))) == when
    assert campaign_of(new_run_id(spec, datetime.now(UTC))) is None


@pytest.mark.parametrize("command", [("run",), ("run", "--dry-run"), ("plan",)])
@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        ("hosts=n1,-x", "'-x' is no name or address of a host."),
        ("hosts=n1,n[2-", "The hosts cannot be read: 'n1,n[2-' is no list of hosts."),
        ("hosts=n1,n1", "The host n1 is named twice"),
        ("hosts=n1", "The case needs 2 nodes, and the hosts given are n1."),
        (
            "hostfile=/nowhere/hosts",
            "The hosts file /nowhere/hosts cannot be read: No such file or directory.",
        ),
        ("hostfile=/", "The hosts file / cannot be read: Is a directory."),
        ("hostfile=~nobody-of-that-name/hosts", "The hosts cannot be read: "),
        ("hostfile=FOLDER/odd", "/odd:3: '$(id)' is no name or address of a host."),
        ("hostfile=FOLDER/binary", "/binary is no text: "),
    ],
)
def test_a_mistake_in_the_hosts_is_one_in_what_was_asked(tmp_path, capsys, command, hosts, said):
    """The exit code is that of a usage, and nothing has been started or made."""
    (tmp_path / "odd").write_text("# mine\nn1\n$(id) slots=8\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    words = ["numpy", "linear", "--topology", "2n1d@ssh", "--set", hosts.replace("FOLDER", str(tmp_path))]
    output = [] if command == ("plan",) else ["--output", str(tmp_path / "store")]
    assert main([*command, *words, *output]) == 2
    captured = capsys.readouterr()
    assert (captured.out, said in captured.err) == ("", True), captured
    assert len(captured.err.splitlines()) == 1
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("launcher", "flags"),
    [
        ("ssh", "launcher_flags"),
        ("mpi", "launcher_flags"),
        ("slurm", "sbatch_flags"),
        ("slurm", "srun_flags"),
    ],
)
def test_flags_that_cannot_be_split_into_words_are_refused(tmp_path, capsys, launcher, flags):
    words = ["numpy", "linear", "--topology", f"2n1d@{launcher}", "--set", f'{flags}=-o "x']
    assert main(["run", *words, "--output", str(tmp_path / "store")]) == 2
    said = capsys.readouterr().err
    assert f"{flags} is '-o \"x', which a shell cannot split into words (No closing quotation)" in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "store").exists()


def test_flags_that_are_no_text_are_refused():
    with pytest.raises(TypeError, match="launcher_flags is None, not a text"):
        HostOptions(launcher_flags=None)


def test_slurm_without_a_cluster_says_where_to_go(fake):
    words = "fatal: Could not establish a configuration source"
    fake("scontrol", f"echo 'scontrol: {words}' >&2; exit 1")
    with pytest.raises(
        Unavailable, match=rf"{words}\. Slurm's commands are .* login nodes, .* SLURM_CONF, .*"
    ):
        jobs.query_job("7")


def test_what_is_no_jobs_number_is_never_handed_on():
    with pytest.raises(Unavailable, match="no number of a Slurm job"):
        jobs.query_job("7; rm -rf /")


def test_a_node_needs_nothing_but_a_python():
    """What agents, batch jobs and bundles import holds no NumPy: a node's own Python has none."""
    code = (
        "import sys; sys.modules['numpy'] = None\nfrom dlperf_sdk.worker import main\n"
        "from dlperf_sdk.worker.agent import batch_job, joining, standalone"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# -- the program that takes the bundle


def bootstrapped(bundle, size, tmp_path, *words):
    command = [sys.executable, "-I", "-S", "-c", agent_command.bootstrap_program(), str(size), *words]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    return subprocess.run(
        command, input=bundle, capture_output=True, check=False, env=environment, timeout=60
    )


def test_a_bundle_is_taken_from_standard_input_unpacked_and_run(tmp_path):
    program = "import os, sys\nprint(sys.argv[1:-1], oct(os.stat(sys.argv[0]).st_mode), sys.stdin.read())\n"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("__main__.py", program)
    bundle = packed.getvalue()
    done = bootstrapped(bundle + b"the rest", len(bundle), tmp_path, "agent", "--node", "1")
    assert done.stdout.decode().strip() == "['agent', '--node', '1', '--scratch'] 0o40700 the rest"
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_bundle_is_not_run(tmp_path):
    done = bootstrapped(b"no bundle", 9, tmp_path, "agent", "--node", "1")
    assert "cannot take the bundle: File is not a zip file" in json.loads(done.stdout)["failure"]["message"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("node", ["1", "$NODE"])
def test_a_node_that_cannot_take_the_bundle_says_so_as_an_event(tmp_path, monkeypatch, node):
    monkeypatch.setenv("NODE", "1")
    done = bootstrapped(b"short", 100, tmp_path, "agent", "--node", node)
    event = json.loads(done.stdout)
    assert (done.returncode, event["event"], event["failure"]["kind"], event["failure"]["node"]) == (
        *(1, "ended", "unavailable", 1),
    )
    assert "standard input ended 95 bytes before the bundle did" in event["failure"]["message"]
    assert list(tmp_path.iterdir()) == []


# -- what is said before anybody has been started


class Silent(Topology):
    """A launcher whose stream is these lines."""

    name = "silent"

    def __init__(self, *lines):
        self.lines = lines

    def commands(self, job):
        return (("silent",),)

    def launch(self, job):
        return nullcontext(iter(self.lines))


def test_what_a_launcher_waits_for_is_told_once(job):
    def waiting(text):
        return json.dumps({"event": "waiting", "text": text}).encode()

    launcher = Silent(*map(waiting, ("job 7 waits", "job 7 waits: Priority", "job 7 waits: Priority")))
    *told, last = events.launch_events(launcher, job(None))
    assert [event["text"] for event in told] == ["job 7 waits", "job 7 waits: Priority"]
    assert last["event"] == "ended"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ((stream_events.ended_event("x", "y")[:9],), "The agent of node 0 was not started."),
        ((b'{"event": "diagnostics", "text": "no host"}',), "was not started. "),
        ((b'{"event": "diagnostics", "text": "no host"}',), "Last output: no host"),
        ((b'{"event": "heartbeat"}',), "The agent of node 0 ended in the middle of the run."),
    ],
)
def test_an_agent_that_was_never_heard_was_not_started(job, lines, said):
    (last,) = events.launch_events(Silent(*lines), job(None))
    assert (last["status"], last["failure"]["node"]) == ("lost-node", 0)
    assert said in last["failure"]["message"]


PYTHON = "/nowhere/python9"
OPENMPI = f"""\
--------------------------------------------------------------------------
mpirun was unable to find the specified executable file, and therefore
did not launch the job.  This error was first reported for process
rank 0; it may have occurred for other processes as well.

Node:       n1
Executable: {PYTHON}
--------------------------------------------------------------------------
2 total processes failed to start
"""


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (f"bash: line 1: {PYTHON}: No such file or directory", "No such file or directory"),
        (f"sh: 1: {PYTHON}: not found", "not found"),
        (f"zsh:1: no such file or directory: {PYTHON}", "no such file or directory"),
        (f"bash: line 1: {PYTHON}: Permission denied", "Permission denied"),
        (f"slurmstepd: error: execve(): {PYTHON}: No such file or directory", "No such file or directory"),
        (
            f"Error: crun: executable file `{PYTHON}` not found in $PATH: No such file or directory",
            "not found",
        ),
        (OPENMPI, "mpirun finds no such program"),
        (f"{PYTHON}: can't open file 'x': [Errno 2] No such file or directory", None),
        (f"bash: line 1: {PYTHON}.1: No such file or directory", None),
        (f"bash: line 1: /usr{PYTHON}: No such file or directory", None),
        ("", None),
    ],
)
def test_whether_the_agents_python_is_what_is_missing(said, why):
    assert start_failures.find_program_failure(PYTHON, said) == why


@pytest.mark.parametrize(
    ("said", "node"),
    [
        ("ssh: Could not resolve hostname n10: Name or service not known", 1),
        ("ssh: connect to host n1 port 22: Connection refused", 0),
        ("Warning: n1 and n10\nme@n10: Permission denied (publickey).", 1),
        ("  my node:   head\n  target node:  n1", None),
        ("ssh: Could not resolve hostname n1.example.org: Name or service not known", None),
        ("ORTE was unable to reliably start one or more daemons.", None),
        ("", None),
    ],
)
def test_which_host_was_not_reached(said, node):
    assert start_failures.find_unreached_host(["n1", "me@n10"], said) == node


def diagnosed(text):
    return json.dumps({"event": "diagnostics", "text": text}).encode()


def test_where_nobody_says_which_host_it_is_all_are_named():
    *_, last = start_failures.explain_start_failure(
        iter([diagnosed("ORTE failed.")]), "python3", ["n1", "n2"]
    )
    failure = json.loads(last)["failure"]
    assert (failure["kind"], failure["node"]) == ("lost-node", None)
    assert "on any of the hosts n1, n2: " in failure["message"]
    assert failure["message"].endswith("Last output: ORTE failed.")


def test_what_agents_say_is_handed_on_as_it_is():
    """Whoever has been heard was started."""
    lines = [
        b'{"event": "heartbeat"}',
        diagnosed("ssh: n1: no"),
        stream_events.ended_event("crashed", "it did", 1),
    ]
    assert list(start_failures.explain_start_failure(iter(lines[:2]), "python3", ["n1", "n2"])) == lines[:2]
    assert list(start_failures.explain_start_failure(iter(lines), "python3", ["n1", "n2"])) == lines


def test_a_second_node_without_the_agents_python_is_named():
    lost = stream_events.ended_event(
        "lost-node", f"The command of node 1 ended. sh: 1: {PYTHON}: not found", 1
    )
    (last,) = start_failures.explain_start_failure(iter([lost]), PYTHON)
    failure = json.loads(last)["failure"]
    assert (failure["kind"], failure["node"]) == ("unavailable", 1)
    assert failure["message"].startswith(
        f"{PYTHON}, which runs the agents, cannot be started on node 1: not found."
    )


def test_a_time_limit_that_passes_in_a_queue_is_told_as_such(job):
    """No worker was ended by it: none was there."""

    class Queued(Local):
        @contextmanager
        def launch(self, job):
            yield iter([stream.waiting_event("7", "PartitionNodeLimit"), *itertools.repeat(b"", 10**6)])

    with pytest.raises(
        TimedOut, match="before the job was started: Slurm job 7 is waiting: PartitionNodeLimit"
    ):
        list(events.launch_events(Queued(), job(None), time.monotonic() + 0.2))
