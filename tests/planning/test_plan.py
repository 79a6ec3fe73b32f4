"""The planner: what it decides, and what it refuses, each in its own way."""

from __future__ import annotations

import json

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlperf_sdk import Capabilities, Framework, RunSpec
from dlperf_sdk.errors import PluginError, SpecError, Unavailable, UnknownName, Unsupported
from dlperf_sdk.launchers import local
from dlperf_sdk.launchers.local import Local
from dlperf_sdk.planning.plan import DEADLINES, Plan, make_plan
from dlperf_sdk.registry.capabilities import VOCABULARY, device_of
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.spec.compiler import Compiler
from dlperf_sdk.spec.data_source import DATA_SOURCES
from dlperf_sdk.spec.precision import PRECISIONS
from dlperf_sdk.spec.values import PHASES
from dlperf_sdk.worker.gpu import gpus
from dlperf_sdk.worker.processes import SERVICE, TRAINER, Cluster, Process, one_per_device

NumPy = type(Registry().framework("numpy"))
Linear = type(Registry().model("linear"))


def plan(framework="numpy", model="linear", registry=None, **fields):
    return make_plan(RunSpec(framework=framework, model=model, **fields), registry or Registry())


def with_framework(**attributes):
    """A registry with a framework `mine`: NumPy's with other attributes."""
    return Registry({"frameworks": {"mine": type("Mine", (NumPy,), {"name": "mine", **attributes})}})


# -- devices


@pytest.mark.parametrize(
    ("offered", "gpus_here", "chosen"),
    [
        ({"cpu"}, 8, "cpu"),
        ({"cpu", "cuda"}, 8, "cuda"),
        ({"cpu", "cuda"}, 0, "cpu"),
        ({"cuda"}, 0, "cuda"),
        ({"npu"}, 0, "npu"),
        ({"rocm", "cpu"}, 0, "cpu"),
    ],
)
def test_auto_is_a_gpu_where_there_is_one_and_it_can_be_used(monkeypatch, offered, gpus_here, chosen):
    monkeypatch.setattr(gpus, "list_gpus", lambda: [object()] * gpus_here)
    mine = with_framework(capabilities=Capabilities(devices=offered)).framework("mine")
    assert device_of("auto", mine) == chosen


def test_requested_device_is_used_without_detection():
    with pytest.raises(Unsupported, match="numpy does not offer the device 'cuda'; it offers cpu"):
        plan(device="cuda")


def test_too_many_gpus_are_unavailable(monkeypatch):
    monkeypatch.setattr(gpus, "list_gpus", lambda: [object()] * 2)
    registry = with_framework(
        capabilities=Capabilities(devices={"cpu", "cuda"}, strategies={"all_reduce"}, data={"synthetic"})
    )
    assert plan("mine", registry=registry, topology="1n2d").device == "cuda"
    with pytest.raises(Unavailable, match="2n2d needs 4 CUDA devices, and this machine has 2"):
        plan("mine", registry=registry, topology="2n2d")


def test_too_many_npus_are_unavailable(monkeypatch, tmp_path):
    monkeypatch.setattr(local, "_NPU_FOLDER", tmp_path)
    registry = with_framework(
        capabilities=Capabilities(devices={"cpu", "npu"}, strategies={"all_reduce"}, data={"synthetic"})
    )
    with pytest.raises(Unavailable, match=r"1n1d needs 1 NPU, and this machine has none\. .* --device cpu"):
        plan("mine", registry=registry, device="npu")
    for name in ("davinci0", "davinci1", "davinci_manager"):
        (tmp_path / name).touch()
    assert plan("mine", registry=registry, device="npu", topology="1n2d").device == "npu"
    with pytest.raises(Unavailable, match="2n2d needs 4 NPUs, and this machine has 2"):
        plan("mine", registry=registry, device="npu", topology="2n2d")


@pytest.mark.parametrize("topology", ["999999n999999d", "1n999999d", "999999n1d"])
def test_a_slip_of_the_pen_does_not_start_a_million_workers(topology):
    with pytest.raises(Unavailable, match="workers per core"):
        plan(topology=topology)


@pytest.mark.parametrize("topology", ["999999n999999d@slurm", "1n100001d@slurm"])
def test_a_case_of_too_many_devices_is_refused_before_its_processes_are_laid_out(topology, monkeypatch):
    monkeypatch.setattr(Plan, "placeholder_processes", lambda self: pytest.fail("laid out"))
    with pytest.raises(SpecError, match="devices; a case may have at most 100,000"):
        plan(topology=topology)


# -- capabilities


@pytest.mark.parametrize(
    ("field", "kind", "offered"),
    [
        ("precision", "precision", "amp-bf16"),
        ("compiler", "compiler", "xla"),
        ("strategy", "strategy", "horovod"),
        ("layout", "layout", "nhwc"),
        ("data", "data source", "synthetic-host"),
    ],
)
def test_value_of_another_plugin_is_unsupported_and_any_other_unknown(field, kind, offered):
    with pytest.raises(Unsupported, match=f"numpy does not offer the {kind} '{offered}'; it offers"):
        plan(topology="1n2d", **{field: offered})
    with pytest.raises(UnknownName, match="Did you mean") as caught:
        plan(topology="1n2d", **{field: offered + "x"})
    assert offered in caught.value.known


def test_a_plugin_may_say_why_it_lacks_something():
    registry = with_framework(unsupported={"nhwc": "Its convolutions are wrong there."})
    with pytest.raises(Unsupported, match=r"'nhwc'; it offers auto\. Its convolutions are wrong there\.$"):
        plan("mine", registry=registry, layout="nhwc")
    with pytest.raises(Unsupported, match=r"'nchw'; it offers auto\. Choose auto\.$"):
        plan("mine", registry=registry, layout="nchw")


@pytest.mark.parametrize(("model", "source"), [("resnet50", "images"), ("bert-base", "text")])
def test_folder_of_a_data_source_is_required(model, source):
    with pytest.raises(SpecError, match=f"data is '{source}'; name the folder .*{source}:FOLDER"):
        plan("torch", model, data=source)
    assert plan("torch", model, data=f"{source}:here").spec.data.path == "here"
    with pytest.raises(Unsupported, match="numpy does not offer the data source"):
        plan(data=f"{source}:here")


@pytest.mark.parametrize(
    ("field", "declared", "kind"),
    [
        ("compiler", Compiler(name="special", help="A compiler of the plugin's own."), "compilers"),
        ("device", "special", "devices"),
    ],
)
def test_a_plugin_may_declare_compilers_and_devices_of_its_own(field, declared, kind):
    registry = with_framework(capabilities=attrs.evolve(NumPy.capabilities, **{kind: {declared}}))
    plan("mine", registry=registry, **{field: "special"})
    with pytest.raises(UnknownName, match=f"There is no {field} named 'special'"):
        plan(**{field: "special"})


@pytest.mark.parametrize(
    ("kind", "name", "near"),
    [
        ("precisions", "amp-fp61", "amp-fp16"),
        ("compilers", "inducter", "inductor"),
        ("strategies", "allreduce", "all_reduce"),
        ("layouts", "nhcw", "nhwc"),
        ("data", "image", "images"),
    ],
)
def test_plugin_cannot_declare_unknown_values(kind, name, near):
    with pytest.raises(UnknownName, match=f"Did you mean '{near}'"):
        Capabilities(**{kind: {name}})


@pytest.mark.parametrize(
    "kind", ["devices", "precisions", "compilers", "strategies", "layouts", "data", "parts"]
)
def test_a_text_is_not_taken_for_names_of_one_letter(kind):
    with pytest.raises(TypeError, match="one text instead of several names; write {'cpu'}"):
        Capabilities(**{kind: "cpu"})


@pytest.mark.parametrize("strategy", sorted(VOCABULARY["strategy"]))
def test_one_replica_needs_no_exchange(strategy):
    assert plan(strategy=strategy).spec.strategy == strategy


def test_even_one_replica_needs_a_known_strategy():
    with pytest.raises(UnknownName, match="Did you mean 'horovod'"):
        plan(strategy="horovood")


@pytest.mark.parametrize("word", ["gpu", "nvidia"])
def test_common_names_of_cuda_devices_are_accepted(word):
    with pytest.raises(UnknownName, match="Did you mean 'cuda'"):
        plan(device=word)


def test_accumulation_must_be_declared():
    with pytest.raises(Unsupported, match="accumulation"):
        plan(accumulation=2)
    base = attrs.asdict(NumPy.capabilities)
    registry = with_framework(capabilities=Capabilities(**{**base, "accumulation": True}))
    assert plan("mine", registry=registry, accumulation=2).spec.accumulation == 2


@pytest.mark.parametrize("framework", ["torch", "tensorflow", "mxnet"])
def test_nccl_is_refused_on_a_device_without_it(framework):
    for nccl in (True, False):
        with pytest.raises(Unsupported, match="There is no NCCL on cpu; leave the option nccl out"):
            plan(framework, "resnet50", topology="1n2d", device="cpu", options={"nccl": nccl})
    plan(framework, "resnet50", topology="1n2d", device="cpu")


def test_a_version_of_python_that_the_plugin_does_not_accept_is_refused():
    with pytest.raises(
        Unsupported, match=r'--python 3\.12: torch requested "Python >=3\.11,<3\.12"\. Name a'
    ):
        plan("torch", "resnet50", strategy="horovod", topology="1n2d", device="cpu", python="3.12")
    # Nothing is synchronized on one device, and in a container `python` is a command.
    plan("torch", "resnet50", strategy="horovod", topology="1n1d", device="cpu", python="3.12")
    plan("torch", "resnet50", device="cpu", python="3.9", container="podman:image")


def test_a_framework_refuses_a_combination_in_its_own_words():
    observed = []

    def explain_refusal(self, spec, options):
        observed.append(spec)
        assert isinstance(options, self.Options)
        return "amp needs a GPU."

    with pytest.raises(Unsupported, match="amp needs a GPU"):
        plan("mine", registry=with_framework(explain_refusal=explain_refusal))
    assert observed == [RunSpec(framework="mine", model="linear", device="cpu")]  # and no longer `auto`


def test_a_model_without_images_has_no_layout_to_choose():
    registry = with_framework(capabilities=Capabilities(layouts={"auto", "nhwc"}))
    with pytest.raises(Unsupported, match="linear has no images .* nhwc; leave the layout at auto"):
        plan("mine", registry=registry, layout="nhwc")


def test_tf32_is_a_mode_of_one_kind_of_device(monkeypatch):
    can = Capabilities(devices={"cpu", "cuda"}, precisions={"fp32", "tf32", "amp-bf16"})
    registry = with_framework(capabilities=can)
    with pytest.raises(
        Unsupported, match="tf32 exists on cuda only, and the device is cpu; choose .*amp-bf16, fp32"
    ):
        plan("mine", registry=registry, precision="tf32", device="cpu")
    monkeypatch.setattr(Local, "unavailable_reason", lambda *_: None)
    assert plan("mine", registry=registry, precision="tf32", device="cuda").spec.precision == "tf32"


# -- trainers


def test_unsupported_pair_is_refused():
    with pytest.raises(
        Unsupported,
        match=r"numpy has no implementation of resnet50: .* implements linear, softmax; choose one",
    ):
        plan(model="resnet50")


def test_a_model_may_bring_the_trainer():
    class Mine(Linear):
        name = "mine"
        trainers = {"numpy": "dlperf_faulty.worker:Linear"}

    registry = Registry({"models": {"mine": Mine}})
    assert plan(model="mine", registry=registry).trainer == "dlperf_faulty.worker:Linear"
    with pytest.raises(Unsupported, match="numpy implements linear, mine, softmax; choose one"):
        plan(model="resnet50", registry=registry)


def test_a_broken_model_does_not_hide_the_others_in_a_refusal():
    registry = Registry({"models": {"mine": type("Mine", (Linear,), {"name": "mine", "trainers": None})}})
    with pytest.raises(Unsupported, match="numpy implements linear, softmax; choose one"):
        plan(model="resnet50", registry=registry)


# -- data sources


def test_only_data_sources_that_framework_and_model_have_are_advised(tmp_path):
    sources = {"synthetic", "synthetic-host", "images"}
    registry = with_framework(capabilities=Capabilities(data=sources))
    with pytest.raises(Unsupported, match="nothing to measure; choose one of synthetic-host\\."):
        plan("mine", registry=registry, part="input")
    with pytest.raises(
        Unsupported, match="cannot be fed from 'images'; choose one of synthetic, synthetic-host\\."
    ):
        plan("mine", registry=registry, data=f"images:{tmp_path}")
    registry = with_framework(capabilities=Capabilities())
    with pytest.raises(Unsupported, match="nothing to measure; choose another part\\."):
        plan("mine", registry=registry, part="input")


@pytest.mark.parametrize(("word", "near"), [("bf16", "amp-bf16"), ("amp", "amp-fp16")])
def test_short_names_of_precisions_are_understood(word, near):
    with pytest.raises(UnknownName, match=f"Did you mean '{near}'"):
        plan(precision=word)


# -- options


def test_options_go_to_whom_they_belong():
    actual = plan("faulty", options={"features": 4, "fault": "nan"})
    assert actual.model_options == {"features": 4, "learning_rate": 0.1}
    assert actual.framework_options == {"fault": "nan", "rank": 0, "sample_bytes": 0}
    assert actual.parameters[0]["shape"] == [1, 4]


def test_an_unknown_option():
    with pytest.raises(
        UnknownName, match=r"option of linear or faulty named 'featurs'\. Did you mean 'features'"
    ):
        plan("faulty", options={"featurs": 4})


@pytest.mark.parametrize(
    ("options", "output"),
    [
        (
            {"features": "many"},
            r"features of linear is 'many'; its default is 16, so it must be a whole number",
        ),
        ({"features": 1.5}, "must be a whole number"),
        ({"features": True}, "must be a whole number"),
        ({"learning_rate": "fast"}, "must be a number"),
        ({"learning_rate": False}, "must be a number"),
        ({"fault": 3}, "must be a text"),
    ],
)
def test_option_of_the_wrong_type_is_refused(options, output):
    with pytest.raises(SpecError, match=output):
        plan("faulty", options=options)


def test_a_whole_number_is_a_number():
    assert plan(options={"learning_rate": 1}).model_options["learning_rate"] == 1


@pytest.mark.parametrize("error", [ValueError("too small"), TypeError("too small")])
def test_invalid_option_values_are_refused(error):
    def check(_, __, value):
        raise error

    @attrs.frozen
    class Options:
        size: int = attrs.field(default=1, validator=check)

    with pytest.raises(SpecError, match=r"The options size=3 do not fit mine: too small"):
        plan("mine", registry=with_framework(Options=Options), options={"size": 3})


def test_both_sides_declare_one_option():
    @attrs.frozen
    class Options:
        features: int = 1

    with pytest.raises(SpecError, match="linear and mine both declare the option 'features'"):
        plan("mine", registry=with_framework(Options=Options))


# -- the plan as a value


def test_processes_with_placeholders():
    processes = plan("faulty", topology="2n2d").placeholder_processes()
    assert [(one.role, one.node, one.rank) for one in processes] == [
        (SERVICE, 0, None),
        (TRAINER, 0, 0),
        (TRAINER, 0, 1),
        (TRAINER, 1, 2),
        (TRAINER, 1, 3),
    ]
    assert [one.replicas for one in processes[1:]] == [(0,), (1,), (2,), (3,)]


def test_a_data_source_may_bring_senders_and_packages():
    planned = plan(topology="2n1d", data="zmq")
    senders = [one for one in planned.placeholder_processes() if one.role == SERVICE]
    assert [(one.node, one.feeds, one.target) for one in senders] == [
        (0, 0, DATA_SOURCES["zmq"].sender),
        (1, 1, DATA_SOURCES["zmq"].sender),
    ]
    assert {*DATA_SOURCES["zmq"].requirements} <= {*planned.environment.requirements}
    without = plan(topology="2n1d", data="python-queue")
    assert without.batch_sender is None
    assert not {*DATA_SOURCES["zmq"].requirements} & {*without.environment.requirements}


def _one_per_node(cluster: Cluster) -> list[Process]:
    """The whole node's devices in one process, where the plugin's option says so."""
    if not cluster.options["whole_nodes"]:
        return one_per_device(cluster)
    everyone = [range(len(node.devices)) for node in cluster.nodes]
    return [Process(TRAINER, i, {}, tuple(own), tuple(own), i) for i, own in enumerate(everyone)]


def test_the_frameworks_options_reach_the_layout_of_processes():
    @attrs.frozen
    class Options:
        whole_nodes: bool = False

    registry = with_framework(Options=Options, processes=f"{__name__}:_one_per_node")
    for chosen, expected in (({}, [(0,), (1,)]), ({"whole_nodes": True}, [(0, 1)])):
        processes = plan("mine", registry=registry, topology="1n2d", options=chosen).placeholder_processes()
        assert [process.devices for process in processes] == expected


def test_only_the_plugin_defines_worker_identity():
    with pytest.raises(SpecError, match="The variable RANK is set by the plugin for each worker of torch"):
        plan("torch", "resnet50", topology="1n2d", env={"NCCL_DEBUG": "INFO", "RANK": "3"})


@pytest.mark.parametrize("processes", ["no_such_module:layout", "json:no_such_thing", "json:loads"])
def test_a_plugin_that_cannot_lay_out_its_processes_fails_before_anything_starts(processes):
    with pytest.raises(
        PluginError, match=r"mine's plugin \(given at run time\) cannot lay out the processes of 1n2d"
    ):
        plan("mine", registry=with_framework(processes=processes), topology="1n2d")


def broken(*_):
    raise KeyError("what it needs")


@pytest.mark.parametrize("method", ["environment", "explain_refusal"])
def test_a_framework_that_raises_is_a_plugin_that_does_not_work(method):
    with pytest.raises(PluginError, match=r"mine's plugin .* cannot judge the case: KeyError.* line \d+"):
        plan("mine", registry=with_framework(**{method: broken}))


@pytest.mark.parametrize("method", ["parameters", "inputs", "optimizer", "flops"])
def test_a_model_that_raises_is_a_plugin_that_does_not_work(method):
    models = {
        "mine": type(
            "Mine", (Linear,), {"name": "mine", "trainers": {"numpy": "never:Reached"}, method: broken}
        )
    }
    with pytest.raises(
        PluginError, match=r"mine's plugin .* cannot describe itself with .*'features': 16.*KeyError"
    ):
        plan(model="mine", registry=Registry({"models": models}))


@pytest.mark.parametrize("method", ["validate_options", "unavailable_reason"])
def test_a_launcher_that_raises_is_a_plugin_that_does_not_work(method):
    launchers = {"mine": type("Mine", (Local,), {"name": "mine", method: broken})}
    with pytest.raises(PluginError, match="mine's plugin .* cannot place 1n1d@mine: KeyError"):
        plan(topology="1n1d@mine", registry=Registry({"topologies": launchers}))


def test_a_framework_without_a_device_offers_nothing():
    with pytest.raises(Unsupported, match="mine does not offer the device 'cpu'; it offers nothing"):
        plan("mine", registry=with_framework(capabilities=Capabilities(devices=())))


@given(
    st.sampled_from(["1n1d", "1n2d", "2n3d"]),
    st.integers(1, 64),
    st.fixed_dictionaries({}, optional={"features": st.integers(1, 9), "learning_rate": st.floats(0, 1)}),
    st.dictionaries(st.sampled_from(PHASES), st.floats(0.1, 1e6)),
)
def test_a_plan_is_plain_and_the_same_every_time(topology, batch_size, options, deadlines):
    fields = {"topology": topology, "batch_size": batch_size, "options": options, "deadlines": deadlines}
    first, second = plan("faulty", **fields), plan("faulty", **fields)
    text = json.dumps(first.to_dict(), allow_nan=False)
    assert text == json.dumps(second.to_dict(), allow_nan=False)
    read = json.loads(text)
    assert RunSpec.from_dict(read["spec"]) == first.spec
    assert read["workload"]["global_batch_size"] == batch_size * first.spec.topology.devices
    assert read["deadlines"] == {**DEADLINES, **deadlines}
    assert len(read["processes"]) == first.spec.topology.devices + 1


def test_request_contains_the_whole_case():
    spec = RunSpec(
        framework="numpy", model="linear", topology="2n1d", batch_size=8, env={"A": "1", "B": None}
    )
    request = make_plan(spec, Registry()).request("case", ("python",), spec.env, {"source": "synthetic"})
    assert (request.nodes, request.devices_per_node, request.batch_size) == (2, 1, 8)
    assert request.variables == {"A": "1", "B": None}
    assert request.protocol == {
        "name": "dlperf-v1",
        "warmup": 20,
        "steps": 100,
        "repeats": 7,
        "max_repeats": 7,
        "target": None,
        "canonical_steps": 5,
    }
    assert set(request.deadlines) == set(PHASES)
    assert type(request).from_json(json.dumps(request.to_dict())) == request
    for text in ("[]", "{", "[" * 100_000):
        with pytest.raises(ValueError):
            type(request).from_json(text)


def test_workers_get_the_loss_scaling_that_the_precision_declares():
    ours = plan()
    for precision in PRECISIONS:
        case = attrs.evolve(ours, spec=attrs.evolve(ours.spec, precision=precision.name))
        request = case.request("case", ("python",), {}, {"source": "synthetic"})
        assert (request.scales_loss, request.loss_scale) == (precision.scales_loss, precision.loss_scale)


def test_the_framework_is_never_imported(monkeypatch):
    """A plan is made where nothing but the controller half can be imported."""
    assert issubclass(NumPy, Framework)
    monkeypatch.setitem(__import__("sys").modules, "dlperf_numpy.worker", None)
    assert plan().runtime == "dlperf_numpy.worker:Runtime"


def test_a_strategy_without_effect_needs_no_packages():
    """On one device, and where replicas train alone, Horovod is not built."""
    registry = Registry()
    fields = {"framework": "torch", "model": "resnet50", "strategy": "horovod", "device": "cpu"}
    one, two = (make_plan(RunSpec(**fields, topology=shape), registry) for shape in ("1n1d", "1n2d"))
    assert not one.environment.source_builds
    assert two.environment.source_builds
