"""The controller half: what it offers and refuses, its processes, its lock. None of it needs torch."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
from dlperf_torch import processes as processes_module
from dlperf_torch.framework import Torch
from dlperf_torch.processes import processes

from dlperf_sdk import RunSpec
from dlperf_sdk.errors import UsageError
from dlperf_sdk.testing import FrameworkConformance
from dlperf_sdk.worker.processes import TRAINER, Cluster, Node

CASE = {"framework": "torch", "model": "resnet50", "device": "cpu"}


@pytest.mark.parametrize(
    ("fields", "programs"),
    [
        ({}, ()),
        ({"compiler": "inductor"}, ("g++",)),
        ({"compiler": "inductor", "env": {"CXX": "clang++ -O2"}}, ("clang++",)),
        ({"compiler": "inductor", "env": {"CXX": None}}, ()),
        ({"compiler": "inductor", "device": "cuda"}, ()),
    ],
    ids=str,
)
def test_inductor_needs_a_compiler_on_cpus(fields, programs):
    assert Torch().required_programs(RunSpec(**{**CASE, **fields})) == programs


def test_the_controller_half_imports_no_torch():
    code = (
        "import sys, dlperf_torch.framework, dlperf_torch.processes\n"
        "found = sorted({'torch', 'numpy', 'PIL'} & set(sys.modules))\n"
        "assert not found, found"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_shared_half_is_python_3_7():
    ast.parse(Path(processes_module.__file__).read_text(encoding="utf-8"), feature_version=(3, 7))


def test_declared_names_exist_in_the_plugins_files():
    for reference in (Torch.runtime, Torch.processes, *Torch.trainers.values()):
        module, _, attribute = reference.partition(":")
        path = Path(processes_module.__file__).parents[1] / (module.replace(".", "/") + ".py")
        names = {getattr(node, "name", None) for node in ast.parse(path.read_text(encoding="utf-8")).body}
        assert attribute in names, reference


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"precision": "tf32", "device": "cuda"}, None),
        ({"precision": "amp-fp16"}, None),
        ({"precision": "fp16"}, None),
        ({}, None),
    ],
)
def test_refuses(change, word):
    reason = Torch().explain_refusal(RunSpec(**CASE | change), Torch.Options())
    assert reason is None if word is None else word in reason


GPU = {"device": "cuda"}
BERT = {"model": "bert-base"}
DEVICES = {"topology": "1n2d"}


@pytest.mark.parametrize(
    ("options", "change", "words"),
    [
        ({"packed_qkv": True}, {}, "resnet50 has nothing that packed_qkv could change; leave it at false"),
        ({"attention": "math"}, {}, "attention could change; leave it at auto"),
        ({"vocabulary_multiple": 64}, {}, "leave it at its default"),
        ({"batch_norm_fp32": True}, BERT, "batch_norm_fp32"),
        ({"fused_batch_norm": True}, BERT, "bert-base has nothing that fused_batch_norm"),
        ({"fused_batch_norm": True}, {}, "a kernel for GPUs; on cpu"),
        ({"fused_batch_norm": True}, {**GPU, "layout": "nchw"}, "the layout nhwc"),
        ({"fused_batch_norm": True}, {**GPU, "compiler": "inductor"}, "inductor fuses batch norm itself"),
        ({"fused_batch_norm": True, "batch_norm_fp32": True}, GPU, "choose one of the two"),
        ({"fused_batch_norm": True}, GPU, None),
        ({"cuda_graph": True}, {}, "no CUDA graphs on cpu"),
        ({"cuda_graph": True}, {**GPU, "topology": "1n2d"}, "captures no exchange of gradients"),
        ({"cuda_graph": True, "fused_optimizer": False}, GPU, "cuda_graph needs the fused optimizer"),
        ({"cuda_graph": True}, GPU, None),
        ({"fused_layers": True}, {}, "resnet50 has nothing that fused_layers"),
        ({"fused_layers": True}, BERT, "fused_layers is kernels for GPUs; on cpu"),
        ({"fused_layers": True}, {**BERT, **GPU}, "computes in 16 bits, and fp32 does not"),
        ({"fused_layers": True}, {**BERT, **GPU, "compiler": "inductor"}, "inductor fuses layers itself"),
        (
            {"fused_layers": True, "attention": "math"},
            {**BERT, **GPU, "precision": "amp-bf16"},
            "own attention",
        ),
        ({"fused_layers": True}, {**BERT, **GPU, "precision": "amp-bf16"}, None),
        ({"max_autotune": True}, {}, "add --compiler inductor"),
        ({"max_autotune": True}, {"compiler": "inductor"}, None),
        ({"fused_optimizer": False}, {"precision": "amp-fp16"}, "waits for the device"),
        ({"fused_optimizer": False}, {}, None),
        ({"bucket_cap_mb": 50}, {}, "No gradients are averaged"),
        ({"bucket_cap_mb": 50}, {**DEVICES, "strategy": "independent"}, "No gradients are averaged"),
        ({"bucket_cap_mb": 50}, DEVICES, None),
        ({"bucket_cap_mb": 50}, {"topology": "2n1d"}, None),
        ({"bucket_cap_mb": 50}, {**DEVICES, "strategy": "horovod"}, "Horovod has its own buffers"),
        ({"nccl": False}, {**DEVICES, **GPU, "strategy": "horovod"}, "Horovod has its own buffers"),
        ({}, {**DEVICES, "strategy": "horovod"}, None),
        ({"nccl": False}, DEVICES, "no NCCL on cpu"),
        ({"nccl": False}, {**DEVICES, "device": "cuda"}, None),
        ({"nccl": False}, {"device": "cuda"}, "No gradients are averaged"),
        ({"cudnn_benchmark": False}, {}, "no cuDNN on cpu"),
        ({"cudnn_benchmark": False}, GPU, None),
        ({"cudnn_benchmark_limit": 0}, {}, "no cuDNN on cpu"),
        ({"cudnn_benchmark_limit": 0}, GPU, None),
        ({"cudnn_benchmark_limit": 0, "cudnn_benchmark": False}, GPU, "nothing is timed"),
        ({"attention": "cudnn"}, {"model": "bert-base"}, "choose flash, math, or leave"),
        ({"attention": "flash"}, {**GPU, "model": "bert-base"}, "choose efficient, cudnn, math, or leave"),
        ({"attention": "math"}, {"model": "bert-base"}, None),
    ],
)
def test_an_option_that_means_nothing_to_the_case_is_refused(options, change, words):
    reason = Torch().explain_refusal(RunSpec(**CASE | change), Torch.Options(**options))
    assert reason is None if words is None else words in reason


@pytest.mark.parametrize("strategy", ["all_reduce", "horovod"])
def test_cpu_lock_pins_everything_and_excludes_cuda(strategy):
    environment = Torch().environment("cpu", strategy, "resnet50")
    lines = [
        line
        for line in environment.lock.read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    assert all(re.fullmatch(r"[a-z0-9-]+==[^\s;]+( ; .+)?", line) for line in lines)
    pins = dict(line.partition(" ;")[0].split("==") for line in lines)
    assert pins["torch"] == "2.13.0+cpu"
    assert {re.split(r"[<>=]", text)[0] for text in environment.requirements} <= set(pins)
    assert not [name for name in pins if "nvidia" in name or "cuda" in name or name == "torchvision"]


def test_a_strategy_alone_is_built_from_source():
    [build] = Torch().environment("cpu", "horovod", "resnet50").source_builds
    assert build.variables["HOROVOD_WITH_PYTORCH"] == "1"
    assert Torch().environment("cpu", "all_reduce", "resnet50").source_builds == ()


def test_conformance_marks_the_cells_whose_environment_has_a_build():
    class Suite(FrameworkConformance):
        framework = "torch"
        models = ("bert-base", "resnet50")

    marked = Suite().values_with_source_builds()
    assert marked == {cell for cell in Suite().axes()["pair"] if cell.strategy == "horovod"} != set()


def test_every_source_of_the_build_is_compiled_as_cpp_17():
    """CMake passes the compiler and its arguments to this command."""
    [build] = Torch().environment("cpu", "horovod", "resnet50").source_builds
    launcher = build.variables["CMAKE_CXX_COMPILER_LAUNCHER"].split(";")
    command = ["echo", "g++", "-std=c++14", "-o", "a file.o"]
    output = subprocess.run([*launcher, *command], check=True, capture_output=True, text=True).stdout
    assert output == "g++ -std=c++14 -o a file.o -std=gnu++17\n"


def test_other_devices_have_no_cpu_build():
    environment = Torch().environment("cuda", "all_reduce", "resnet50")
    assert environment.lock is None
    assert "cpu" not in environment.uv_options


@pytest.mark.parametrize(
    "options",
    [
        {"loader_workers": 0},
        {"bucket_cap_mb": 1.5},
        {"cudnn_benchmark": 1},
        {"bucket_cap_mb": True},
        {"attention": "flahs"},
        {"vocabulary_multiple": 0},
        {"packed_qkv": "yes"},
    ],
)
def test_impossible_options(options):
    with pytest.raises(UsageError):
        Torch.Options(**options)


def test_every_option_has_help_and_a_role():
    for field in attrs.fields(Torch.Options):
        assert field.metadata["role"] in ("factor", "context")
        assert field.metadata["help"]


def cluster(nodes, devices, strategy="all_reduce", device="cpu"):
    return Cluster(
        tuple(
            Node(f"10.0.0.{n}", ("4000", "4001"), tuple(f"cpu:{d}" for d in range(devices)), f"eth{n}")
            for n in range(nodes)
        ),
        device,
        strategy,
    )


def test_processes_of_two_nodes():
    actual = processes(cluster(2, 2))
    assert [p.role for p in actual] == [TRAINER] * 4
    assert [p.variables["RANK"] for p in actual] == ["0", "1", "2", "3"]
    assert [p.variables["LOCAL_RANK"] for p in actual] == ["0", "1", "0", "1"]
    assert {p.variables["WORLD_SIZE"] for p in actual} == {"4"}
    assert {(p.variables["MASTER_ADDR"], p.variables["MASTER_PORT"]) for p in actual} == {
        ("10.0.0.0", "4000")
    }
    assert [p.variables["GLOO_SOCKET_IFNAME"] for p in actual] == ["eth0", "eth0", "eth1", "eth1"]
    assert not any("NCCL_SOCKET_IFNAME" in p.variables for p in actual)
    assert [p.replicas for p in actual] == [(0,), (1,), (2,), (3,)]


def test_nccl_gets_the_exact_interface():
    actual = processes(cluster(2, 1, device="cuda"))
    assert [p.variables["NCCL_SOCKET_IFNAME"] for p in actual] == ["=eth0", "=eth1"]


@pytest.mark.parametrize("alone", [cluster(1, 1), cluster(2, 2, strategy="independent")])
def test_independent_replicas_need_no_variables(alone):
    assert all(p.variables == {} for p in processes(alone))
