"""gluon's parameters under the manifest's names, and the axes of convolutions' weights."""

import numpy as np


def convert_to_network_layout(values, layout):
    """Return values of the manifest with the axes of a network in this layout, `nchw` or `nhwc`.

    A convolution's OIHW becomes OHWI in `nhwc`; other values are unchanged.
    """
    return values.transpose(0, 2, 3, 1) if layout == "nhwc" and values.ndim == 4 else values


def convert_to_manifest_layout(values, layout):
    """Return NumPy values of a parameter of a network in this layout with the manifest's axes, in C order."""
    return np.ascontiguousarray(
        values.transpose(0, 3, 1, 2) if layout == "nhwc" and values.ndim == 4 else values
    )


def configure(parameters, request):
    """Set which parameters have weight decay, and if backward passes add to gradients or overwrite them.

    They add if the request accumulates micro-batches. `parameters` are gluon's, by the manifest's names.
    """
    for entry in request.parameters:
        parameters[entry["name"]].wd_mult = 1.0 if entry["decay"] else 0.0
    for parameter in parameters.values():
        parameter.grad_req = "add" if request.accumulation > 1 else "write"


def map_parameters(network):
    """Return gluon's trainable parameters of a network by the manifest's names; a shared parameter appears once."""
    renamed = {"gamma": "weight", "beta": "bias"}
    parameters, ids = {}, set()
    for path, parameter in network._collect_params_with_prefix().items():
        stem, _, last = path.rpartition(".")
        if parameter.grad_req != "null" and id(parameter) not in ids:
            parameters[(stem + "." if stem else "") + renamed.get(last, last)] = parameter
            ids.add(id(parameter))
    return parameters
