"""The value of a variable that is not known to tune only is a secret: it reaches the workers, and no document."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import attrs
import pytest

from dlperf_sdk import RunSpec, api
from dlperf_sdk.analysis import compare
from dlperf_sdk.campaigns.matrix import Matrix
from dlperf_sdk.cli import planning
from dlperf_sdk.errors import SpecError
from dlperf_sdk.execution import packing, replay
from dlperf_sdk.hookspecs import hookimpl
from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.reports import result_page
from dlperf_sdk.reports.terminal import text_of
from dlperf_sdk.spec import secret_values
from dlperf_sdk.worker.agent.diagnostics import read_tail
from dlperf_sdk.worker.agent.secret_values import replace_values

SECRET = 'hf_4b1d"\\é-not-for-others'
"""With characters that JSON and Python's repr escape."""
ENV = {"MY_TOKEN": SECRET, "OMP_DYNAMIC": "false"}
SHORT = {"batch_size": 4, "warmup": 1, "steps": 5, "repeats": 1, "protocol": "quick"}


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch, without_reference):
    monkeypatch.setenv("DLPERF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("MY_TOKEN", raising=False)
    monkeypatch.setattr(secret_values, "_known_values", {})
    monkeypatch.chdir(tmp_path)
    return tmp_path


def another_process(monkeypatch) -> None:
    """Nothing is known of what this process was given."""
    monkeypatch.setattr(secret_values, "_known_values", {})


def is_free_of_secrets(text: str) -> bool:
    forms = (
        SECRET,
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
        repr(SECRET)[1:-1],
    )
    return not any(form in text for form in forms)


def written(place: Path) -> str:
    files = [path for path in place.rglob("*") if path.is_file()]
    assert files
    return "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in files)


class Listener:
    def __init__(self) -> None:
        self.said: list[str] = []

    @hookimpl
    def dlperf_run_started(self, run_id, plan, directory) -> None:
        self.said.append(f"{plan!r} {plan.to_dict()}")

    @hookimpl
    def dlperf_stage(self, run_id, stage, detail) -> None:
        self.said.append(detail)

    @hookimpl
    def dlperf_error(self, run_id, failure) -> None:
        self.said.append(repr(failure))

    @hookimpl
    def dlperf_result(self, run_id, result) -> None:
        self.said.append(repr(result))


@pytest.mark.parametrize("fault", [None, "leak"])
def test_no_document_has_the_value_and_the_worker_does(place, fault):
    listener = Listener()
    result = api.run(
        "faulty",
        "linear",
        env=ENV,
        options={"fault": fault} if fault else {},
        observers=[listener],
        store=place / "store",
        **SHORT,
    )
    assert (result.status == "ok") == (fault is None)
    assert is_free_of_secrets(written(place))
    assert is_free_of_secrets("\n".join(listener.said))
    page = text_of(result_page.page(result, None))
    assert is_free_of_secrets(page)
    assert "MY_TOKEN=(secret)" in page
    recorded = result.environment.variables
    assert recorded["OMP_DYNAMIC"] == "false"
    assert recorded["MY_TOKEN"] == result.spec.env["MY_TOKEN"]
    assert secret_values.is_hash(recorded["MY_TOKEN"])
    if fault == "leak":
        assert "rejected: <MY_TOKEN>" in result.failure.message
        assert "<MY_TOKEN>" in next((place / "store").rglob("rank-0.log")).read_text()


def test_plan_shows_only_the_name_of_a_secret():
    plan = make_plan(RunSpec(framework="numpy", model="linear", env=ENV), Registry())
    outline = planning.outline(plan)
    assert is_free_of_secrets(f"{plan!r} {json.dumps(outline.to_dict())} {text_of(outline.blocks())}")
    assert "MY_TOKEN = (secret)" in text_of(outline.blocks())


def test_a_rerun_needs_the_same_value(place, monkeypatch):
    result = api.run("numpy", "linear", env=ENV, store=None, **SHORT)
    another_process(monkeypatch)
    with pytest.raises(SpecError, match="MY_TOKEN is not set"):
        api.rerun(result, allow=["MY_TOKEN"])
    monkeypatch.setenv("MY_TOKEN", "another value")
    with pytest.raises(SpecError, match="MY_TOKEN has another value"):
        api.rerun(result, allow=["MY_TOKEN"])
    assert not (place / "dlperf-results").exists()
    monkeypatch.setenv("MY_TOKEN", SECRET)
    with pytest.raises(SpecError, match="--allow lock"):  # the next check: the value is the recorded one
        api.rerun(result, allow=["MY_TOKEN"])


def test_a_rerun_needs_the_value_that_was_handed_on(monkeypatch):
    monkeypatch.setenv("MY_TOKEN", SECRET)
    result = api.run("numpy", "linear", env={"MY_TOKEN": None}, store=None, **SHORT)
    assert secret_values.is_hash(result.environment.variables["MY_TOKEN"])
    another_process(monkeypatch)
    monkeypatch.delenv("MY_TOKEN")
    with pytest.raises(SpecError, match="MY_TOKEN is not set"):
        api.rerun(result, allow=["MY_TOKEN"], store=None)


def test_a_comparison_names_a_value_that_was_handed_on_and_differs(monkeypatch):
    """By hash: what was asked for is the same on both sides."""
    results = []
    for value in (SECRET, "another value"):
        monkeypatch.setenv("MY_TOKEN", value)
        results.append(api.run("numpy", "linear", env={"MY_TOKEN": None}, store=None, **SHORT))
    first, second = results
    assert first.spec == second.spec
    (difference,) = [text for text in compare(second, first).footnotes if "MY_TOKEN" in text]
    hashes = [result.environment.variables["MY_TOKEN"] for result in results]
    assert all(secret_values.is_hash(file_hash) and file_hash in difference for file_hash in hashes)
    assert is_free_of_secrets(difference)


def test_a_campaign_keeps_values_out_of_its_directory_and_resumes_with_them(place, monkeypatch):
    values = [{"MY_TOKEN": SECRET}, {"MY_TOKEN": f"{SECRET} of another case"}]
    matrix = Matrix(fields={"framework": "numpy", "model": "linear", **SHORT}, axes={"env": values})
    outcome = api.campaign(matrix, directory=place / "campaign")
    assert [result.status for result in outcome.results()] == ["ok", "ok"]
    assert is_free_of_secrets(written(place))
    another_process(monkeypatch)
    with pytest.raises(SpecError, match="MY_TOKEN is not set"):
        api.resume(place / "campaign", allow=["MY_TOKEN"])


def test_a_packed_case_reports_no_value(place, monkeypatch):
    spec = RunSpec(framework="faulty", model="linear", env=ENV, options={"fault": "leak"}, **SHORT)
    packing.pack(spec, place / "case.pyz")
    with zipfile.ZipFile(place / "case.pyz") as archive:
        assert is_free_of_secrets(archive.read("case.json").decode())
    command = [sys.executable, "-I", "case.pyz", "run", "-o", "out"]
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stream = (place / "out" / "events.jsonl").read_text()
    assert is_free_of_secrets(stream)
    assert "<MY_TOKEN>" in stream
    result = replay.replay(stream.encode().splitlines(), place / "store")
    assert secret_values.is_hash(result.environment.variables["MY_TOKEN"])


def test_equal_values_have_equal_hashes_and_names_are_the_salt():
    hashes = {name: secret_values.conceal(name, "a value") for name in ("A", "B")}
    assert hashes["A"] != hashes["B"]
    assert secret_values.conceal("A", "a value") == hashes["A"]
    assert secret_values.conceal("A", hashes["A"]) == hashes["A"]


def test_numbers_and_short_values_are_unchanged():
    message = {"time": 12345678, "text": "1 and 12345678", "list": ["12345678", None]}
    expected = {"time": 12345678, "text": "1 and <LONG>", "list": ["<LONG>", None]}
    assert replace_values(message, [("LONG", "12345678"), ("SHORT", "1")]) == expected


def test_each_of_several_values_of_a_variable_is_removed():
    """Such as the tokens of the two sides of a gate; one begins with the other."""
    values = ["token-of-today", "token-of-today-and-tomorrow", "another-token"]
    for value in values:
        secret_values.conceal("MY_TOKEN", value)
    assert secret_values.remove_secrets(", ".join(values)) == "<MY_TOKEN>, <MY_TOKEN>, <MY_TOKEN>"


def test_changed_copies_of_a_plan_conceal_again():
    plan = make_plan(RunSpec(framework="numpy", model="linear", env=ENV), Registry())
    changed = make_plan(attrs.evolve(plan.spec, batch_size=8), Registry())
    assert changed.spec.env == plan.spec.env
    assert changed.secrets == ("MY_TOKEN",)


def test_a_line_of_a_value_is_replaced():
    key = "-----BEGIN KEY-----\nAbCdEfGhIjKl\nend\n"
    assert replace_values("read AbCdEfGhIjKl at the end", [("KEY", key)]) == "read <KEY> at the end"


@pytest.mark.parametrize("separator", [b"\n", b" "])
def test_the_end_of_standard_error_does_not_begin_inside_a_value(separator):
    value = b"0123456789" * 5
    with io.BytesIO(value + separator + b"x" * 3970) as file:
        assert read_tail(file) == "x" * 3970
    with io.BytesIO(value + separator + b"x" * 100) as file:
        assert read_tail(file) == (value + separator + b"x" * 100).decode()


@pytest.mark.parametrize("value", [SECRET, "12345678\udcff", "é'\"12345678", "first\r\nsecond"])
@pytest.mark.parametrize(
    "printed",
    [
        lambda value: value,
        lambda value: repr({"name": value}),
        lambda value: repr({b"name": os.fsencode(value)}),
        lambda value: json.dumps({"name": value}),
        lambda value: json.dumps({"name": value}, ensure_ascii=False),
        lambda value: os.fsencode(value).decode("utf-8", "replace"),
    ],
)
def test_every_printed_form_of_a_value_is_replaced(printed, value):
    text = replace_values(f"before {printed(value)} after", [("NAME", value)])
    assert "<NAME>" in text
    assert not any(part in text for part in ("4b1d", "1234", "first", "second"))


def test_report_shows_handed_on_variables_only_if_they_are_not_set(place, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", SECRET)
    env = {"MY_TOKEN": None, "NOT_SET": None}
    result = api.run("numpy", "linear", env=env, store=None, **SHORT)
    page = text_of(result_page.page(result, None))
    assert "NOT_SET: not set in the shell, so not passed to the workers" in " ".join(page.split())
    assert "MY_TOKEN=(secret)" in page
    assert "scrypt" not in page
    assert "env: requested" not in page
