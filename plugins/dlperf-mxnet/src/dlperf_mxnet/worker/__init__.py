"""The worker half of the MXNet plugin: it runs in the environment that has MXNet.

MXNet reads OMP_NUM_THREADS when it is imported, and each of its CPU devices starts that many threads. Importing this
package therefore divides OMP_NUM_THREADS by the number of the process's CPU devices, before a module of the package
imports mxnet.
"""

import os

from dlperf_mxnet.processes import CPU_DEVICES


def _share_out():
    """Divide OMP_NUM_THREADS, the cores of this process, among its CPU devices."""
    devices = int(os.environ.pop(CPU_DEVICES, "1"))
    if devices > 1 and "OMP_NUM_THREADS" in os.environ:
        os.environ["OMP_NUM_THREADS"] = str(max(1, int(os.environ["OMP_NUM_THREADS"]) // devices))


_share_out()
