"""The server of a process, by which the sessions of all processes form a cluster."""

import json
import os

import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf import rewriter_config_pb2

OFF = rewriter_config_pb2.RewriterConfig.OFF
"""Value that turns an optimizer of graphs off."""


def start_server(config):
    """Start and return the `tf.train.Server` of this process, whose job and index TF_CONFIG names.

    `config` is a `tf.ConfigProto` with the options of sessions.

    Raises:
        KeyError: The variable TF_CONFIG is not set.
    """
    described = json.loads(os.environ["TF_CONFIG"])
    task = described["task"]
    return tf.train.Server(
        tf.train.ClusterSpec(described["cluster"]),
        task["type"],
        task["index"],
        protocol="grpc",
        config=config,
    )
