"""Importers: the right throughput of each program's log, under its own estimator, and no number of a bad one."""

import hashlib
import os
import random
import re
import statistics

import log_samples
import pytest
from dlperf_published.importers.dlperf_formats import FORMATS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dlperf_sdk.errors import DlperfError, DocumentError, SpecError, UnknownName, UsageError
from dlperf_sdk.exchange.import_logs import import_logs
from dlperf_sdk.interfaces import importer
from dlperf_sdk.interfaces.importer import MAX_LINE_BYTES
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.result import Result

FP32 = {"precision": "fp32"}
FREE = {"topology": "1n1d", "batch_size": 64, "model": "resnet50", "precision": "fp32", "framework": "torch"}


def fact(result, name):
    (actual,) = [fact for fact in result.facts if fact.name == name]
    return actual.requested if actual.observed is None else actual.observed


@pytest.fixture
def log(tmp_path):
    def write(text, name="run.log"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


# -- tf_cnn_benchmarks


def test_tf_cnn_benchmarks_total_is_imported_with_its_estimator(log):
    path = log(log_samples.TF_CNN)
    (result,) = import_logs("tf-cnn-benchmarks", [path], FP32)
    metric = result.metric("throughput")
    assert (metric.value, metric.unit, metric.repeats, metric.low) == (1418.42, "img/s", (1418.42,), None)
    assert result.metric("throughput-per-device").value == 1418.42 / 4
    spec = result.spec
    assert (spec.framework, spec.model, str(spec.topology), spec.batch_size) == (
        "tensorflow1",
        "resnet50",
        "1n4d",
        64,
    )
    assert {name: fact(result, name) for name in ("strategy", "layout", "data", "device", "estimator")} == {
        "strategy": "all_reduce",
        "layout": "nchw",
        "data": "synthetic",
        "device": "cuda",
        "estimator": "loop-elapsed",
    }
    (source,) = result.imported.sources
    assert source.name == "run.log"
    assert source.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert source.lines == len(log_samples.TF_CNN.splitlines())
    assert result.imported.importer == "tf-cnn-benchmarks"
    assert not any(verdict.outcome in ("pass", "fail") for verdict in result.verdicts)
    assert all("mported" in verdict.detail for verdict in result.verdicts)
    assert Result.from_dict(result.to_dict()) == result


@pytest.mark.parametrize(
    ("variables", "strategy"),
    [
        ("parameter_server", "parameter_server"),
        ("parameter_server\nSync:        False", "parameter_server_async"),
        ("distributed_replicated", "distributed_replicated"),
        ("distributed_replicated\nSync:        True", "distributed_replicated"),
        ("collective_all_reduce", "all_reduce"),
        ("horovod", "horovod"),
    ],
)
def test_each_way_to_update_variables_is_the_strategy_of_that_name(log, variables, strategy):
    text = log_samples.TF_CNN.replace("Variables:   replicated", f"Variables:   {variables}")
    (result,) = import_logs("tf-cnn-benchmarks", [log(text)], FP32)
    assert fact(result, "strategy") == strategy


@pytest.mark.parametrize(
    ("line", "framework"),
    [
        ("TensorFlow:  1.15", "tensorflow1"),
        ("TensorFlow:  2.12", "tensorflow"),
        ("an older log does not state it", "tensorflow1"),
    ],
)
def test_the_framework_is_that_of_the_published_figures_for_tensorflow_1(log, line, framework):
    text = log_samples.TF_CNN.replace("TensorFlow:  1.15", line)
    (result,) = import_logs("tf-cnn-benchmarks", [log(text)], FP32)
    assert result.spec.framework == framework
    figures = Registry().collection("tf-cnn-2017").figures
    assert {figure.framework for figure in figures} == {"tensorflow1"}


def test_unstated_fields_stay_unknown(log):
    (result,) = import_logs("tf-cnn-benchmarks", [log(log_samples.TF_CNN)], FP32)
    names = {fact.name for fact in result.facts}
    assert not names & {"compiler", "protocol", "seed", "accumulation", "framework_version", "clip_norm"}
    assert "precision" in names


@pytest.mark.parametrize(
    ("old", "new", "topology"),
    [
        ("256 global", "512 global", "2n4d"),
        (
            "'/gpu:0', '/gpu:1', '/gpu:2', '/gpu:3'",
            "'horovod/gpu:0', 'horovod/gpu:1', 'horovod/gpu:2', 'horovod/gpu:3'",
            "1n4d",
        ),
        (
            "'/gpu:0', '/gpu:1', '/gpu:2', '/gpu:3'",
            ", ".join(f"'job:worker/replica:0/task{t}/gpu:{i}'" for t in range(2) for i in range(2)),
            "2n2d",
        ),
    ],
)
def test_tf_cnn_benchmarks_topology_follows_from_batch_sizes_and_devices(log, old, new, topology):
    (result,) = import_logs("tf-cnn-benchmarks", [log(log_samples.TF_CNN.replace(old, new))], FP32)
    assert str(result.spec.topology) == topology


@pytest.mark.parametrize(
    ("change", "output"),
    [
        (
            lambda text: text[: text.index("total images")],
            "ends after line 26 without its line 'total images/sec'",
        ),
        (lambda text: text * 2, "line 29: 'TensorFlow' is there a second time, after line 1"),
        (lambda text: text + "total images/sec: 5.0\n", "line 29: a second total"),
        (lambda text: text.replace("training\n", "forward only\n", 1), "line 4: its mode is 'forward only'"),
        (lambda text: text.replace("64 per", "60 per"), "line 7: 60 per device do not divide 256"),
        (lambda text: text.replace("64 per", "0 per"), "line 7: 0 per device"),
        (lambda text: text.replace("'/gpu:0', ", ""), "line 10: it lists 3 devices"),
        (lambda text: text.replace("replicated", "magic"), "line 14: it updates variables by 'magic'"),
        (lambda text: text.replace("256 global", "many"), "line 6: the batch size is 'many'"),
        (lambda text: text.replace("1418.42", "0.00"), "line 27: a total of 0.00"),
        (lambda text: text.replace("Mode:", "Mood:"), "without the line 'Mode:'"),
        (lambda text: "", "ends after line 0"),
        (lambda text: b"\0\xff" * 100, "ends after line 1"),
        (lambda text: "x" * (MAX_LINE_BYTES + 1), "line 1: is longer than"),
    ],
)
def test_a_bad_log_of_tf_cnn_benchmarks_is_refused_by_its_line(log, change, output):
    with pytest.raises(DocumentError, match=output.replace("(", r"\(")):
        import_logs("tf-cnn-benchmarks", [log(change(log_samples.TF_CNN))], FP32)


def test_a_log_has_a_maximum_number_of_lines(log, monkeypatch):
    monkeypatch.setattr(importer, "MAX_LINES", 100)
    with pytest.raises(DocumentError, match="line 101: a log may have 100 lines"):
        import_logs("tf-cnn-benchmarks", [log(log_samples.TF_CNN + "\n" * 200)], FP32)


def test_precision_must_be_stated(log):
    with pytest.raises(UsageError, match="does not state the precision: add --set precision"):
        import_logs("tf-cnn-benchmarks", [log(log_samples.TF_CNN)])


# -- DLPerf

STEP = 0.125


@pytest.mark.parametrize(
    ("text", "output", "framework", "global_batch", "estimator"),
    [
        (log_samples.oneflow(), FP32, "oneflow", 128 * 16, "elapsed-between-lines"),
        (log_samples.oneflow_bert(), {**FP32, "model": "bert-base"}, "oneflow", 24, "elapsed-between-lines"),
        (log_samples.pytorch(), {**FREE}, "torch", 64, "summed-step-times"),
        (log_samples.dll_text(), FREE, "torch", 64, "elapsed-between-lines"),
        (
            log_samples.time_history(),
            {**FREE, "framework": "tensorflow"},
            "tensorflow",
            64,
            "elapsed-between-lines",
        ),
        (
            log_samples.tf_bert(),
            {**FREE, "framework": "tensorflow"},
            "tensorflow",
            64,
            "elapsed-between-lines",
        ),
        (log_samples.gluon(64 / STEP), {**FREE, "framework": "mxnet"}, "mxnet", 64, "mean-of-rates"),
        (log_samples.gluon_nlp(), {**FREE, "framework": "mxnet"}, "mxnet", 64, "mean-of-rates"),
        (log_samples.paddle(), {**FREE, "framework": "paddle"}, "paddle", 64, "elapsed-between-lines"),
        (log_samples.paddle_bert(), {**FREE, "framework": "paddle"}, "paddle", 64, "mean-of-rates"),
    ],
    ids=[
        "oneflow",
        "oneflow-bert",
        "torch",
        "dll",
        "tf",
        "tf-bert",
        "gluon",
        "gluon-nlp",
        "paddle",
        "paddle-bert",
    ],
)
def test_each_framework_of_dlperf_is_read(log, text, output, framework, global_batch, estimator):
    (result,) = import_logs("dlperf-log", [log(text)], output)
    assert result.metric("throughput").value == pytest.approx(global_batch / STEP, rel=1e-5)
    assert result.spec.framework == framework
    assert fact(result, "estimator") == estimator
    assert estimator in result.metric("throughput").note
    assert "100 iterations after 20" in result.imported.estimator


def test_dlperf_names_its_case_in_the_path_and_repeats_are_logs(log):
    paths = [log(log_samples.pytorch(STEP * (1 + k / 100)), f"2n8g/rn50_b128_fp32_{k}.log") for k in range(7)]
    (result,) = import_logs("dlperf-log", paths)
    spec, metric = result.spec, result.metric("throughput")
    assert (spec.model, str(spec.topology), spec.batch_size, spec.precision) == (
        "resnet50",
        "2n8d",
        128,
        "fp32",
    )
    assert len(metric.repeats) == len(result.imported.sources) == 7
    assert metric.value == sorted(metric.repeats)[3]
    assert metric.low == min(metric.repeats) and metric.high == max(metric.repeats)
    assert metric.repeats[0] == pytest.approx(2048 / STEP, rel=1e-3)


def test_cases_that_differ_are_results_of_their_own(log):
    paths = [log(log_samples.pytorch(), f"{n}n8g/rn50_b128_fp32_1.log") for n in (1, 2)]
    paths[1].write_text(log_samples.pytorch(0.126))
    assert [str(item.spec.topology) for item in import_logs("dlperf-log", paths)] == ["1n8d", "2n8d"]


def test_meaning_of_fp16_in_dlperf_must_be_stated(log):
    with pytest.raises(UsageError, match="does not state the precision"):
        import_logs("dlperf-log", [log(log_samples.pytorch(), "1n1g/rn50_b128_fp16_1.log")])


def without(text, *numbers):
    return "".join(line for i, line in enumerate(text.splitlines(True)) if i not in numbers)


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("".join(log_samples.pytorch().splitlines(True)[:60]), "ends after line 60 without iteration 119"),
        (
            "".join(log_samples.pytorch().splitlines(True)[:10]),
            "ends after line 10 without 20 iterations of warm-up",
        ),
        (log_samples.pytorch() * 2, "line 134: iteration 0 comes after iteration 130 of line 132"),
        (without(log_samples.pytorch(), 70), "line 71: the time of iteration 69 is missing"),
        (without(log_samples.pytorch(), 120), "no line for its end: 120 is the next"),
        (log_samples.pytorch().replace("Time  0.125", "Time  0.000"), "took 0.0 s"),
        (log_samples.gluon(0), "rates are missing"),
        (log_samples.gluon_nlp(0), "line 1: a step that took no time"),
        (log_samples.tf_bert().replace("I0820", "I0230"), "line 1: "),
        (log_samples.oneflow().replace("num_nodes = 2", "num_nodes = 0"), "num_nodes is '0'"),
        ("", "ends after line 0 without a line about an iteration"),
        ("words\n" * 3, "ends after line 3 without a line about an iteration"),
        (random.Random(0).randbytes(4096), "without a line about an iteration"),
    ],
)
def test_a_bad_log_of_dlperf_is_refused_by_its_line(log, text, output):
    with pytest.raises(DocumentError, match=output):
        import_logs("dlperf-log", [log(text)], FREE)


def test_two_processes_of_a_case_with_one_device_are_refused(log):
    lines = log_samples.pytorch().splitlines(True)
    with pytest.raises(
        DocumentError, match=r"line 4: iteration 0 comes after iteration 0 of line 3. .*several"
    ):
        import_logs("dlperf-log", [log("".join(line * 2 for line in lines))], FREE)


RANKS = 8


def interleaved(logs, chance=None):
    """The lines of several ranks in one log: each rank's in their order, none far behind the others."""
    lags = [chance.random() * 3 if chance else 0.0 for _ in logs]
    lines = [
        (at + lag, rank, line)
        for rank, (text, lag) in enumerate(zip(logs, lags, strict=True))
        for at, line in enumerate(text.splitlines(True))
    ]
    return "".join(line for _, _, line in sorted(lines))


def spread(middle):
    """A value for each rank, with this median and mean."""
    return [middle * (1 + (rank - (RANKS - 1) / 2) / 100) for rank in range(RANKS)]


@pytest.mark.parametrize(
    ("written", "per_rank", "estimator"),
    [
        (log_samples.pytorch, spread(STEP), "summed-step-times"),
        (log_samples.gluon, spread(RANKS * 64 / STEP), "mean-of-rates"),
        (log_samples.paddle, [STEP] * RANKS, "elapsed-between-lines"),
    ],
    ids=["torch", "gluon", "paddle"],
)
@pytest.mark.parametrize(("topology", "seed"), [("1n8d", 1), ("1n8d", 2), ("4n8d", 3)])
def test_the_ranks_of_a_case_or_of_one_node_are_read_from_one_log(
    log, written, per_rank, estimator, topology, seed
):
    text = interleaved([written(item) for item in per_rank], random.Random(seed))
    (result,) = import_logs("dlperf-log", [log(text)], {**FREE, "topology": topology})
    devices = RANKS if estimator == "mean-of-rates" else result.spec.topology.devices
    # torch's lines have three decimals.
    assert result.metric("throughput").value == pytest.approx(devices * 64 / STEP, rel=2e-3)
    assert fact(result, "estimator") == estimator
    assert "the lines of 8 ranks" in result.imported.estimator


def test_mxnet_ranks_are_combined_by_dlperfs_rule(log):
    """MxNet/BERT/extract_mxnet_logs.py and its like: of each iteration the median over the ranks, of 100 the mean."""
    chance = random.Random(5)
    rates = [[round(chance.uniform(400, 600), 2) for _ in range(RANKS)] for _ in range(130)]
    logs = [
        "".join(
            f"Epoch[0] Batch [{at}]\tSpeed: {item[rank]:f} samples/sec\tlr=0.1\n"
            for at, item in enumerate(rates)
        )
        for rank in range(RANKS)
    ]
    theirs = statistics.fmean(statistics.median(item) for item in rates[20:120])
    (result,) = import_logs("dlperf-log", [log(interleaved(logs, chance))], {**FREE, "topology": "1n8d"})
    assert result.metric("throughput").value == pytest.approx(theirs, rel=1e-12)


@pytest.mark.parametrize(
    ("topology", "text", "output"),
    [
        ("1n8d", interleaved([log_samples.pytorch()] * 3), r"iteration 19 has 3 lines; .* \(1, 8\)"),
        ("2n4d", interleaved([log_samples.pytorch()] * 2), r"iteration 19 has 2 lines; .* \(1, 4, 8\)"),
        (
            "1n2d",
            interleaved([log_samples.pytorch()] * 3),
            "this is line 3 of iteration 19, and the case has 2",
        ),
        (
            "1n2d",
            log_samples.pytorch() * 2,
            "line 134: iteration 0 comes after iteration 130 of line 132. .*runs",
        ),
    ],
    ids=["some ranks", "some ranks of a node", "more ranks than devices", "one run after another"],
)
def test_log_without_lines_of_all_ranks_is_refused(log, topology, text, output):
    with pytest.raises(DocumentError, match=output):
        import_logs("dlperf-log", [log(text)], {**FREE, "topology": topology})


@given(rank=st.integers(0, 3), at=st.integers(0, 129), twice=st.booleans())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_line_too_many_or_too_few_of_a_rank_is_seen_in_the_window(log, rank, at, twice):
    logs = [log_samples.pytorch().splitlines(True)[1:] for _ in range(4)]
    logs[rank][at] *= 2 if twice else 0
    path = log(interleaved(["".join(log) for log in logs]))
    if 19 <= at <= 119:
        with pytest.raises(DocumentError, match=f"iteration {at}\\b"):
            import_logs("dlperf-log", [path], {**FREE, "topology": "1n4d"})
    else:
        import_logs("dlperf-log", [path], {**FREE, "topology": "1n4d"})


def test_a_later_epoch_does_not_count(log):
    text = log_samples.pytorch()
    later = text.replace("Epoch: [0]", "Epoch: [1]").replace("0.125", "9.000")
    (one,) = import_logs("dlperf-log", [log(text)], FREE)
    (two,) = import_logs("dlperf-log", [log(text + later)], FREE)
    assert one.metric("throughput").value == two.metric("throughput").value


def test_another_window_can_be_chosen(log):
    slow = log_samples.pytorch(0.5).splitlines(True)[:42]
    fast = log_samples.pytorch(0.125).splitlines(True)[42:]
    path = log("".join([*slow, *fast]))
    (result,) = import_logs("dlperf-log", [path], {**FREE, "warmup": 60, "steps": 50})
    assert result.metric("throughput").value == pytest.approx(64 / 0.125)
    assert (result.spec.warmup, result.spec.steps) == (60, 50)


# -- DLLogger


def test_dllogger_is_read(log):
    (result,) = import_logs("dllogger", [log(log_samples.dllogger())], {"framework": "torch"})
    spec = result.spec
    assert (spec.model, spec.precision, spec.batch_size, str(spec.topology)) == (
        "resnet50",
        "amp-fp16",
        128,
        "1n1d",
    )
    assert result.metric("throughput").value == pytest.approx(128 / STEP)
    assert fact(result, "estimator") == "elapsed-between-lines"


@pytest.mark.parametrize(
    ("change", "error", "output"),
    [
        (lambda text: text[:-20], DocumentError, "line 396 .*cut short"),
        (lambda text: text.replace('"lr"', 'DLLL {"lr"', 1), DocumentError, "line 4 "),
        (
            lambda text: text.replace("DLLL", "x DLLL", 1),
            DocumentError,
            "line 1: a record begins in the middle",
        ),
        (
            lambda text: text.replace('"timestamp"', '"time"'),
            DocumentError,
            "line 3: the record has no timestamp",
        ),
        (lambda text: text.replace('"timestamp": "15', '"timestamp": "nan'), DocumentError, "line 3"),
        (lambda text: "DLLL []\n", DocumentError, "line 1: this is not a record"),
        (lambda text: 'DLLL {"a": NaN}\n', DocumentError, "line 1 "),
        (lambda text: "DLLL " + "[" * 5000 + "\n", DocumentError, "line 1 "),
        (
            lambda text: text.replace('"batch_size": 128', '"b": 128'),
            UsageError,
            "does not state the batch size",
        ),
        (
            lambda text: text.replace('"world_size": 1', '"world_size": 8'),
            UsageError,
            "does not state the topology",
        ),
        (lambda text: "\n".join(text.splitlines()[:200]), DocumentError, "without iteration 119"),
        (lambda text: text * 2, DocumentError, "line 399: iteration 0 comes after iteration 130"),
    ],
)
def test_a_bad_log_of_dllogger_is_refused_by_its_line(log, change, error, output):
    with pytest.raises(error, match=output):
        import_logs("dllogger", [log(change(log_samples.dllogger()))], {"framework": "torch"})


# -- all of them


@pytest.mark.parametrize("importer", ["dlperf-log", "tf-cnn-benchmarks", "dllogger"])
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(noise=st.binary(max_size=60), at=st.integers(0, 20_000), cut=st.integers(0, 40_000))
def test_a_damaged_log_gives_a_result_or_a_typed_error(tmp_path, importer, noise, at, cut):
    texts = {
        "dlperf-log": log_samples.oneflow(),
        "tf-cnn-benchmarks": log_samples.TF_CNN,
        "dllogger": log_samples.dllogger(),
    }
    whole = texts[importer].encode()
    path = tmp_path / "damaged.log"
    path.write_bytes((whole[:at] + noise + whole[at:])[: cut or None])
    try:
        (result,) = import_logs(importer, [path], FREE)
    except DlperfError:
        return
    assert result.metric("throughput").value > 0
    assert Result.from_dict(result.to_dict()) == result


@pytest.mark.parametrize(
    ("output", "error", "text"),
    [
        ({"precison": "fp32"}, UnknownName, "Did you mean 'precision'"),
        ({"steps": 5}, UnknownName, "no fact of an imported case named 'steps'"),
        ({"batch_size": "many"}, SpecError, "batch_size is 'many'"),
        ({"batch_size": True}, SpecError, "batch_size is True"),
        ({"topology": "2x8"}, SpecError, "topology is '2x8'"),
        ({"precision": "FP 32"}, SpecError, "precision is 'FP 32'"),
    ],
)
def test_stated_fields_are_checked(log, output, error, text):
    with pytest.raises(error, match=text):
        import_logs("tf-cnn-benchmarks", [log(log_samples.TF_CNN)], {**FP32, **output})


def test_stated_fields_that_contradict_the_log_are_noted(log):
    (result,) = import_logs("tf-cnn-benchmarks", [log(log_samples.TF_CNN)], {**FP32, "data": "images"})
    assert fact(result, "data") == "images"
    assert result.notes == ("data is synthetic in the logs, and was said to be images.",)


def test_same_log_twice_is_one_repeat(log):
    paths = [log(log_samples.TF_CNN), log(log_samples.TF_CNN, "copy.log")]
    with pytest.raises(UsageError, match=r"copy.log and run.log are the same log"):
        import_logs("tf-cnn-benchmarks", paths, FP32)


def test_unknown_importer_empty_log_and_missing_file_are_refused(log, tmp_path):
    with pytest.raises(UnknownName, match="Did you mean 'dllogger'"):
        import_logs("dlloger", [log("")])
    with pytest.raises(UsageError, match="no log"):
        import_logs("dllogger", [])
    for path in (tmp_path, tmp_path / "none", "a\0b"):
        with pytest.raises(DocumentError, match=r"is not a file|cannot be read"):
            import_logs("dllogger", [path])
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DocumentError, match="is not a file"):
        import_logs("dllogger", [tmp_path / "pipe"])


def test_a_large_log_is_streamed(log, monkeypatch):
    """Nothing of what lies outside the window is kept."""
    import tracemalloc

    text = log_samples.pytorch()
    noise = "a line of a library that has nothing to do with it, and says so at some length\n" * 100_000
    path = log(text + noise)
    tracemalloc.start()
    (result,) = import_logs("dlperf-log", [path], FREE)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert result.imported.sources[0].lines == 100_132
    assert peak < path.stat().st_size / 8


# -- lines as the programs write them


@pytest.mark.parametrize(
    ("name", "line", "output"),
    [(name, *item) for actual in (log_samples.REAL, log_samples.FORMATTED) for name, item in actual.items()],
)
def test_a_line_of_the_program_itself_is_understood(name, line, output):
    (actual,) = [
        (item.implementation, tick)
        for item in FORMATS
        if item.holds in line and (tick := item.tick(line, global_batch=64)) is not None
    ]
    implementation, (_, tick) = actual
    assert implementation == name.partition(",")[0]
    assert (tick.iteration, tick.seconds, tick.covers) == (output[0], output[1], output[3])
    assert tick.rate == pytest.approx(output[2]) if output[2] else tick.rate is None
    assert (tick.stamp is not None) == bool(re.search(r"[0-9]{2}:[0-9]{2}:[0-9]{2}[.,][0-9]{3}", line))


def test_a_window_of_tensorflows_own_log(log):
    """The lines of one of DLPerf's runs on a V100; what its script takes are their stamps."""
    lines = (
        ("I0826 15:12:50.113950", "116.24 seconds, 110.12", "0 and 100"),
        ("I0826 15:13:29.256277", "39.13 seconds, 327.08", "100 and 200"),
        ("I0826 15:14:08.658297", "39.40 seconds, 324.90", "200 and 300"),
    )
    text = "".join(
        f"{stamp} 140405777909504 keras_utils.py:133] TimeHistory: {took} examples/second between steps {steps}\n"
        for stamp, took, steps in lines
    )
    output = {**FREE, "framework": "tensorflow", "batch_size": 128}
    (result,) = import_logs("dlperf-log", [log(text)], output)
    assert fact(result, "estimator") == "elapsed-between-lines"
    # A float holds seconds since 1970 to a quarter of a microsecond.
    assert result.metric("throughput").value == pytest.approx(100 * 128 / 39.142327, rel=5e-7 / 39)


@pytest.mark.parametrize(
    "again",
    [
        "train: epoch 1, iter 1, ",
        "step: 1, total_loss: throughput: ",
        "Epoch: [1][ 1/2]  ",
        "DLL 2020-09-15 14:29:13.473765 - Iteration: 1 ",
        "I0826 15:13:29.256277 TimeHistory: 1 seconds, ",
        "I0821 07:10:28.123456 Train Step: ",
        "2020-08-19 14:23:11,123 Speed: ",
        "[step 20] latency=",
        "2020-08-19 14:23:11,123 [Pass 0, train batch 20] elapse ",
        "epoch: 1, step: 1, speed:  steps/s",
    ],
)
def test_a_line_that_begins_again_and_again_takes_no_time(again):
    text = again * 10_000 + "Validation Iteration: "
    assert any(item.holds in text for item in FORMATS)
    assert [item.tick(text, 1) for item in FORMATS] == [None] * len(FORMATS)
