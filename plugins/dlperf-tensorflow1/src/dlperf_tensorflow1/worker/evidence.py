"""Evidence for the settings in effect, from the operations in the graph that a session runs."""

import tensorflow.compat.v1 as tf

_PRODUCTS = frozenset({"Conv2D", "MatMul", "BatchMatMul", "BatchMatMulV2"})
_STRATEGIES = {
    "CollectiveReduce": "all_reduce",
    "HorovodAllreduce": "horovod",
    "ResourceAccumulatorApplyGradient": "parameter_server",
}


class GraphEvidence:
    """The operations of a graph on which given operations depend.

    Args:
        targets: List of the given operations, such as those of a training step; at least one, all of one graph.
    """

    def __init__(self, targets):
        names = [target.name for target in targets]
        definition = targets[0].graph.as_graph_def()
        self._nodes = tf.graph_util.extract_sub_graph(definition, names).node
        self._products = [node for node in self._nodes if node.op in _PRODUCTS]

    def product_types(self):
        """Return a list of the `tf.DType` of the inputs of each convolution and matrix product."""
        return [tf.as_dtype(node.attr["T"].type) for node in self._products]

    def layout(self):
        """Return the convolutions' layouts, `nchw` and `nhwc`, sorted and joined by `+`; None without convolutions."""
        layouts = {
            node.attr["data_format"].s.decode().lower() for node in self._products if node.op == "Conv2D"
        }
        return "+".join(sorted(layouts)) or None

    def strategy(self):
        """Return the name of the strategy whose operations the graph has; None without gradient synchronization.

        If it has operations of several strategies, their names are sorted and joined by `+`.
        """
        names = {_STRATEGIES[node.op] for node in self._nodes if node.op in _STRATEGIES}
        if "parameter_server" in names and self._renews_copies():
            names = names - {"parameter_server"} | {"distributed_replicated"}
        return "+".join(sorted(names)) or None

    def _renews_copies(self):
        """Return True if a trainer's variable is set to the value of a server's."""
        nodes = {node.name: node for node in self._nodes}
        for node in self._nodes:
            if node.op != "AssignVariableOp" or "/job:worker" not in node.device:
                continue
            source = nodes[node.input[1].split(":")[0]]
            while source.op == "Identity":
                source = nodes[source.input[0].split(":")[0]]
            if source.op == "ReadVariableOp" and "/job:ps" in source.device:
                return True
        return False


class StepRunner:
    """A function of fetches and a feed that runs operations of a step in a session, and returns the fetches' values.

    The first call also finds the compiler of the graph, and sets the attribute `compiler`.

    Args:
        session: The `tf.Session`.
    """

    def __init__(self, session):
        self._session = session
        self.compiler = None
        """`xla` if that graph runs clusters that XLA compiled, else `none`; None before the first run."""

    def __call__(self, fetches, feed):
        """Return the values of the fetches, as the session returns them."""
        if self.compiler is not None:
            return self._session.run(fetches, feed)
        metadata = tf.RunMetadata()
        values = self._session.run(fetches, feed, tf.RunOptions(output_partition_graphs=True), metadata)
        operations = {node.op for graph in metadata.partition_graphs for node in graph.node}
        self.compiler = "xla" if "_XlaRun" in operations else "none"
        return values
