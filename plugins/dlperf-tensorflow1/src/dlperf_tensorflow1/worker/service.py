"""Servers for the trainers: a parameter server that holds their variables, and Horovod's rendezvous server."""

import os


def serve() -> None:
    """Run the server that TF_CONFIG names until the agent ends this process."""
    import tensorflow.compat.v1 as tf

    from dlperf_tensorflow1.worker.cluster import start_server

    threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
    start_server(tf.ConfigProto(intra_op_parallelism_threads=threads)).join()


def serve_rendezvous() -> None:
    """Run the HTTP server by which Horovod's trainers exchange their addresses, until the agent ends this process."""
    from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer

    from dlperf_tensorflow1.worker.horovod import rendezvous_address

    RendezvousHTTPServer(rendezvous_address(), RendezvousHandler, verbose=0).serve_forever()
