"""`dlperf history` and the page about it, on results that were made up and on runs of the NumPy example."""

import json
from pathlib import Path

import attrs
import pytest
from cli_fixtures import dlperf, isolated_directory, stored  # noqa: F401
from code_blocks import blocks_of, execute

from dlperf_sdk.interfaces.measurer import Metric

pytestmark = pytest.mark.long

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "history.md"


@pytest.fixture
def days(stored):
    """Twenty runs of a case, the last ten 10 % slower and of another commit, and one of another case."""
    for number in range(20):
        value = (90.0 if number >= 10 else 100.0) + 0.1 * (number % 3)
        stored(
            id=f"202501{number + 1:02}T000000Z-run-{number:06}",
            started_at=f"2025-01-{number + 1:02}T00:00:00+00:00",
            fields={"labels": {"commit": "<b>new</b>" if number >= 10 else "old"}},
            metrics=(Metric("throughput", "img/s", value, value - 1, value + 1, (value,) * 7, "samples"),),
        )
    stored(id="20250201T000000Z-other-000000", fields={"precision": "tf32"})


def test_the_cases_of_a_store_and_one_of_them(dlperf, days, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    code, out, err = dlperf("history")
    assert (code, err) == (0, "")
    assert "torch resnet50 1n2d b32 tf32" in out
    assert "−10.0 % on 2025-01-11" in " ".join(out.split())
    code, out, _ = dlperf("history", "resnet50", "fp32")
    assert code == 0
    assert "1 change, the last −10.0 % on 2025-01-11" in out
    assert "██████████▁▁▁▁▁▁▁▁▁▁\n          ^" in out
    assert "commit old → <b>new" in out


def test_too_few_runs_are_not_called_no_change(dlperf, days, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    assert "too few runs (1 of 9)" in " ".join(dlperf("history")[1].split())
    code, out, _ = dlperf("history", "tf32")
    assert code == 0
    assert "too few runs (1 of 9)" in out
    assert "no change" not in out


def test_a_history_as_json_has_changes_by_runs(dlperf, days):
    code, out, _ = dlperf("history", "fp32", "--by", "commit", "--json")
    (plain,) = json.loads(out)
    assert code == 0
    assert plain["order"] == "commit"
    (change,) = plain["changes"]
    assert change["before"] == "20250110T000000Z-run-000009"
    assert change["differences"] == ["commit old → <b>new</b>"]
    assert dlperf("history", plain["key"])[0] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fp23"], "There is no case named 'fp23'. Did you mean 'fp32'?"),
        (["fp32", "tf32"], "There is no case named 'fp32 tf32'."),
        (["--by", "comit"], "commit"),
        (["-o", "all.html"], "takes the history of one case, and 2"),
        (["fp32", "-o", "one.pdf"], "use .html or .md"),
        (["--store", "elsewhere"], "no results in elsewhere"),
    ],
)
def test_missing_history_is_reported_with_advice(dlperf, days, words, message):
    code, out, err = dlperf("history", *words)
    assert code in (2, 3)
    assert out == ""
    assert message in " ".join(err.split())


def test_a_history_in_files(dlperf, days):
    pytest.importorskip("altair", reason="The HTML report needs the extra report.")
    assert dlperf("history", "fp32", "-o", "one.html")[0] == 0
    text = Path("one.html").read_text(encoding="utf-8")
    assert "<b>new" not in text
    assert "\\u003cb\\u003enew" in text
    assert dlperf("history", "fp32", "-o", "one.md")[0] == 0
    assert "−10.0 %" in Path("one.md").read_text(encoding="utf-8")


@pytest.mark.timeout(1200)
def test_the_page_on_histories(tmp_path):
    pytest.importorskip("altair", reason="The page writes HTML, which needs the extra report.")
    for block in blocks_of(PAGE):
        if block.language != "text":
            text = block.text.replace("torch resnet50", "numpy linear").replace("--set image_size=64 ", "")
            execute(attrs.evolve(block, text=text.replace("history resnet50", "history linear")), tmp_path)
