"""State of an MXNet replica: parameters, batch norm's running means, the optimizer's moments and count.

The measuring loop reads it outside the window, and the canonical weights are set through it.
"""

import mxnet as mx

from dlperf_mxnet.worker.optimizers import arrays_of
from dlperf_mxnet.worker.parameters import convert_to_manifest_layout, convert_to_network_layout
from dlperf_sdk.worker.base_trainer import BaseTrainer


class ReplicaState(BaseTrainer):
    """The hooks of a trainer that read and set its state. Convolutions' weights are in the network's layout."""

    def assign(self, name, parameter, values):
        """Set a parameter on all devices to NumPy values in the manifest's layout."""
        parameter.set_data(mx.nd.array(convert_to_network_layout(values, self.layout)))

    def read_parameter(self, name, replica):
        """Return one replica's values of a parameter: float32, in the manifest's layout, C order."""
        return convert_to_manifest_layout(self.named[name].list_data()[replica].asnumpy(), self.layout)

    def running_means(self, replica):
        """Yield the name and the running mean, a NumPy array (channels,), of every batch norm of a replica."""
        for name, parameter in self.network._collect_params_with_prefix().items():
            if name.endswith("running_mean"):
                yield name, parameter.list_data()[replica].asnumpy()

    def moments(self, replica):
        """Yield the name and the NumPy values of each moment that the optimizer keeps for a replica."""
        for index, state in self.updates._updaters[replica].states.items():
            for number, values in enumerate(arrays_of(state)):
                yield "%s.%d" % (self.updates._params[index].name, number), values.asnumpy()

    def count_updates(self):
        """Return the number of updates that the optimizer counted."""
        return self.updates.optimizer.num_update
