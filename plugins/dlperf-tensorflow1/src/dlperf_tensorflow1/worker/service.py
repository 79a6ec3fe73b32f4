"""The parameter server, which holds the variables of the trainers."""

import os


def serve() -> None:
    """Run the parameter server whose index TF_CONFIG names until the agent ends this process."""
    import tensorflow.compat.v1 as tf

    from dlperf_tensorflow1.worker.cluster import start_server

    threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
    start_server(tf.ConfigProto(intra_op_parallelism_threads=threads)).join()
