"""The worker half: runs inside the environment that has MXNet, and imports nothing of the controller.

MXNet reads OMP_NUM_THREADS when it is imported, and each of its CPU devices opens a team of that many threads. So a
process with several of them shares its cores out first, before any module here imports mxnet.
"""

import os

from dlperf_mxnet.processes import CPU_DEVICES


def _share_out():
    """Divide OMP_NUM_THREADS, the cores of this process, among its CPU devices."""
    devices = int(os.environ.pop(CPU_DEVICES, "1"))
    if devices > 1 and "OMP_NUM_THREADS" in os.environ:
        os.environ["OMP_NUM_THREADS"] = str(max(1, int(os.environ["OMP_NUM_THREADS"]) // devices))


_share_out()
