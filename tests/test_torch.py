"""torch through the front door: real models, real collectives, real JPEGs and text, in the managed environment."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from data_samples import image_folder, text_folder
from processes import processes_with

from dlperf_sdk import ResultStore, environments, hookimpl, run, verify
from dlperf_sdk.data import prepare
from dlperf_sdk.harness.in_process import SMALL as PLAIN
from dlperf_sdk.interfaces.model import entry_to_dict
from dlperf_sdk.models.resnet50 import ResNet50, ResNet50Options
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.spec.data_source import DATA_SOURCES
from dlperf_sdk.spec.values import DataSpec

pytestmark = pytest.mark.framework
TESTS = Path(__file__).parent

# What each precision, compiler, strategy and data source does is conformance's to ask: here is what a user does,
# dropout and all.
SMALL = {**PLAIN, "bert-base": {**PLAIN["bert-base"], "dropout": 0.1}}
SHORT = {"batch_size": 2, "warmup": 1, "steps": 3, "repeats": 1}


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """Model → its real data."""
    images, text = tmp_path_factory.mktemp("images"), tmp_path_factory.mktemp("text")
    image_folder(images)
    text_folder(text)
    return {"resnet50": f"images:{images}", "bert-base": f"text:{text}"}


def integrity(result):
    return {verdict.name: verdict.outcome for verdict in result.verdicts if verdict.kind == "integrity"}


# Conformance has one replica of synthetic data; two devices are fed like one, each by its own process.
@pytest.mark.parametrize(("topology", "source"), [("1n2d", "synthetic"), ("1n1d", "real"), ("2n1d", "real")])
@pytest.mark.parametrize("model", ["resnet50", "bert-base"])
def test_torch_gives_a_valid_result(model, topology, source, real, tmp_path):
    data = real[model] if source == "real" else "synthetic"
    result = run("torch", model, topology=topology, data=data, store=tmp_path, options=SMALL[model], **SHORT)
    assert result.status == "ok", result.failure
    assert result.exit_code == 0
    assert set(integrity(result).values()) == {"pass"}, result.verdicts
    assert result.metric("throughput").value > 0
    assert result.environment.lock.count("torch==") == 1
    assert ResultStore(tmp_path).load(result.id) == result
    assert max(result.parity.deviations) < 5e-6
    if topology != "1n1d":
        assert {record.facts["transport"] for record in result.repeats[0].records} == {"gloo"}


def test_verify_from_the_command_line():
    command = [sys.executable, "-m", "dlperf_sdk", "verify", "torch", "--model", "bert-base", "--json"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    (actual,) = json.loads(ended.stdout)["verifications"]
    assert [row["outcome"] for row in actual["rows"]] == ["pass"]


@pytest.mark.long
def test_compiled_training_follows_the_reference():
    """With all cores, and at the size of `small`: conformance compiles a smaller network, for one thread."""
    (actual,) = verify(["torch"], "bert-base", compiler="inductor")
    (row,) = actual.rows
    assert row.outcome == "pass", row


class _Killer:
    """Kills rank 1 as soon as somebody is in the window."""

    def __init__(self):
        self.pids = {}

    @hookimpl
    def dlperf_worker_started(self, name, pid):
        self.pids[name] = pid

    @hookimpl
    def dlperf_step_progress(self, phase, step):
        if phase == "measure" and step and "rank-1" in self.pids:  # rank 0 has met it in a step of the window
            self.killed = time.monotonic()
            os.kill(self.pids.pop("rank-1"), signal.SIGKILL)


def test_a_rank_killed_in_mid_window(tmp_path):
    killer = _Killer()
    result = run(
        "torch",
        "resnet50",
        topology="1n2d",
        options=SMALL["resnet50"],
        store=tmp_path,
        observers=[killer],
        **{**SHORT, "steps": 10000},
    )
    assert time.monotonic() - killer.killed < 10
    assert result.status == "crashed"
    assert (result.failure.rank, result.failure.phase) == (1, "measure")
    assert "SIGKILL" in result.failure.message
    assert not processes_with(result.id)


@pytest.mark.long
def test_out_of_memory_under_a_limit(tmp_path):
    """The limit is on the command and all that it starts: it cannot take the test run with it."""
    limit = 5 * 2**30
    command = [
        sys.executable,
        "-m",
        "dlperf_sdk",
        "run",
        "torch",
        "resnet50",
        "--batch-size",
        "256",
        "--warmup",
        "1",
    ]
    ended = subprocess.run(
        [*command, "--steps", "2", "--repeats", "1", "--output", str(tmp_path)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 4, ended.stderr
    result = ResultStore(tmp_path).load(ResultStore(tmp_path).ids()[0])
    assert result.status == "out-of-memory", result.failure
    assert "batch" in result.failure.message
    assert "Traceback" not in ended.stderr


@pytest.mark.long
def test_interrupted_run_leaves_nothing(tmp_path):
    command = [
        sys.executable,
        "-m",
        "dlperf_sdk",
        "run",
        "torch",
        "resnet50",
        "--batch-size",
        "2",
        "--set",
        "image_size=40",
    ]
    with subprocess.Popen(
        [*command, "--topology", "1n2d", "--steps", "10000", "--output", str(tmp_path)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        output = []
        reader = threading.Thread(target=lambda: output.extend(process.stdout), daemon=True)
        reader.start()
        end = time.monotonic() + 120
        while not any("measuring" in line for line in list(output)) and time.monotonic() < end:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130, "".join(output)
        reader.join(10)
    run_id = ResultStore(tmp_path).ids()[0]
    assert ResultStore(tmp_path).load(run_id).status == "interrupted"
    assert not processes_with(run_id)


def environment_of(*packages):
    """The managed environment, with these packages in addition."""
    spec = Registry().framework("torch").environment("cpu", "all_reduce", "resnet50").including(packages)
    return environments.prepare("torch", spec, "cpu", on_progress=lambda text: None)


def request_of_images(folder):
    """The fields of a request for a folder of images at 48 pixels, in batches of 5, for two replicas."""
    options = ResNet50Options(image_size=48, num_classes=10)
    inputs = [entry_to_dict(entry) for entry in ResNet50().inputs(options)]
    data = prepare(DataSpec("images-dali", str(folder)), {"num_classes": 10}, inputs)
    places = {"nodes": 1, "devices_per_node": 2, "batch_size": 5, "seed": 3}
    return {"data": data, "inputs": inputs, "framework_options": {"loader_workers": 2}, **places}


def dali_batches(request):
    """What `dali_batches.py` prints for a request."""
    prepared = environment_of(*DATA_SOURCES["images-dali"].requirements)
    program = [str(TESTS / "worker" / "dali_batches.py"), str(TESTS.parent / "src"), json.dumps(request)]
    with environments.use_environment(prepared):
        ended = subprocess.run([*prepared.command, *program], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_dali_has_the_pixels_of_pillow(tmp_path):
    """The same crops and reflections of the same samples: the libraries differ in rounding, and at an image's edge."""
    image_folder(tmp_path)
    answers = dali_batches(request_of_images(tmp_path))
    assert len(answers["mean"]) == 10, answers
    assert max(answers["largest"]) < 3.5 and max(answers["mean"]) < 0.5, answers
    assert all(answers["labels"])
    assert answers["facts"]["decoder"].startswith("DALI 2.")


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("header", r"n01/one\.JPEG cannot be decoded: .* Replace or remove it"),
        ("pixels", "DALI cannot decode an image. Run the case with `images`"),
    ],
)
def test_damaged_image_is_an_error_of_dali(tmp_path, part, message):
    image_folder(tmp_path)
    request, path = request_of_images(tmp_path), tmp_path / "n01" / "one.JPEG"
    content = path.read_bytes()
    path.write_bytes(content[: 20 if part == "header" else content.index(b"\xff\xda") + 14])
    answers = dali_batches(request)
    assert re.search(message, answers["error"]), answers


@pytest.fixture(scope="module")
def torchrun():
    """The command `torchrun` of the managed environment."""
    return [*environment_of().command, "-m", "torch.distributed.run"]


def run_in_torchrun(torchrun, folder, framework, *words):
    """Run a toy framework in a job of two nodes with two processes each; return exit codes and the result."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = ("--master-addr", "127.0.0.1", "--master-port", str(probe.getsockname()[1]))
    case = (framework, "linear", "--topology", "2n2d@joined", "--batch-size", "4", "--warmup", "1", *words)
    program = ("--no-python", sys.executable, "-m", "dlperf_sdk", "run", *case, "--python", sys.executable)
    nodes = [
        subprocess.Popen(
            [
                *torchrun,
                "--nnodes",
                "2",
                "--node-rank",
                str(node),
                "--nproc-per-node",
                "2",
                *address,
                *program,
            ]
            + ["--repeats", "1", "--output", str(folder / "store")],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for node in range(2)
    ]
    outputs = [process.communicate(timeout=120)[0] for process in nodes]
    store = ResultStore(folder / "store")
    (run_id,) = store.ids() or pytest.fail("\n".join(outputs))
    return [process.returncode for process in nodes], store.load(run_id)


def test_a_case_joins_a_job_of_torchrun(torchrun, tmp_path):
    codes, result = run_in_torchrun(torchrun, tmp_path, "numpy", "--steps", "5")
    assert (codes, result.status) == ([0, 0], "ok"), result.failure
    assert len(result.repeats[0].records) == 4
    assert not processes_with(result.id)


def test_a_failure_in_a_job_of_torchrun_ends_the_job(torchrun, tmp_path):
    # Enough memory to import everything, but not to train.
    limit = ("--memory-limit", "500000000", "--set", "sample_bytes=500000000")
    codes, result = run_in_torchrun(torchrun, tmp_path, "faulty", "--steps", "5", *limit)
    assert result.status == "out-of-memory", result.failure
    assert all(codes)
    assert not processes_with(result.id)
