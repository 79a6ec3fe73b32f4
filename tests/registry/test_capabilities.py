"""Refusals of what a framework's plugin does not offer: each says what to choose instead."""

import itertools
import re

import pytest

from dlperf_sdk import RunSpec
from dlperf_sdk.errors import Unsupported
from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.registry.capabilities import (
    VOCABULARY,
    check_capabilities,
    check_part,
    explain_missing_trace,
)
from dlperf_sdk.registry.options import split_options
from dlperf_sdk.registry.plugins import Registry

REGISTRY = Registry()
FRAMEWORKS = sorted(
    {"jax", "megengine", "mindspore", "mxnet", "oneflow", "paddle", "tensorflow", "tensorflow1"}
    | {"tensorpack", "torch", "numpy"}
)
NEXT_STEP = re.compile("choose|leave", re.IGNORECASE)
PAIR = {"topology": "1n2d", "batch_size": 4}


def refusal(framework, model="resnet50", **fields):
    """Return the message that refuses a case; None if its capabilities are accepted."""
    plugin, device = REGISTRY.framework(framework), fields.get("device", "cpu")
    spec = RunSpec(framework=framework, model=model, **PAIR | fields)
    try:
        check_capabilities(spec, device, plugin, REGISTRY.model(model))
    except Unsupported as error:
        return str(error)
    return None


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_each_value_that_a_plugin_lacks_is_refused_with_a_next_step(framework):
    for kind, values in VOCABULARY.items():
        for value in sorted(values):
            folder = ":folder" if kind == "data" and value.startswith(("images", "text")) else ""
            message = refusal(framework, **{kind: value + folder})
            assert message is None or NEXT_STEP.search(message), message
    missing = explain_missing_trace(REGISTRY.framework(framework))
    assert missing is None or NEXT_STEP.search(missing), missing


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_plugin_without_the_communication_alone_says_why(framework):
    plugin = REGISTRY.framework(framework)
    if "communication" in plugin.capabilities.parts:
        return
    with pytest.raises(
        Unsupported, match="cannot measure the part communication alone.* choose training and compute"
    ):
        check_part(RunSpec(framework=framework, model="resnet50", part="communication", **PAIR), plugin, ())


@pytest.mark.parametrize("framework", sorted(set(FRAMEWORKS) - {"numpy"}))
def test_a_plugin_without_the_option_nccl_says_why(framework):
    plugin = REGISTRY.framework(framework)
    spec = RunSpec(framework=framework, model="resnet50", options={"nccl": False}, **PAIR)
    if hasattr(plugin.Options(), "nccl"):
        assert split_options(spec, plugin)[0].nccl is False
        return
    with pytest.raises(
        Unsupported, match=f"{framework} does not offer the option nccl. .*leave the option nccl out"
    ):
        split_options(spec, plugin)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_each_combination_that_a_plugin_refuses_has_a_next_step(framework):
    plugin = REGISTRY.framework(framework)
    capabilities = plugin.capabilities
    for device, model, precision, compiler, layout, strategy, topology, accumulation in itertools.product(
        capabilities.devices,
        ("resnet50", "bert-base"),
        capabilities.precisions,
        capabilities.compilers,
        capabilities.layouts,
        capabilities.strategies,
        ("1n1d", "1n2d", "2n1d"),
        (1, 2),
    ):
        spec = RunSpec(
            framework=framework,
            model=model,
            device=device,
            precision=precision,
            compiler=compiler,
            layout=layout,
            strategy=strategy,
            topology=topology,
            accumulation=accumulation,
            batch_size=4,
        )
        reason = plugin.explain_refusal(spec, plugin.Options())
        assert reason is None or NEXT_STEP.search(reason), reason


@pytest.mark.parametrize(
    ("framework", "source", "advice"),
    [
        ("tensorflow1", "images-dali:folder", "Choose images:FOLDER."),
        ("jax", "zmq", "Choose synthetic or synthetic-host."),
        ("tensorpack", "images:folder", "choose python-queue or python-dataset."),
    ],
)
def test_instead_of_a_data_source_another_with_the_same_inputs_is_advised(framework, source, advice):
    assert refusal(framework, data=source).endswith(advice)


def test_the_trainer_of_a_model_may_support_less_than_the_framework():
    class Theirs(type(Registry().model("linear"))):
        name = "theirs"
        trainers = {"numpy": "dlperf_numpy.worker:Linear"}

        def explain_refusal(self, spec):
            return "theirs trains on one device only." if spec.topology.devices > 1 else None

    plugins = Registry({"models": {"theirs": Theirs}})
    assert make_plan(RunSpec(framework="numpy", model="theirs"), plugins).model_options
    with pytest.raises(Unsupported, match="theirs trains on one device only"):
        make_plan(RunSpec(framework="numpy", model="theirs", topology="1n2d"), plugins)
