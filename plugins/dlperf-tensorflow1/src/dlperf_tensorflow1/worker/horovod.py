"""Horovod in a trainer: the rendezvous with the other trainers, and facts. No other strategy imports Horovod."""

import os
import socket
import time


def rendezvous_address():
    """Return host and port of the rendezvous server."""
    return os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"], int(os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"])


def join(timeout):
    """Wait for the rendezvous server and for all trainers.

    Args:
        timeout: Seconds to wait for each, and for gloo's collectives.

    Raises:
        OSError: the server did not accept a connection in time.
    """
    import horovod.tensorflow as hvd

    # Horovod itself tries three times within 1.5 s.
    deadline = time.monotonic() + timeout
    while True:
        try:
            socket.create_connection(rendezvous_address(), 1.0).close()
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
    os.environ["HOROVOD_GLOO_TIMEOUT_SECONDS"] = str(int(timeout))
    hvd.init()


def leave():
    """End Horovod's thread, when all trainers have called this."""
    import horovod.tensorflow as hvd

    hvd.shutdown()


def facts(device):
    """Return facts for the record: Horovod's version, and the library of its collectives for a kind of device."""
    import horovod
    import horovod.tensorflow as hvd

    transport = "nccl" if device == "cuda" and hvd.nccl_built() else "gloo"
    return {"horovod_version": horovod.__version__, "transport": transport}
