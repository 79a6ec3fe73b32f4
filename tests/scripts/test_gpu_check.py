"""scripts/gpu_check.py, as far as it goes without a GPU: its judgements, its clock, its table, and a rehearsal."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest
import record_samples
from hypothesis import given
from hypothesis import strategies as st

from dlperf_sdk import ResultStore
from dlperf_sdk.results.records import Repeat, Series, Window

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.append(str(SCRIPTS))

import gpu_check  # noqa: E402
import gpu_checks  # noqa: E402
import nvidia_smi  # noqa: E402

sys.path.remove(str(SCRIPTS))

GPU = "GPU-0f"


# -- nvidia-smi


def test_a_line_is_read_in_the_samplers_units():
    line = nvidia_smi.parsed(3.0, "GPU-0f, 512.25, 1980, 100, 1024, [N/A]\n")
    assert line == (
        3.0,
        GPU,
        {"power": 512.25, "clock": 1980.0, "utilization": 100.0, "memory": 2.0**30},
    )


@given(st.text())
def test_whatever_it_prints_is_a_line_or_none(text):
    line = nvidia_smi.parsed(0.0, text)
    assert line is None or line.uuid.startswith("GPU-")


def repeat(values, step=0.1, seconds=10.0):
    """A repeat of one process on one GPU whose samplers saw constants, and an energy that grows with the power."""
    record = record_samples.record(
        window=Window(1.0, 1.0 + seconds), replicas=(record_samples.replica(0, device=GPU),)
    )
    times = tuple(i * step for i in range(int((seconds + 3) / step)))
    series = [
        Series(0, name, GPU, "1", "gauge", times, (value,) * len(times)) for name, value in values.items()
    ]
    grown = tuple(values["power"] * moment for moment in times)
    series.append(Series(0, "energy", GPU, "J", "counter", times, grown))
    return Repeat(1, (record,), tuple(series))


SEEN = {"power": 600.0, "clock": 1900.0, "utilization": 99.0, "memory": 40.0 * 2**30, "temperature": 60.0}


def lines(values, uuid=GPU):
    return [nvidia_smi.Line(1.5 + i / 5, uuid, values) for i in range(40)]


def test_two_that_say_the_same_agree():
    actual = nvidia_smi.agreements(repeat(SEEN), lines(SEEN))
    assert {item.name for item in actual} == {*SEEN, "energy"}
    assert all(item.within for item in actual)
    assert gpu_checks.sensors_agree(actual, 40, "id").outcome == "pass"


@pytest.mark.parametrize(
    ("name", "wrong", "also"),
    [
        ("power", 650.0, {"energy"}),  # its product with the window is what the energy is held against
        ("clock", 1700.0, set()),
        ("utilization", 80.0, set()),
        ("memory", 44.0 * 2**30, set()),
        ("temperature", 70.0, set()),
    ],
)
def test_disagreeing_source_is_named(name, wrong, also):
    actual = nvidia_smi.agreements(repeat(SEEN), lines({**SEEN, name: wrong}))
    assert {item.name for item in actual if not item.within} == {name} | also
    outcome = gpu_checks.sensors_agree(actual, 40, "id")
    assert outcome.outcome == "fail"
    assert name in outcome.sentence.partition(".")[0]


def test_an_energy_in_millijoules_would_be_seen():
    wrong = repeat(SEEN)
    energy = wrong.series[-1]
    scaled = Series(0, "energy", GPU, "J", "counter", energy.times, tuple(1000 * v for v in energy.values))
    actual = nvidia_smi.agreements(Repeat(1, wrong.records, (*wrong.series[:-1], scaled)), lines(SEEN))
    assert [item.name for item in actual if not item.within] == ["energy"]


@pytest.mark.parametrize("message", [[], lines(SEEN, "GPU-other"), lines({"power": 600.0})])
def test_missing_value_is_not_agreement(message):
    actual = nvidia_smi.agreements(repeat(SEEN), message)
    assert gpu_checks.sensors_agree(actual, len(message), "id").outcome == "inconclusive"


# -- judgements


@pytest.mark.parametrize(
    ("clock", "total", "outcome"),
    [
        ("event", 10.0, "pass"),
        ("event", 9.985, "pass"),
        ("event", 9.9, "fail"),
        ("event", 10.1, "fail"),
        ("blocking", 10.0, "not-applicable"),
    ],
)
def test_steps_add_up_to_their_window(clock, total, outcome):
    assert gpu_checks.clocks_agree(clock, [total / 50] * 50, 10.0, "id").outcome == outcome


@pytest.mark.parametrize(
    ("interval", "outcome"),
    [
        ((0.9985, 1.0015), "pass"),
        ((0.99, 1.001), "inconclusive"),
        ((1.0025, 1.004), "fail"),
        ((0.98, 0.99), "fail"),
    ],
)
def test_the_loops_cost_is_judged_by_its_interval(interval, outcome):
    row = {
        "ratio": {"median": sum(interval) / 2, "interval": interval},
        "b_seconds_per_step": {"median": 0.08},
        "pairs": 20,
    }
    assert gpu_checks.overhead_small([row, row], {}).outcome == outcome


def test_a_search_that_was_cut_short_shows_nothing():
    assert gpu_checks.largest_found(True, "batch_size max is 9: tried 8, 10 (too large).") == "pass"
    assert (
        gpu_checks.largest_found(True, "batch_size max is 9, to which the search was not finished: …")
        != "pass"
    )
    assert gpu_checks.largest_found(True, "") == "inconclusive"
    assert gpu_checks.largest_found(False, "batch_size max is 9: …") == "fail"


# -- one after another


def check(look, name="doctor", seconds=5.0):
    return gpu_checks.Check(name, seconds, look)


def test_a_check_that_takes_too_long_is_ended(tmp_path):
    started_at = time.monotonic()
    actual = gpu_check.carried_out(check(lambda bench: time.sleep(60), seconds=0.2), None, 100.0)
    assert (actual.outcome, time.monotonic() - started_at < 30) == ("inconclusive", True)


def test_ctrl_c_is_not_taken_for_the_clock():
    def interrupted(bench):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gpu_check.carried_out(check(interrupted), None, 100.0)


def test_no_check_is_begun_without_time_for_it():
    actual = gpu_check.carried_out(check(lambda bench: pytest.fail("begun"), seconds=100.0), None, 3.0)
    assert actual.outcome == "inconclusive"
    assert "3 s" in actual.sentence


def test_one_that_breaks_does_not_stop_the_others_and_commands_add_up(tmp_path, monkeypatch, capsys):
    def broken(bench):
        raise ValueError("not this | one")

    checks = (
        check(broken, "first"),
        check(lambda bench: gpu_checks.Outcome("pass", "Seen.", {"a": 1}), "second"),
        check(lambda bench: gpu_checks.Outcome("not-applicable", "No."), "third"),
    )
    monkeypatch.setattr(gpu_check, "CHECKS", checks)
    out = ["-o", str(tmp_path), "--device", "cpu"]
    assert gpu_check.main([*out, "--only", "third"]) == 3
    assert gpu_check.main([*out, "--only", "second"]) == 0
    assert gpu_check.main([*out, "--only", "first", "--only", "second"]) == 1
    assert "ValueError: not this" in capsys.readouterr().out
    table = (tmp_path / "checks.md").read_text(encoding="utf-8").splitlines()
    assert [row.split("|")[1:3] for row in table[2:]] == [
        [" first ", " fail "],
        [" second ", " pass "],
        [" third ", " not-applicable "],
    ]
    assert all(row.count("|") == 4 for row in table)
    actual = json.loads((tmp_path / "checks" / "second.json").read_text(encoding="utf-8"))
    assert (actual["check"], actual["outcome"], actual["figures"]) == ("second", "pass", {"a": 1})


def test_an_unknown_word_is_a_usage_error_and_starts_nothing(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        gpu_check.main(["-o", str(tmp_path / "out"), "--only", "nonsense"])
    assert ended.value.code == 2
    assert "nonsense" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_promised_checks_are_there():
    names = {item.name for item in gpu_checks.CHECKS}
    assert {
        f"parity-{m}-{p}" for m in ("resnet50", "bert-base") for p in ("fp32", "tf32", "amp-fp16", "amp-bf16")
    } <= names
    assert {"parity-resnet50-amp-fp16-plain", "parity-bert-base-amp-bf16-inductor"} <= names
    assert {"doctor", "clocks", "sensors", "out-of-memory", "killed-worker", "largest", "overhead"} <= names


def test_missing_nvidia_smi_is_not_a_disagreement(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    actual = gpu_checks.sensors(gpu_checks.Bench("cuda", None, tmp_path))
    assert actual.outcome == "inconclusive"
    assert "nvidia-smi" in actual.sentence


# -- a rehearsal


@pytest.mark.framework
@pytest.mark.long
def test_a_rehearsal_on_the_cpu(tmp_path):
    """Real cases: one that follows its reference, one that does not exist here, one whose worker is killed."""
    out = [
        "-o",
        str(tmp_path),
        "--device",
        "cpu",
        "--only",
        "bert-base-fp32",
        "--only",
        "tf32",
        "--only",
        "killed",
    ]
    assert gpu_check.main(out) == 0
    actual = {
        path.stem: json.loads(path.read_text(encoding="utf-8")) for path in (tmp_path / "checks").iterdir()
    }
    assert {name: item["outcome"] for name, item in actual.items()} == {
        "parity-bert-base-fp32": "pass",
        "parity-bert-base-tf32": "not-applicable",
        "parity-resnet50-tf32": "not-applicable",
        "killed-worker": "pass",
    }
    stored = {result.id: result for result in ResultStore(tmp_path / "results")}
    assert {name for item in actual.values() for name in item["results"]} == set(stored)
    assert sorted(result.status for result in stored.values()) == [
        "crashed",
        "ok",
        "unsupported",
        "unsupported",
    ]
