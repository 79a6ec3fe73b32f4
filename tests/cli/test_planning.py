"""The plan of a case on the terminal."""

import json

from dlperf_sdk.cli import main


def test_a_line_feed_in_a_value_adds_no_line(capsys):
    values = ("--set", "agent_python=python\nnode  forged", "--env", "NCCL_DEBUG=INFO\nforged = 1")
    assert main(["plan", "numpy", "linear", "--topology", "2n1d@ssh", "--set", "hosts=a,b", *values]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert not [line for line in lines if line.startswith(("forged", "node  forged"))], lines
    assert r"NCCL_DEBUG = INFO\nforged = 1" in " ".join(lines)


def test_commands_have_the_deadline_of_the_start(capsys):
    values = ("--set", "hosts=a,b", "--deadline", "start=20")
    assert main(["plan", "numpy", "linear", "--topology", "2n1d@ssh", *values]) == 0
    assert "ConnectTimeout=10" in capsys.readouterr().out


def test_an_interpreter_that_does_not_exist_is_refused(capsys):
    assert main(["plan", "numpy", "linear", "--python", "/no/such/python"]) == 3
    assert "there is no such file" in capsys.readouterr().err


def test_many_nodes_fit_a_screen_and_json_has_them_all(capsys):
    options = ("--topology", "2000n1d@ssh", "--set", "hosts=n[0000-1999]")
    assert main(["plan", "numpy", "linear", *options]) == 0
    out = capsys.readouterr().out
    assert "Processes: 16 of 2,000, all of them with --json" in out
    assert "Commands, one per node: 16 of 2,000, all of them with --json" in out
    assert "n1999" in out
    assert "n1998" not in out
    assert main(["plan", "numpy", "linear", *options, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["commands"]) == 2000


def test_switches_are_shown_as_they_are_typed(capsys):
    assert main(["plan", "torch", "resnet50", "--set", "fused_optimizer=false"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "fused_optimizer = false" in out and "cudnn_benchmark = true" in out
    assert main(["describe", "torch"]) == 0
    assert "fused_optimizer bool true" in " ".join(capsys.readouterr().out.split())
    assert main(["plan", "torch", "resnet50", "--set", "fused_optimizer=False"]) == 2
    message = "is 'False'; its default is true, so it must be true or false as well."
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_dry_run_refuses_a_trace_that_the_run_would_refuse(capsys):
    assert main(["run", "numpy", "linear", "--batch-size", "4", "--trace", "--dry-run"]) == 4
    out, err = capsys.readouterr()
    assert out == "" and "numpy offers no trace." in err
    assert main(["run", "torch", "resnet50", "--trace", "--dry-run"]) == 0
