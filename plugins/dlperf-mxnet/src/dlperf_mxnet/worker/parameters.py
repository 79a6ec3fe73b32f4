"""gluon's parameters under the manifest's names, and the axes of convolutions' weights."""

import numpy as np


def convert_to_network_layout(values, layout):
    """Return values of the manifest with the axes that a network of this layout has: a convolution's OIHW or OHWI."""
    return values.transpose(0, 2, 3, 1) if layout == "nhwc" and values.ndim == 4 else values


def convert_to_manifest_layout(values, layout):
    """Return a parameter's NumPy values in the manifest's layout, C order; `layout` is the network's."""
    return np.ascontiguousarray(
        values.transpose(0, 3, 1, 2) if layout == "nhwc" and values.ndim == 4 else values
    )


def configure(parameters, request):
    """Set which parameters decay, and whether micro-batches add to their gradients."""
    for entry in request.parameters:
        parameters[entry["name"]].wd_mult = 1.0 if entry["decay"] else 0.0
    for parameter in parameters.values():
        parameter.grad_req = "add" if request.accumulation > 1 else "write"


def map_parameters(network):
    """Return the network's trainable parameters by the manifest's names; a shared parameter appears once."""
    renamed = {"gamma": "weight", "beta": "bias"}
    parameters, ids = {}, set()
    for path, parameter in network._collect_params_with_prefix().items():
        stem, _, last = path.rpartition(".")
        if parameter.grad_req != "null" and id(parameter) not in ids:
            parameters[(stem + "." if stem else "") + renamed.get(last, last)] = parameter
            ids.add(id(parameter))
    return parameters
