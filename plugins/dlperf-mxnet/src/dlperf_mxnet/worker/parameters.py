"""gluon's parameters under the manifest's names, and the axes of convolutions' weights."""

import numpy as np


def convert_to_network_layout(values, layout):
    """Convert a parameter's values from the manifest's axes to the network's axes, and return them.

    With the layout `nhwc`, a convolution's OIHW becomes OHWI; all other values are unchanged. The result may be a view.

    Args:
        values: NumPy array with the manifest's axes.
        layout: The network's layout, `nchw` or `nhwc`.
    """
    return values.transpose(0, 2, 3, 1) if layout == "nhwc" and values.ndim == 4 else values


def convert_to_manifest_layout(values, layout):
    """Convert a parameter's values from the network's axes to the manifest's axes, and return them in C order.

    This is the inverse of `convert_to_network_layout`: a convolution's axes become OIHW.

    Args:
        values: NumPy array with the network's axes.
        layout: The network's layout, `nchw` or `nhwc`.
    """
    return np.ascontiguousarray(
        values.transpose(0, 3, 1, 2) if layout == "nhwc" and values.ndim == 4 else values
    )


def configure(parameters, updated, request):
    """Set which parameters have weight decay, and whether a backward pass adds to the gradients or overwrites them.

    A backward pass adds to them if the request has several micro-batches per step.

    Args:
        parameters: Dict: a parameter's name in the manifest → gluon's parameter of the network.
        updated: Dict: a parameter's name in the manifest → gluon's parameter that the optimizer updates.
        request: The request; `parameters` and `accumulation` are read.
    """
    for entry in request.parameters:
        updated[entry["name"]].wd_mult = 1.0 if entry["decay"] else 0.0
    for parameter in parameters.values():
        parameter.grad_req = "add" if request.accumulation > 1 else "write"


def map_parameters(network):
    """Return the trainable parameters of `network`, a block of gluon: a dict from name in the manifest to parameter.

    They are in the order in which gluon lists them. A parameter that several layers share appears once, under its first
    name.
    """
    renamed = {"gamma": "weight", "beta": "bias"}
    parameters, ids = {}, set()
    for path, parameter in network._collect_params_with_prefix().items():
        stem, _, last = path.rpartition(".")
        if parameter.grad_req != "null" and id(parameter) not in ids:
            parameters[(stem + "." if stem else "") + renamed.get(last, last)] = parameter
            ids.add(id(parameter))
    return parameters
