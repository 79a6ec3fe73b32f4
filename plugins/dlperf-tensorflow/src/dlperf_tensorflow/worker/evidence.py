"""Evidence for the settings in effect: the graph that was run, and plain float32 to compare with."""

import contextlib

import tensorflow as tf

_PRODUCTS = frozenset({"Conv2D", "MatMul", "BatchMatMulV2", "BatchMatMulV3"})


class GraphEvidence:
    """The operations in the graph of a traced function, and in the graphs of all functions that it calls.

    `graph` is a `tf.Graph`.
    """

    def __init__(self, graph):
        graph = graph.as_graph_def()
        self._nodes = [
            *graph.node,
            *(node for function in graph.library.function for node in function.node_def),
        ]
        self._products = [node for node in self._nodes if node.op in _PRODUCTS]

    def product_types(self):
        """Return a list of the `tf.DType` of the inputs of each convolution and matrix product in the graph.

        It has one item per operation, in the order of the graph.
        """
        return [tf.as_dtype(_type_of(node)) for node in self._products]

    def compiler(self):
        """Return `xla` if the graph has an operation that XLA must compile, else `none`."""
        return "xla" if any(node.attr["_XlaMustCompile"].b for node in self._nodes) else "none"

    def layout(self):
        """Return the layouts, `nchw` and `nhwc`, of the graph's convolutions, sorted and joined by `+`.

        The text is empty without convolutions.
        """
        layouts = {
            node.attr["data_format"].s.decode().lower() for node in self._products if node.op == "Conv2D"
        }
        return "+".join(sorted(layouts))


def _type_of(product):
    """Return the enum of the input type of a convolution or matrix product."""
    return product.attr["Ta" if product.op == "BatchMatMulV3" else "T"].type


def allows_tf32(device):
    """Return True if TensorFlow's present settings allow float32 products in TF32; False on a CPU.

    `device` is the kind of device, `cpu` or `cuda`.
    """
    return device == "cuda" and tf.config.experimental.tensor_float_32_execution_enabled()


@contextlib.contextmanager
def preserve_state(strategy, statistics):
    """Return a context manager at whose end the values of `statistics` are restored, in all replicas of this process.

    `statistics` is an iterable of variables that were made in the scope of `strategy`, a `tf.distribute.Strategy`.
    """
    copies = [copy for variable in statistics for copy in strategy.experimental_local_results(variable)]
    before = [copy.numpy() for copy in copies]
    try:
        yield
    finally:
        for copy, values in zip(copies, before):
            copy.assign(values)


@contextlib.contextmanager
def use_plain_fp32():
    """Return a context manager: in it, TensorFlow computes float32 products in full float32 width, without TF32."""
    before = tf.config.experimental.tensor_float_32_execution_enabled()
    tf.config.experimental.enable_tensor_float_32_execution(False)
    try:
        yield
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(before)
