"""State of an MXNet replica: parameters, batch norm's running means, the optimizer's moments and count.

The measuring loop reads it outside the window, and the canonical weights are set through it.
"""

import mxnet as mx

from dlperf_mxnet.worker.master_weights import MasterWeights
from dlperf_mxnet.worker.optimizers import arrays_of
from dlperf_mxnet.worker.parameters import (
    convert_to_manifest_layout,
    convert_to_network_layout,
    map_parameters,
)
from dlperf_sdk.worker.base_trainer import BaseTrainer


class ReplicaState(BaseTrainer):
    """The part of MXNet's trainers that reads and sets the replicas' state.

    Convolutions' weights are OIHW in the layout `nchw` and OHWI in `nhwc`; other parameters have the manifest's
    layout.
    """

    def place_network(self, contexts, dtype):
        """Return the model's network on the devices `contexts`, with the canonical weights in the type `dtype`.

        `contexts` is a list of MXNet's devices, and `dtype` the name of a type. The attribute `masters` is set to the
        float32 weights of this network.

        Raises:
            ManifestError: The network and the manifest have different parameters.
        """
        network = self.build(self.request.model_options)
        network.initialize(ctx=contexts)
        network.cast(dtype)
        self.masters = MasterWeights(map_parameters(network))
        self.load_canonical_weights(self.masters.named)
        return network

    def load_canonical_weights(self, parameters):
        """Set `parameters` to the canonical weights, and round them into the network.

        `parameters` is a dict: a name in the manifest → gluon's float32 parameter that the optimizer updates.

        Raises:
            ManifestError: The network and the manifest have different parameters.
            ValueError: The manifest has an unknown kind of `init`.
        """
        super().load_canonical_weights(parameters)
        self.masters.round_into_network()

    def assign(self, name, parameter, values):
        """Set a parameter to `values` in every replica of this process.

        `name` is the parameter's name in the manifest, and `parameter` the network's parameter. `values` is a float32
        NumPy array in C order, in the manifest's layout: convolutions OIHW, linear layers (out, in).
        """
        parameter.set_data(mx.nd.array(convert_to_network_layout(values, self.layout)))

    def read_parameter(self, name, replica):
        """Return the values of one replica's parameter: a float32 NumPy array in the manifest's layout, in C order.

        `name` is the parameter's name in the manifest; `replica` is the replica's index within this process, from 0.
        """
        parameter = self.masters.named[name]
        return convert_to_manifest_layout(parameter.list_data()[replica].asnumpy(), self.layout)

    def running_means(self, replica):
        """Yield (name, running mean) for each batch norm of a replica; nothing if the model has none.

        A name is the layer's in the manifest with `.running_mean` appended. A mean is a float32 NumPy array
        (channels,). `replica` is the replica's index within this process, from 0.
        """
        for name, parameter in self.network._collect_params_with_prefix().items():
            if name.endswith("running_mean"):
                yield name, parameter.list_data()[replica].asnumpy()

    def moments(self, replica):
        """Yield (name, values) for each of the optimizer's moments of a replica; `values` is a NumPy array.

        A name is PARAMETER.NUMBER: gluon's name of the parameter, and the number of the moment, from 0. Values have the
        layout of the network's parameters. `replica` is the replica's index within this process, from 0.
        """
        for index, state in self.updates._updaters[replica].states.items():
            for number, values in enumerate(arrays_of(state)):
                yield "%s.%d" % (self.updates._params[index].name, number), values.asnumpy()

    def count_updates(self):
        """Return the number of updates that the optimizer has counted; skipped updates do not count."""
        return self.updates.optimizer.num_update
