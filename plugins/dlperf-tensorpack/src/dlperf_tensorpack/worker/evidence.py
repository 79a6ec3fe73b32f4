"""Evidence for gradient synchronization, from the operations that update the weights."""

from dlperf_tensorflow1.worker.evidence import GraphEvidence

from dlperf_tensorpack.worker.model import name_in_tower

_UPDATES = frozenset({"ResourceApplyAdam", "ResourceApplyMomentum"})


class TowerEvidence(GraphEvidence):
    """The operations of a step, and the towers on which each update of the weights depends.

    Args:
        targets: List of the operations of a step; at least one, all of one graph.
        outputs: List with one item per tower: the sequence of the tower's logits, a tensor per head.
    """

    def __init__(self, targets, outputs):
        super().__init__(targets)
        self._graph, self._outputs = targets[0].graph, outputs

    def strategy(self):
        """Return the strategy by which the updates use the gradients of all towers; None if there is one tower.

        A tower is one replica's part of the graph. The strategy is `all_reduce` if each tower has its own weights, and
        `parameter_server` if all towers share them.

        Raises:
            ValueError: An update does not depend on all towers.
            KeyError: Some towers share their weights and others do not.
        """
        names = {node.name for node in self._nodes if node.op in _UPDATES}
        if len(self._outputs) == 1:
            return None
        for outputs in self._outputs:
            missing = names - _find_dependents(outputs)
            if missing:
                raise ValueError("updates do not depend on all towers: %s" % ", ".join(sorted(missing)[:3]))
        variables = {self._graph.get_operation_by_name(name).inputs[0] for name in names}
        copies = len(variables) / len({name_in_tower(variable) for variable in variables})
        return {len(self._outputs): "all_reduce", 1: "parameter_server"}[copies]


def _find_dependents(tensors):
    """Return the names of all operations that depend on one of some tensors."""
    names, pending = set(), list(tensors)
    while pending:
        for operation in pending.pop().consumers():
            if operation.name not in names:
                names.add(operation.name)
                pending.extend(operation.outputs)
    return names
