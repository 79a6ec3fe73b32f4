"""A server of ParameterServerStrategy: a process that the trainer needs."""

import os


def serve() -> None:
    """Run the server that TF_CONFIG names, a computing server or a parameter server, until the agent ends this process.

    A computing server computes with OMP_NUM_THREADS threads. A parameter server owns no device and has no
    OMP_NUM_THREADS, so it can use all cores. Each server also has threads for the computing servers' requests: one per
    computing server, plus one.
    """
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    spec = resolver.cluster_spec()
    config = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=int(os.environ.get("OMP_NUM_THREADS", "0")),
        inter_op_parallelism_threads=spec.num_tasks("worker") + 1,
    )
    tf.distribute.Server(spec, resolver.task_type, resolver.task_id, protocol="grpc", config=config).join()
