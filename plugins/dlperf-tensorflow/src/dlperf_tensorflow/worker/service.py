"""A server of ParameterServerStrategy: a process that the trainer needs."""

import os


def serve() -> None:
    """Run the server that TF_CONFIG names, a worker or a parameter server, until the agent ends this process.

    A worker has OMP_NUM_THREADS threads for computing. A parameter server has no device and no such number, so it may
    use all cores. Both have one thread for the requests of each worker, and one more.
    """
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    spec = resolver.cluster_spec()
    config = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=int(os.environ.get("OMP_NUM_THREADS", "0")),
        inter_op_parallelism_threads=spec.num_tasks("worker") + 1,
    )
    tf.distribute.Server(spec, resolver.task_type, resolver.task_id, protocol="grpc", config=config).join()
