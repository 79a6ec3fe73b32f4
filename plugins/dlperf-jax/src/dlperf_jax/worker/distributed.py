"""The way of one process to the others: `jax.distributed`, and gloo where replicas are CPUs."""

import os
from functools import partial

import jax
import numpy as np
from jax._src import distributed, xla_bridge
from jaxlib import _jax

from dlperf_jax.worker.replicas import SPLIT


def join(device, host, timeout):
    """Join the other processes, which the launch variables name.

    Workers may compile for different lengths of time, so no process is taken for dead before `timeout` seconds; the
    agents enforce the tighter deadlines.

    Args:
        device: The kind of device.
        host: This node's address.
        timeout: Seconds.
    """
    jax.distributed.initialize(
        num_processes=int(os.environ["JAX_NUM_PROCESSES"]),
        process_id=int(os.environ["JAX_PROCESS_ID"]),
        initialization_timeout=timeout,
        heartbeat_timeout_seconds=timeout,
    )
    if device == "cpu":
        # JAX has no setting for gloo's address: left alone, gloo listens at the one that the host's name resolves to,
        # which in a container is often none.
        gloo = _jax.make_gloo_tcp_collectives(distributed.global_state.client, hostname=host)
        client = partial(xla_bridge.make_cpu_client, gloo)
        xla_bridge.register_backend_factory("cpu", client, fail_quietly=False)


def connect(replicas, timeout):
    """Open gloo's connections, once all processes are here; wait for them up to `timeout` seconds.

    gloo connects in the first collective and waits 30 seconds for the others, which may still compile at that time.
    """
    zeros = replicas.place([np.zeros(1, np.float32)] * len(replicas.local_devices), SPLIT)
    average = replicas.program(replicas.average, SPLIT, SPLIT).lower(zeros).compile()
    distributed.global_state.client.wait_at_barrier("gloo", timeout * 1000)
    jax.block_until_ready(average(zeros))


def leave():
    """Wait for the other processes, and leave them."""
    jax.distributed.shutdown()
