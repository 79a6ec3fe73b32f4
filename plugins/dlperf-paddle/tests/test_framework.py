"""The controller half: what it offers and refuses, its processes, its lock. None of it needs Paddle."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
from dlperf_paddle import processes as processes_module
from dlperf_paddle.framework import Paddle
from dlperf_paddle.processes import processes

from dlperf_sdk import RunSpec
from dlperf_sdk.errors import SpecError
from dlperf_sdk.worker.processes import TRAINER, Cluster, Node

CASE = {"framework": "paddle", "model": "resnet50", "device": "cpu"}


def test_the_controller_half_imports_no_paddle():
    code = (
        "import sys, dlperf_paddle.framework, dlperf_paddle.processes\n"
        "found = sorted({'paddle', 'numpy', 'PIL'} & set(sys.modules))\n"
        "assert not found, found"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_shared_half_is_python_3_7():
    ast.parse(Path(processes_module.__file__).read_text(encoding="utf-8"), feature_version=(3, 7))


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"precision": "amp-bf16"}, "always computes in fp32"),
        ({"precision": "amp-fp16"}, "always computes in fp32"),
        ({"compiler": "cinn"}, "without CINN"),
        ({"precision": "amp-bf16", "device": "cuda"}, None),
        ({"compiler": "cinn", "device": "cuda"}, None),
        ({"compiler": "graph", "layout": "nhwc"}, None),
        ({}, None),
    ],
)
def test_refuses(change, word):
    reason = Paddle().explain_refusal(RunSpec(**CASE | change), Paddle.Options())
    assert reason is None if word is None else word in reason


@pytest.mark.parametrize(
    ("change", "meet"),
    [
        ({}, False),
        ({"topology": "1n2d"}, True),
        ({"topology": "2n1d"}, True),
        ({"topology": "1n2d", "strategy": "independent"}, False),
        ({"device": "cuda", "strategy": "independent"}, False),
    ],
)
def test_gradient_buffer_without_averaging_is_refused(change, meet):
    case = RunSpec(**CASE | change)
    assert Paddle().explain_refusal(case, Paddle.Options()) is None
    reason = Paddle().explain_refusal(case, Paddle.Options(comm_buffer_mb=50))
    assert reason is None if meet else "comm_buffer_mb" in reason and "all_reduce" in reason


@pytest.mark.parametrize(
    "name",
    ["parameter_server", "distributed_replicated", "parameter_server_async", "horovod", "inductor", "xla"],
)
def test_unsupported_values_have_reasons(name):
    can = Paddle.capabilities
    assert name not in can.strategies | can.compilers
    assert Paddle.unsupported[name].endswith(".")


def test_cpu_lock_pins_everything_and_excludes_cuda():
    lock = Paddle().environment("cpu", "all_reduce", "resnet50").lock
    lines = [line for line in lock.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9-]+==[^\s;]+", line) for line in lines)
    pins = dict(line.split("==") for line in lines)
    assert pins["paddlepaddle"] == "3.3.1" and "setuptools" in pins
    assert not [name for name in pins if "nvidia" in name or "gpu" in name]


def test_gpus_need_the_cuda_build():
    environment = Paddle().environment("cuda", "all_reduce", "resnet50")
    assert environment.lock is None
    assert "paddlepaddle-gpu==3.3.*" in environment.requirements
    # What tests/test_loss_scale.py shows of NumPy 2.4.
    assert "numpy>=2.0,<2.4" in environment.requirements


@pytest.mark.parametrize("options", [{"loader_workers": 0}, {"comm_buffer_mb": 0.5}])
def test_impossible_options(options):
    with pytest.raises(SpecError):
        Paddle.Options(**options)


def test_every_option_has_help_and_a_role():
    for field in attrs.fields(Paddle.Options):
        assert field.metadata["role"] in ("factor", "context")
        assert field.metadata["help"]


def cluster(nodes, devices, strategy="all_reduce", device="cpu"):
    return Cluster(
        tuple(
            Node(
                f"10.0.0.{n}", ("4000", "4001", "4002"), tuple(f"cpu:{d}" for d in range(devices)), f"eth{n}"
            )
            for n in range(nodes)
        ),
        device,
        strategy,
        attrs.asdict(Paddle.Options()),
    )


def test_every_worker_gets_all_addresses_and_its_rank():
    actual = processes(cluster(2, 2))
    assert [p.role for p in actual] == [TRAINER] * 4
    endpoints = ["10.0.0.0:4000", "10.0.0.0:4001", "10.0.0.1:4000", "10.0.0.1:4001"]
    assert [p.variables["PADDLE_CURRENT_ENDPOINT"] for p in actual] == endpoints
    assert {p.variables["PADDLE_TRAINER_ENDPOINTS"] for p in actual} == {",".join(endpoints)}
    assert [p.variables["PADDLE_TRAINER_ID"] for p in actual] == ["0", "1", "2", "3"]
    assert {p.variables["PADDLE_TRAINERS_NUM"] for p in actual} == {"4"}
    assert {p.variables["PADDLE_MASTER"] for p in actual} == {"10.0.0.0:4002"}
    assert {p.variables["PADDLE_DISTRI_BACKEND"] for p in actual} == {"gloo"}
    assert not any("NCCL_SOCKET_IFNAME" in p.variables for p in actual)


def test_gpus_use_nccl_over_the_exact_interface():
    actual = processes(cluster(2, 1, device="cuda"))
    assert {p.variables["PADDLE_DISTRI_BACKEND"] for p in actual} == {"nccl"}
    assert [p.variables["NCCL_SOCKET_IFNAME"] for p in actual] == ["=eth0", "=eth1"]
    assert {p.variables["FLAGS_selected_gpus"] for p in actual} == {"0"}


@pytest.mark.parametrize("alone", [cluster(1, 1), cluster(2, 2, strategy="independent")])
def test_independent_processes_need_no_variables(alone):
    assert all(p.variables == {} for p in processes(alone))
