"""The gate in CI: annotations that no name can forge, the summary of the job, the action, the component, the page."""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
from pathlib import Path

import attrs
import pytest
import yaml
from code_blocks import PROGRAMS, blocks_of, execute
from hypothesis import given, settings
from hypothesis import strategies as st
from result_samples import a_result

from dlperf_sdk.analysis import gate
from dlperf_sdk.cli import github, main
from dlperf_sdk.interfaces.measurer import Metric
from dlperf_sdk.results.store import ResultStore

ROOT = Path(__file__).resolve().parents[2]
FAST = [100 + step / 10 for step in range(7)]
SLOW = [90 + step / 10 for step in range(7)]
HOSTILE = (
    "x\n::error::forged",
    "\r::warning title=forged::x",
    "::set-output name=token::x",
    "##[add-mask]secret",
    "%0A::notice::forged",
    "a,file=b.py::c: d",
    "::stop-commands::pause",
    "<img src=x> | [link](http://x) `code`",
)


def result_with(repeats, **fields):
    values = tuple(repeats)
    ends = (min(values), max(values)) if len(values) == 7 else (None, None)
    metric = Metric("throughput", "img/s", statistics.median(values), *ends, values, "elapsed")
    return a_result(metrics=(metric,), fields=fields)


def write_store(folder, results):
    store = ResultStore(folder)
    for number, result in enumerate(results):
        store.open_run(f"run-{number}").write_result(attrs.evolve(result, id=f"{folder.name}-{number}"))
    return folder


def commands_of(output):
    """Return the commands that GitHub's runner executes, as its ActionCommandManager and ActionCommand parse lines."""
    executed, token = [], None
    for line in re.split("\r\n|\n|\r", output):
        text = line.lstrip()
        match = re.match(r"::(\S+?)( [^:]*)?::(.*)", text)
        if token is not None:
            token = None if text == f"::{token}::" else token
        elif match and match[1] == "stop-commands":
            token = match[3]
        elif match:
            properties = dict(item.split("=", 1) for item in (match[2] or "").strip().split(",") if item)
            executed.append((match[1], properties, match[3]))
        elif "##[" in line:
            executed.append(("version 1", {}, line))
    assert token is None, "commands stay turned off"
    return executed


def unescape(text):
    for escaped, plain in (("%2C", ","), ("%3A", ":"), ("%0A", "\n"), ("%0D", "\r"), ("%25", "%")):
        text = text.replace(escaped, plain)
    return text


@pytest.fixture
def summary(tmp_path, monkeypatch):
    path = tmp_path / "summary.md"
    path.write_text("# Before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    return path


def test_a_failed_gate_is_annotated_and_summarized(tmp_path, summary, capfd):
    before = write_store(tmp_path / "before", [result_with(FAST, seed=seed) for seed in (0, 1, 2)])
    after = write_store(tmp_path / "after", [result_with(SLOW, seed=0), result_with(FAST, seed=1)])
    assert main(["gate", str(before), str(after), "--format", "github"]) == 1
    output = capfd.readouterr().out
    first, *others = commands_of(output)
    assert first[0] == "error" and first[1] == {"title": "dlperf gate%3A failed"}
    assert first[2].startswith(
        "2 of 3 cases compared; 1 missing: torch resnet50 1n2d b32 fp32 seed=2 (vanished)."
    )
    assert [(level, unescape(about["title"])) for level, about, _ in others] == [
        ("error", "regression: torch resnet50 1n2d b32 fp32"),
        ("warning", "vanished: torch resnet50 1n2d b32 fp32 seed=2"),
    ]
    assert "10.0 %25 slower" in others[0][2]
    assert "regression" in output.partition("::stop-commands::")[2]
    text = summary.read_text()
    assert text.startswith("# Before\n## gate (failed)\n")
    assert "| torch resnet50 1n2d b32 fp32 |" in text
    assert main(["gate", str(after), str(after / "nothing"), "--format", "github"]) == 2
    ((level, _, reason),) = commands_of(capfd.readouterr().out)
    assert level == "error" and "nothing does not exist" in reason


def test_an_edited_result_does_not_pass(tmp_path, summary, capfd):
    """The median was raised by hand, and the repeats were not."""
    before = write_store(tmp_path / "before", [result_with(FAST, seed=seed) for seed in (0, 1)])
    edited = result_with(SLOW, seed=0)
    metric = attrs.evolve(edited.metrics[0], value=statistics.median(FAST))
    after = write_store(
        tmp_path / "after", [attrs.evolve(edited, metrics=(metric,)), result_with(FAST, seed=1)]
    )
    assert main(["gate", str(before), str(after)]) == 5
    assert "after-0 contradicts itself" in " ".join(capfd.readouterr().out.split())


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_becomes_a_command(tmp_path, summary, capfd, name):
    before, after = (
        write_store(tmp_path / side, [result_with(values, options={"name": name})])
        for side, values in (("before", FAST), ("after", SLOW))
    )
    assert main(["gate", str(before), str(after), "--format", "github"]) == 1
    gate_level, case = commands_of(capfd.readouterr().out)
    assert (gate_level[0], case[0]) == ("error", "error")
    assert set(case[1]) == {"title"}
    assert unescape(case[1]["title"]).startswith("regression: torch resnet50 1n2d b32 fp32 name=")
    assert "forged" not in case[2]
    table = summary.read_text()
    assert not re.search(r"(?<!\\)(<img|\[link)", table)
    assert len([line for line in table.splitlines() if line.startswith("| ")]) == 3


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet=st.one_of(st.characters(), st.sampled_from(":#[]%\r\n ,=")), max_size=40))
def test_any_name_is_one_line_with_one_property(name):
    decided = gate([result_with(FAST, options={"name": name})], [result_with(SLOW)])
    commands = commands_of(github.annotations_of(decided))
    assert [level for level, _, _ in commands] == ["error", "error"]
    assert all(set(about) == {"title"} for _, about, _ in commands)


def test_many_cases_fit_the_annotations_that_are_shown():
    before = [result_with(FAST, seed=seed) for seed in range(30)]
    after = [result_with(SLOW if seed < 12 else FAST, seed=seed) for seed in range(18)]
    commands = commands_of(github.annotations_of(gate(before, after)))
    levels = [level for level, _, _ in commands]
    assert (levels.count("error"), levels.count("warning")) == (10, 9)


def test_the_level_follows_the_exit_code(tmp_path, capfd, monkeypatch):
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    for values, seeds, expected in (
        (FAST, (0,), (0, "notice", "passed")),
        (FAST, (0, 1), (5, "warning", "incomplete")),
        ([100.0, 80, 115, 90, 105, 85, 110], (0,), (6, "warning", "inconclusive")),
    ):
        code, level, word = expected
        folder = tmp_path / word
        before = write_store(folder / "before", [result_with(values, seed=seed) for seed in seeds])
        after = write_store(folder / "after", [result_with(values, seed=0)])
        assert main(["gate", str(before), str(after), "--format", "github"]) == code
        (first, *_) = commands_of(capfd.readouterr().out)
        assert first[0] == level and word in first[1]["title"]


def test_commands_are_on_again_when_a_gate_ends_the_program(capfd):
    """As the ranks of a joined job do that are not its first."""
    with pytest.raises(SystemExit), github.commands_stopped():
        raise SystemExit(0)
    stopped, resumed = capfd.readouterr().out.splitlines()
    assert stopped == f"::stop-commands::{resumed.strip(':')}"


def test_a_large_gate_has_a_short_summary(tmp_path, summary, monkeypatch):
    decided = gate([result_with(FAST)], [result_with(FAST)])
    monkeypatch.setattr(github, "_LARGEST_SUMMARY", 200)
    github.append_summary(decided)
    assert summary.read_text() == "# Before\n## gate (passed)\n\n1 of 1 cases compared.\n\n"


def test_other_formats_are_refused(tmp_path, capfd):
    assert main(["gate", "a", "b", "--format", "gitlab"]) == 2
    assert "github" in capfd.readouterr().err
    assert main(["gate", "a", "b", "--format", "github", "--json"]) == 2
    assert "leave one out" in capfd.readouterr().err
    assert main(["gate", "a", "b", "--format", "github", "--level", "many"]) == 2
    ((level, _, reason),) = commands_of(capfd.readouterr().out)
    assert level == "error" and "--level is 'many'" in reason


# -- the action, the component and the page


def environment(**variables):
    path = os.pathsep.join((str(PROGRAMS), os.environ.get("PATH", os.defpath)))
    return {**os.environ, "PATH": path, "COLUMNS": "80", **variables}


def run_action(folder, **inputs):
    """Run the action's step in a folder as GitHub does, and return its exit code, commands and outputs."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    values = {name: about.get("default", "") for name, about in action["inputs"].items()} | inputs
    (step,) = action["runs"]["steps"]
    variables = {
        name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda match: values[match[1]], text)
        for name, text in step["env"].items()
    }
    variables["GITHUB_OUTPUT"], variables["GITHUB_STEP_SUMMARY"] = (
        str(folder / name) for name in ("out", "sum")
    )
    assert "${{" not in step["run"]
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=folder,
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
    )
    outputs = (folder / "out").read_text() if (folder / "out").exists() else ""
    return done.returncode, commands_of(done.stdout), outputs


def test_the_action_runs_the_gate(tmp_path):
    write_store(tmp_path / "before", [result_with(FAST, seed=seed) for seed in (0, 1)])
    write_store(tmp_path / "after", [result_with(FAST, seed=0)]).rename(tmp_path / "$(touch forged)")
    sides = {"baseline": "before", "candidate": "$(touch forged)"}
    code, commands, outputs = run_action(tmp_path, **sides)
    assert (code, commands[0][0], outputs) == (5, "warning", "exit-code=5\n")
    assert (tmp_path / "dlperf-gate.xml").exists() and "incomplete" in (tmp_path / "sum").read_text()
    missing = "nothing such\ntorch resnet50 1n2d b32 fp32 seed=1\n"
    code, commands, _ = run_action(tmp_path, **sides, **{"expect-missing": missing})
    assert code == 2 and "nothing such" in commands[0][2]
    code, commands, _ = run_action(tmp_path, **sides, **{"expect-missing": missing.partition("\n")[2]})
    assert (code, commands[0][0]) == (0, "notice")
    assert run_action(tmp_path, baseline="before")[0] == 2
    assert not (tmp_path / "forged").exists()


def run_component(folder, **inputs):
    """Run the component's script as GitLab does: with its inputs in place of their names."""
    text = (ROOT / "templates" / "gate.yml").read_text()
    values = {
        name: about.get("default", "")
        for name, about in next(yaml.safe_load_all(text))["spec"]["inputs"].items()
    } | inputs
    plain = re.sub(
        r"\$\[\[ inputs\.([\w-]+) \]\]", lambda match: values[match[1]], text.partition("\n---\n")[2]
    )
    ((name, job),) = yaml.safe_load(plain).items()
    assert name == "dlperf-gate" and job["artifacts"]["reports"]["junit"] == "gate.xml"
    variables = {name: str(value or "") for name, value in job["variables"].items()}
    done = subprocess.run(
        ["sh", "-ec", "\n".join(job["script"])], cwd=folder, env=environment(**variables), check=False
    )
    return done.returncode


def test_the_component_runs_the_gate(tmp_path):
    write_store(tmp_path / "before", [result_with(FAST, seed=seed) for seed in (0, 1)])
    write_store(tmp_path / "after", [result_with(FAST, seed=0)])
    sides = {"baseline": "before", "candidate": "after"}
    assert run_component(tmp_path, **sides) == 5
    assert (tmp_path / "gate.xml").exists() and (tmp_path / "gate.md").exists()
    assert run_component(tmp_path, **sides, **{"expect-missing": "torch * seed=1"}) == 0


def test_the_page_works(tmp_path):
    """Its commands run, and its files give the action and the component inputs that they have."""
    write_store(tmp_path / "baseline", [result_with(FAST), result_with(FAST, framework="mxnet")])
    candidate = [result_with(FAST), result_with(FAST, framework="mxnet")]
    write_store(tmp_path / "candidate", candidate)
    blocks = blocks_of(ROOT / "docs" / "how-to" / "ci.md")
    executed = 0
    for block in blocks:
        if "--expect-missing" in block.text:
            shutil.rmtree(tmp_path / "candidate" / "run-1")
        execute(block, tmp_path)
        executed += len(block.commands) if block.language == "sh" else 0
    assert executed == 3
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    measured = yaml.safe_load((tmp_path / "github.yml").read_text())["jobs"]["gate"]["steps"]
    compared = yaml.safe_load((tmp_path / "steps.yml").read_text())
    for steps, side in ((measured, "cases"), (compared, "candidate")):
        (used,) = (step["with"] for step in steps if "dlperf-sdk@" in step.get("uses", ""))
        assert {"baseline", side} <= set(used) <= set(action["inputs"])
    component = next(yaml.safe_load_all((ROOT / "templates" / "gate.yml").read_text()))
    (included,) = yaml.safe_load((tmp_path / "gitlab.yml").read_text())["include"]
    assert set(included["inputs"]) <= set(component["spec"]["inputs"])
    required = {name for name, about in component["spec"]["inputs"].items() if "default" not in about}
    assert required <= set(included["inputs"])
    assert set(yaml.safe_load((tmp_path / "allow.yml").read_text())) == {"dlperf-gate"}


@pytest.mark.parametrize("width", ["80", "40"])
def test_no_text_of_a_result_is_a_workflow_command(tmp_path, monkeypatch, capfd, width):
    """The runner also takes a line that begins with white space, such as a wrapped one, for a command."""
    note = (
        "a note\n::error::forged " + "word " * 20 + "::warning::wrapped ##[error]forged\n  ::notice::forged"
    )
    store = write_store(tmp_path / "store", [a_result(notes=(note,))])
    run = str(store / "run-0")
    monkeypatch.setenv("COLUMNS", width)
    main(["report", run])
    assert commands_of(capfd.readouterr().out)  # outside of GitHub Actions, the text is as it is
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    for words in (["report", run], ["report", str(store)], ["report", "x\n::error::no"]):
        main(words)
        assert not commands_of("\n".join(capfd.readouterr()))
