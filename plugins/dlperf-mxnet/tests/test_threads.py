"""Two CPU devices in one process: each has its share of the cores, and no team of all of them."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("mxnet", reason="the worker half needs MXNet, which is not in this environment")

STEPS = """
import os, sys, time
if sys.argv[1] == "before":
    import mxnet  # has read OMP_NUM_THREADS before anything of ours could
from conftest import make_request
from dlperf_sdk.harness import in_process
runtime, trainer = in_process.start(make_request("bert-base", devices_per_node=2))
batch = trainer.canonical_batch()
for _ in range(2):
    trainer.step(batch)
runtime.synchronize()
counts = []
for _ in range(20):  # one that has just ended is still counted
    time.sleep(0.05)
    counts.append(len(os.listdir("/proc/self/task")))
print(os.environ["OMP_NUM_THREADS"], os.environ.get("DLPERF_MXNET_CPU_DEVICES"), min(counts))
"""


def threads(imported, cores):
    """What a process with two devices and this many cores says: OMP_NUM_THREADS, our variable, its threads."""
    variables = {**os.environ, "OMP_NUM_THREADS": str(cores), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", STEPS, imported]
    output = subprocess.run(command, check=True, env=variables, capture_output=True, text=True).stdout
    item, ours, alive = output.split()
    return int(item), ours, int(alive)


def test_each_device_has_its_share_of_the_cores():
    item, ours, alive = threads("after", cores=2)
    assert (item, ours) == (1, "None"), "what is left of the variable would be read again in the loaders"
    assert alive == threads("after", cores=1)[2] < threads("before", cores=2)[2]
    assert threads("after", cores=5)[0] == 2
