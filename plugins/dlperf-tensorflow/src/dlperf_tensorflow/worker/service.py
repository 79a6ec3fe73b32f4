"""A server of ParameterServerStrategy: no trainer, but needed by one."""

import os


def serve() -> None:
    """Run the worker or the parameter server of TF_CONFIG until the agent ends this process.

    A worker has the threads that its share of the cores allows. A parameter server has no device, and so no share: it
    may use all cores. Every worker may ask a server for something at the same time, which takes a thread each.
    """
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    spec = resolver.cluster_spec()
    config = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=int(os.environ.get("OMP_NUM_THREADS", "0")),
        inter_op_parallelism_threads=spec.num_tasks("worker") + 1,
    )
    tf.distribute.Server(spec, resolver.task_type, resolver.task_id, protocol="grpc", config=config).join()
