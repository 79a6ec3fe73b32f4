"""Mutated inputs of every kind are refused with a typed error, or read; quickly, in little memory, without effects."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import input_kinds
import pytest

import dlperf_sdk
from dlperf_sdk.documents import reading, schema

PACKAGE = Path(dlperf_sdk.__file__).parent
FEED = Path(__file__).with_name("feed.py")
INPUTS = 10_000
SEED = "1"

PARSERS = {
    *(
        "json.loads",
        "json.load",
        "_DECODER.decode",
        "tomllib.loads",
        "yaml.load",
        "yaml.compose",
        "csv.reader",
        "zipfile.ZipFile",
    ),
    *("read_string", "read_text", "read_bytes", "load_document", "parse_json", "parse_event", "read_file"),
}
"""Calls that read a document or a stream: a function's whole name, or a method's."""

OURS = {
    "campaigns.orphaned_jobs.find_agents": "/proc",
    "private_files.list_holders": "/proc",
    "max_batch.budget._cgroups": "/proc and /sys",
    "environments.container.make_container_environment": "the output of our own program in the container",
    "environments.probe.probe_facts": "the output of our own program in the interpreter",
    "environments.probe_script.origin": "an installed distribution, in its own interpreter",
    "environments.interpreters._list_uv": "uv's output",
    "environments.resolution.resolve": "uv's output",
    "environments.plugin_lock.read_lock": "a plugin's file",
    "worker.agent.address_table.expand": "an order of the coordinator, which has proved the secret",
    "worker.agent.preflight.versions": "the output of our own program in the interpreter",
    "harness.multiprocess.run_ranks": "the output of our own program",
    "harness.in_process.summarize_traced_steps": "a trace that a profiler has just written in this process",
    "launchers.agent_command.bootstrap_program": "a file of this package",
    "launchers.slurm.stream._kept_stream_step": "a file of this package",
    "documents.schema.load": "a file of this package",
    "reports.html.render._file": "a file of this package",
    "skeleton.write": "a file of this package",
    "analysis.history._parse_labels": "the store's index, which this program has written",
    "campaigns.fleet_node.main": "an order of the fleet that has started the process",
    "launchers.joined.crew.Crew.launch": "a bundle that this process has written",
    "launchers.agent_command.reporting_command": "an event that the function before it has made",
    "launchers.events._missing": "an event that the function before it has made",
    "launchers.slurm.submission.submit": "a bundle that this process has written",
    "data.images.prepare_images": "compared with what would be written, not parsed",
    "campaigns.journal.read_holder": "shown, not parsed",
    "planning.bundle.contents": "code of plugins",
    "planning.bundle._package": "code of plugins",
    "planning.bundle._has_content": "compared with what would be written, not parsed",
    "planning.bundle.build": "written, not read",
    "worker.bundled.contains": "the bundle that is being executed",
    "worker.bundled.member": "the bundle that is being executed",
    "worker.bundled.unpack": "the bundle that is being executed",
    "worker.agent.standalone.first_event": "a member of the bundle that is being executed",
    "worker.main._worker": "written by the agent that has started the process",
    "worker.conformance._ask": "a value that it has just written",
    "analysis.gate._differences": "a value that it has just written",
}
"""Function → what it reads instead of an input of somebody else's."""


def parsing_functions() -> Iterator[str]:
    """Yield the functions that call one of `PARSERS`, as `package.module.Class.function`."""
    for path in PACKAGE.rglob("*.py"):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        if module.split(".")[0] != "testing":  # the suites for plugins' authors
            yield from _calling(ast.parse(path.read_text(encoding="utf-8")), module)


def _calling(node: ast.AST, name: str) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        is_named = isinstance(child, ast.FunctionDef | ast.ClassDef)
        if isinstance(child, ast.Call) and PARSERS & {
            called(child.func),
            called(child.func).rpartition(".")[2],
        }:
            yield name
        yield from _calling(child, f"{name}.{child.name}" if is_named else name)


def called(function: ast.expr) -> str:
    """Return the name that a call is written with."""
    if isinstance(function, ast.Attribute):
        return f"{called(function.value)}.{function.attr}"
    return function.id if isinstance(function, ast.Name) else ""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """Feed the inputs. Of a failure, the input is kept in the folder that is printed."""
    folder = tmp_path_factory.mktemp("inputs") / "fed"
    print("the inputs are in", folder)
    item = -(-INPUTS // len(input_kinds.KINDS))
    command = [sys.executable, str(FEED), str(folder), SEED, str(item)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {outcome["kind"]: outcome for outcome in map(json.loads, done.stdout.splitlines())}


@pytest.mark.long
@pytest.mark.xdist_group("mutated inputs")
def test_mutated_inputs_are_refused_or_read(outcomes):
    assert [*outcomes] == [*input_kinds.KINDS]
    assert not {kind: outcome["problems"] for kind, outcome in outcomes.items() if outcome["problems"]}
    assert sum(outcome["inputs"] for outcome in outcomes.values()) >= INPUTS


@pytest.mark.long
@pytest.mark.xdist_group("mutated inputs")
def test_every_function_that_parses_is_fed(outcomes):
    """By what reading the valid samples comes to: a new reader is noticed without a list of readers."""
    functions = set(parsing_functions())
    reached = {function for outcome in outcomes.values() for function in outcome["functions"]}
    assert functions - reached - set(OURS) == set(), "no kind in input_kinds.py comes to these functions"
    assert set(OURS) - functions == set(), "these functions parse nothing any more"


def test_every_schema_suffix_and_importer_is_fed():
    kinds = set(input_kinds.KINDS)
    assert {f"schema {name}" for name in schema.NAMES} <= kinds
    assert {f"{kind}{suffix}" for kind in ("spec", "campaign") for suffix in reading._PARSERS} <= kinds
    assert {f"importer {name}" for name in input_kinds.REGISTRY.names("importers")} <= kinds
