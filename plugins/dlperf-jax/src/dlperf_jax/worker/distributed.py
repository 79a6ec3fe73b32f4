"""The connection of a process to the others: `jax.distributed`, and gloo for replicas on CPUs."""

import os
from functools import partial

import jax
import numpy as np
from jax._src import distributed, xla_bridge
from jaxlib import _jax

from dlperf_jax.worker.replicas import SPLIT


def join(device, host, timeout):
    """Join the other processes of `jax.distributed`, whose variables `dlperf_jax.processes` has set in the environment.

    On a CPU, also replace JAX's CPU client by one whose gloo listens at `host`.

    Args:
        device: The kind of device, `cpu` or `cuda`.
        host: This node's address.
        timeout: Seconds, an int: the time to wait for the other processes at the start, and the time without a
            heartbeat after which a process counts as lost. It must allow for workers that compile for longer than
            others.
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
    """Wait until all processes have called this function, then open gloo's connections between them.

    Without this call, gloo would connect in the first collective, where it waits only 30 seconds for processes that may
    still compile. `replicas` is the `Replicas` of the case; `timeout`, an int, is the longest wait in seconds.

    Raises:
        jax.errors.JaxRuntimeError: A process did not call this function in time.
    """
    zeros = replicas.place([np.zeros(1, np.float32)] * len(replicas.local_devices), SPLIT)
    average = replicas.program(replicas.average, SPLIT, SPLIT).lower(zeros).compile()
    distributed.global_state.client.wait_at_barrier("gloo", timeout * 1000)
    jax.block_until_ready(average(zeros))


def leave():
    """Wait until all other processes of `jax.distributed` call this, too; then close this process's connection."""
    jax.distributed.shutdown()
