"""How Horovod is built for a kind of device."""

from dlperf_sdk.interfaces.horovod import HOROVOD, horovod_build


def test_gpus_get_nccl_and_everything_else_is_the_same():
    on_cpu, on_gpu = (horovod_build(device, {"A": "1"}, programs=("sh",)) for device in ("cpu", "cuda"))
    assert on_cpu.variables["HOROVOD_CPU_OPERATIONS"] == "GLOO" and on_cpu.variables["A"] == "1"
    assert on_gpu.variables == {**on_cpu.variables, "HOROVOD_GPU_OPERATIONS": "NCCL"}
    assert on_cpu.programs == on_gpu.programs == ("g++", "make", "sh")


def test_what_is_built_is_among_the_requirements():
    assert HOROVOD[0].partition("==")[0] == horovod_build("cpu", {}).name
