"""Launchers without their engines: their command lines, options and hosts."""

from __future__ import annotations

import ast
import base64
import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlperf_sdk import RunSpec
from dlperf_sdk.campaigns.campaign import digest
from dlperf_sdk.campaigns.planning import stamp
from dlperf_sdk.cli.app import main
from dlperf_sdk.errors import SpecError, Unavailable
from dlperf_sdk.interfaces.topology import Job
from dlperf_sdk.launchers import agent_command, mpi, ssh
from dlperf_sdk.launchers.agent_command import PlacementArguments, bootstrap_program, reporting_command
from dlperf_sdk.launchers.hosts import HostOptions
from dlperf_sdk.launchers.slurm import jobs, launcher, submission
from dlperf_sdk.launchers.slurm.options import SlurmOptions
from dlperf_sdk.launchers.stream_events import parse_event
from dlperf_sdk.planning.bundle import build
from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.planning.spec_file import load_spec
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.store import campaign_of, new_run_id, run_id

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
    assert command[at : at + 2] == ("sh", "-c")
    assert command[at + 5] == "python3"
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


def test_a_command_names_few_hosts_however_many_there_are(job):
    """Linux takes 128 KiB in one argument."""
    few = ssh.Ssh().agent_commands(job(HostOptions(hosts="n[1-4]"), 4))
    many = ssh.Ssh().agent_commands(job(HostOptions(hosts="n[1-5000]"), 5000))
    assert "--node 4999 --hosts n1,n2 " in many[-1][-1]
    assert len(many[-1][-1]) == len(few[-1][-1]) + len("4999") - len("3")


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


def test_signal_during_the_start_of_a_job_leaves_no_folder(tmp_path, monkeypatch):
    """As soon as Slurm has started the script, it may be told to end the job."""
    request = make_plan(RunSpec(framework="numpy", model="linear"), Registry()).request(
        "case", (sys.executable,), {}, {"source": "synthetic"}
    )
    bundle = build(request, tmp_path / "case.pyz").path.read_bytes()
    script = submission.batch_script((sys.executable, "-c", "print('too late')"), 0, bundle)
    mark = "os.mkdir(folder, 0o700)\n"
    assert mark in script
    script = script.replace(mark, f"{mark}os.kill(os.getpid(), signal.SIGTERM)\n")
    monkeypatch.setenv("SLURM_JOB_ID", str(10**9 + os.getpid()))
    folder = Path(f"/tmp/dlperf-job-{os.getuid()}-{os.environ['SLURM_JOB_ID']}")
    done = subprocess.run([sys.executable, "-"], input=script.encode(), check=False, timeout=60)
    assert (done.returncode, folder.exists()) == (1, False)


def test_login_user_is_an_option_of_ssh_only(job):
    """The agents know each other by their hosts' names."""
    command = ssh.Ssh().agent_commands(job(HostOptions(hosts="me@n1,me@n2")))[1]
    assert command[-2] == "me@n2"
    assert "--hosts n1,n2 " in command[-1]


def test_a_machine_that_is_named_twice_is_not_two_nodes(job):
    with pytest.raises(Unavailable, match="host n1 is named twice"):
        ssh.Ssh().agent_commands(job(HostOptions(hosts="n1,n2,n1"), 3))
    assert len(ssh.Ssh().agent_commands(job(HostOptions(hosts="n1,n2,n1"), 2))) == 2


@pytest.mark.parametrize("options", [HostOptions, SlurmOptions])
def test_invalid_port_range_is_refused(options):
    with pytest.raises(ValueError, match="is not a range of ports"):
        options(ports="80")
    assert options(ports="40000-40100").ports == "40000-40100"


@pytest.mark.parametrize("host", ["-oProxyCommand=x", "a b", "a;b", "$(x)", "u@-oProxyCommand=x", "u@", "@n"])
def test_what_is_no_host_is_never_handed_to_ssh(job, host):
    with pytest.raises(Unavailable, match="not a name or address of a host"):
        ssh.Ssh().agent_commands(job(HostOptions(hosts=f"n1,{host}")))


@pytest.mark.parametrize("name", ["launcher_flags", "srun_flags", "sbatch_flags", "agent_python", "hostfile"])
def test_a_spec_file_names_no_program_through_a_launchers_options(name, tmp_path):
    document = {"framework": "numpy", "model": "linear", "options": {name: "x"}}
    (tmp_path / "case.json").write_text(json.dumps(document))
    with pytest.raises(SpecError, match=f"--set {name}="):
        load_spec(tmp_path / "case.json")


@given(st.from_regex(r"[a-z][a-z0-9._-]{0,20}", fullmatch=True))
def test_run_names_of_campaigns_are_recognized(framework):
    spec = RunSpec(framework=framework, model="linear")
    when = stamp()
    assert campaign_of(run_id(spec, when, digest(spec))) == when
    assert campaign_of(new_run_id(spec, datetime.now(UTC))) is None


@pytest.mark.parametrize("command", [("run",), ("run", "--dry-run"), ("plan",)])
@pytest.mark.parametrize(
    ("hosts", "output_value"),
    [
        ("hosts=n1,-x", "'-x' is not a name or address of a host."),
        ("hosts=n1,n[2-", "The hosts cannot be read: 'n1,n[2-' is not a list of hosts."),
        ("hosts=n1,n1", "The host n1 is named twice"),
        ("hosts=n1", "The case needs 2 nodes, and the hosts given are n1."),
        (
            "hostfile=/nowhere/hosts",
            "The hosts file /nowhere/hosts cannot be read: No such file or directory.",
        ),
        ("hostfile=/", "The hosts file / is not a file, but a directory, a pipe or a device."),
        ("hostfile=FOLDER/pipe", "/pipe is not a file, but a directory, a pipe or a device."),
        ("hostfile=FOLDER/large", "/large is larger than 4194304 bytes"),
        ("hostfile=~nobody-of-that-name/hosts", "The hosts cannot be read: "),
        ("hostfile=FOLDER/odd", "/odd:3: '$(id)' is not a name or address of a host."),
        ("hostfile=FOLDER/binary", "/binary is not a text file: "),
    ],
)
def test_mistake_in_the_hosts_is_a_usage_error(tmp_path, capsys, command, hosts, output_value):
    """The exit code is that of a usage, and nothing has been started or made."""
    (tmp_path / "odd").write_text("# mine\nn1\n$(id) slots=8\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    os.mkfifo(tmp_path / "pipe")
    os.truncate(os.open(tmp_path / "large", os.O_CREAT | os.O_WRONLY), 1 << 32)
    words = ["numpy", "linear", "--topology", "2n1d@ssh", "--set", hosts.replace("FOLDER", str(tmp_path))]
    output = [] if command == ("plan",) else ["--output", str(tmp_path / "store")]
    assert main([*command, *words, *output]) == 2
    captured = capsys.readouterr()
    assert (captured.out, output_value in captured.err) == ("", True), captured
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
    output = capsys.readouterr().err
    assert f"{flags} is '-o \"x', which a shell cannot split into words (No closing quotation)" in output
    assert len(output.splitlines()) == 1
    assert not (tmp_path / "store").exists()


def test_flags_that_are_not_text_are_refused():
    with pytest.raises(TypeError, match="launcher_flags is None, not text"):
        HostOptions(launcher_flags=None)


def test_invalid_job_number_is_never_passed_on():
    with pytest.raises(Unavailable, match="not the number of a Slurm job"):
        jobs.query_job("7; rm -rf /")


def test_a_node_needs_nothing_but_a_python():
    """What agents, batch jobs and bundles import holds no NumPy: a node's own Python has none."""
    code = (
        "import sys; sys.modules['numpy'] = None\nfrom dlperf_sdk.worker import main\n"
        "from dlperf_sdk.worker.agent import batch_job, joining, standalone"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("python", ['/nowhere/py"th%son\\x', "/bin/false"])
def test_node_with_a_broken_python_is_reported(python):
    """In an event of its own: a parallel launcher names no node, and waits for the others."""
    placement = PlacementArguments("$RANK", "a,b")
    command = reporting_command(Job("x", Path("/nowhere"), 2, 1, "cpu"), python, placement, "RANK")
    variables = {"PATH": os.environ["PATH"], "RANK": "1"}
    done = subprocess.run(command, env=variables, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert done.returncode == 1
    event = parse_event(done.stdout)
    assert event["failure"]["message"].startswith(
        f"{python}, which runs the agents, cannot be started on node 1: "
    )
    assert (event["failure"]["kind"], event["failure"]["phase"], event["failure"]["node"]) == (
        "unavailable",
        "start",
        1,
    )


def test_the_trial_of_the_python_leaves_the_bundle_on_standard_input():
    program = "import sys; sys.exit(0) if len(sys.argv) < 2 else print(sys.stdin.read())"
    command = reporting_command(
        Job("x", Path("/nowhere"), 1, 1, "cpu"), sys.executable, PlacementArguments("0", "a"), "RANK"
    )
    changed = [program if word == bootstrap_program() else word for word in command]
    done = subprocess.run(changed, input=b"the bundle", capture_output=True, check=True)
    assert done.stdout == b"the bundle\n"


def test_ssh_gives_up_a_host_that_does_not_answer_within_the_deadline(tmp_path):
    for start, seconds in ((300.0, 30), (20.0, 10), (0.5, 1)):
        job = Job(
            "x",
            tmp_path,
            1,
            1,
            "cpu",
            HostOptions(hosts="a", launcher_flags="-o ConnectTimeout=7"),
            start_timeout=start,
        )
        (command,) = ssh.Ssh().agent_commands(job)
        assert command.index("ConnectTimeout=7") < command.index(
            f"ConnectTimeout={seconds}"
        )  # the first one counts
