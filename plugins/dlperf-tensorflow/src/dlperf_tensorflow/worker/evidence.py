"""What was in effect: read from the graph that was run, and how far its outputs are from plain fp32's."""

import contextlib

import numpy as np
import tensorflow as tf

_PRODUCTS = frozenset({"Conv2D", "MatMul", "BatchMatMulV2", "BatchMatMulV3"})


class Seen:
    """The graph of a traced function, and those of all functions that it calls."""

    def __init__(self, graph):
        graph = graph.as_graph_def()
        self._nodes = [
            *graph.node,
            *(node for function in graph.library.function for node in function.node_def),
        ]
        self._products = [node for node in self._nodes if node.op in _PRODUCTS]

    def precision(self, device):
        """The types of products under the names of precisions; several are joined, and then none was in effect."""
        names = {"float16": "amp-fp16", "bfloat16": "amp-bf16", "float32": fp32_mode(device)}
        types = {tf.as_dtype(_type_of(node)).name for node in self._products}
        return "+".join(sorted(names.get(name, name) for name in types))

    def compiler(self):
        """`xla` if XLA must compile any of it."""
        return "xla" if any(node.attr["_XlaMustCompile"].b for node in self._nodes) else "none"

    def layout(self):
        """How images lie in memory; empty where nothing is convolved."""
        layouts = {
            node.attr["data_format"].s.decode().lower() for node in self._products if node.op == "Conv2D"
        }
        return "+".join(sorted(layouts))


def _type_of(product):
    """The enum of the type that a convolution or matrix product takes."""
    return product.attr["Ta" if product.op == "BatchMatMulV3" else "T"].type


def fp32_mode(device):
    """What float32 arithmetic is on this kind of device now."""
    allowed = tf.config.experimental.tensor_float_32_execution_enabled()
    return "tf32" if device == "cuda" and allowed else "fp32"


@contextlib.contextmanager
def undisturbed(strategy, statistics):
    """The variables `statistics`, every replica's copy of them, are put back at the end."""
    copies = [copy for variable in statistics for copy in strategy.experimental_local_results(variable)]
    before = [copy.numpy() for copy in copies]
    try:
        yield
    finally:
        for copy, values in zip(copies, before):
            copy.assign(values)


@contextlib.contextmanager
def plain_fp32():
    """float32 arithmetic in the full width of float32."""
    before = tf.config.experimental.tensor_float_32_execution_enabled()
    tf.config.experimental.enable_tensor_float_32_execution(False)
    try:
        yield
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(before)


def apart(values, references):
    """‖y - y32‖ / ‖y32‖ over all outputs of all replicas of this process."""
    difference = whole = 0.0
    for y, y32 in zip(values, references):
        wide, wide32 = y.numpy().astype(np.float64), y32.numpy().astype(np.float64)
        difference, whole = difference + np.square(wide - wide32).sum(), whole + np.square(wide32).sum()
    return float((difference / whole) ** 0.5)
