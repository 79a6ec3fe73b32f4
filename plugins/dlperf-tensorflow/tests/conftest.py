"""Worker halves for the tests, without agents: requests as the planner makes them, of small cases."""

import functools

import pytest
from dlperf_tensorflow.framework import TensorFlow

from dlperf_sdk.harness import in_process
from dlperf_sdk.worker.request import resolve

MODELS, SMALL = in_process.MODELS, in_process.SMALL
make_request = functools.partial(in_process.small_request, TensorFlow)


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    """Threads can be set before the first computation only; without TensorFlow there are none to set."""
    try:
        import tensorflow as tf
    except ImportError:
        return
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)


@pytest.fixture(scope="session")
def make_trainer():
    """Builds the trainer of a case with one replica: `make_trainer("resnet50")`.

    A runtime starts once in a process, so these runtimes are given what starting would make.
    """
    import tensorflow as tf

    def make(model, **changes):
        request = make_request(model, **changes)
        cluster = in_process.cluster(request)
        process = resolve(request.processes)(cluster)[0]
        runtime = resolve(request.runtime)(request, cluster, process)
        runtime.strategy = tf.distribute.get_strategy()
        return resolve(request.trainer)(runtime, request, process)

    return make
