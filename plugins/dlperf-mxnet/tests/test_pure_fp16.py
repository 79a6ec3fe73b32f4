"""fp16: weights, activations and gradients in float16, and float32 weights that the optimizer updates.

A CPU has no convolutions and matrix products in float16: what is looked at is the graph's types, and the update.
"""

import json

import numpy as np
import pytest

mx = pytest.importorskip("mxnet", reason="the worker half needs MXNet, which is not in this environment")
from dlperf_mxnet.worker import evidence  # noqa: E402
from dlperf_mxnet.worker.master_weights import to_float32  # noqa: E402

PRODUCTS = ("Convolution", "FullyConnected", "batch_dot")
MODELS = pytest.mark.parametrize("model", ["resnet50", "bert-base"])


def graph_of(trainer):
    """Return the network's graph, and the type of each array in it by name."""
    shapes = {name: values.shape for name, values in trainer.canonical_batch()[0].items()}
    inputs = {name: mx.sym.var(name, shape=shape, dtype="float32") for name, shape in shapes.items()}
    outputs = mx.sym.Group(list(trainer.outputs(trainer.network, inputs)))
    internals = outputs.get_internals()
    _, types, _ = internals.infer_type()
    return outputs, dict(zip(internals.list_outputs(), types, strict=True))


@MODELS
def test_products_are_in_float16_and_batch_norm_has_float32_parameters(make_trainer, model):
    trainer = make_trainer(model, precision="fp16")
    outputs, types = graph_of(trainer)
    nodes = [node for node in json.loads(outputs.tojson())["nodes"] if node["op"] in PRODUCTS]
    assert len(nodes) > 10
    assert {types[node["name"] + "_output"] for node in nodes} == {np.float16}
    assert {types[name] for name in outputs.list_outputs()} == {np.float16}
    statistics = [dtype for name, dtype in types.items() if name.endswith(("running_mean", "running_var"))]
    assert all(dtype == np.float32 for dtype in statistics)
    assert len(statistics) == (106 if model == "resnet50" else 0)
    assert evidence.weight_types(trainer.trained) == {"float16"}


@MODELS
def test_the_optimizer_updates_float32_weights_with_gradients_divided_by_the_loss_scale(make_trainer, model):
    """Each update is that of fp32 with the same gradients, of which float16 holds 128 times as much."""
    pure, plain = (make_trainer(model, precision=precision) for precision in ("fp16", "fp32"))
    names = [entry["name"] for entry in pure.request.parameters]
    for (_, values), (name, expected) in zip(pure.parameters(0), plain.parameters(0), strict=True):
        np.testing.assert_array_equal(values, expected, err_msg=name)
    chance = np.random.RandomState(0)
    for rate in (0.1, 0.2):
        for narrow, wide in zip(pure.trained, plain.trained, strict=True):
            gradient = chance.standard_normal(narrow.shape).astype(np.float16)
            narrow.grad()[:] = mx.nd.array(gradient, dtype=narrow.dtype)
            wide.grad()[:] = mx.nd.array(gradient.astype(np.float32) / 128)
        for trainer in (pure, plain):
            for parameter in trainer.trained:
                parameter.data()._fresh_grad = True  # as after a backward pass
            trainer.set_learning_rate(rate)
            trainer.update()
    before = dict(make_trainer(model).parameters(0))
    for (name, values), (_, expected) in zip(pure.parameters(0), plain.parameters(0), strict=True):
        np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-6, err_msg=name)
        assert not np.array_equal(values, before[name])
    for name, parameter in zip(names, pure.trained, strict=True):
        master = pure.masters.named[name].data().asnumpy()
        np.testing.assert_array_equal(
            parameter.data().asnumpy(), master.astype(parameter.dtype), err_msg=name
        )
    pure.reset()
    for name, values in pure.parameters(0):
        np.testing.assert_array_equal(values, before[name], err_msg=name)


def test_the_loss_is_computed_in_float32():
    narrow, wide = (mx.nd.ones((2, 3), dtype=dtype) for dtype in ("float16", "float32"))
    assert [value.dtype for value in to_float32([narrow, wide])] == [np.float32] * 2
