"""What is asked: what can be written comes back the same, what is impossible is refused with advice."""

import json
import math

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from result_values import NAMES, specs

from dlperf_sdk.campaigns.campaign import digest
from dlperf_sdk.errors import DocumentError, SpecError, UnknownName
from dlperf_sdk.execution.facts import facts_of
from dlperf_sdk.spec.identity import case_key, identity
from dlperf_sdk.spec.protocol import PROTOCOLS, Protocol
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.spec.values import DataSpec, TopologySpec

NODES = st.integers(1, 999_999)


def spec(**fields):
    return RunSpec(**{"framework": "torch", "model": "resnet50", **fields})


# -- what can be written comes back


@given(NODES, NODES, NAMES)
def test_a_topology_comes_back(nodes, devices, launcher):
    topology = TopologySpec(nodes, devices, launcher)
    assert TopologySpec.parse(str(topology)) == topology
    assert topology.devices == nodes * devices


@given(NAMES, st.none() | st.text(st.characters(exclude_characters="\0"), min_size=1))
def test_a_data_source_comes_back(source, path):
    data = DataSpec(source, path)
    assert DataSpec.parse(str(data)) == data


@settings(deadline=None)
@given(specs())
def test_a_spec_comes_back(one):
    assert RunSpec.from_dict(one.to_dict()) == one
    assert attrs.evolve(one) == one
    assert json.loads(json.dumps(one.to_dict(), allow_nan=False)) == one.to_dict()


@settings(deadline=None)
@given(specs())
def test_a_protocol_follows_from_every_spec(one):
    protocol = one.resolved_protocol()
    assert protocol.max_repeats >= protocol.repeats >= 1
    assert (protocol.target is None) == (PROTOCOLS[one.protocol].target is None)
    if protocol.target is None:
        assert protocol.max_repeats == protocol.repeats
    for name in ("warmup", "steps", "repeats", "target"):
        requested = getattr(one, name)
        assert getattr(protocol, name) == (
            getattr(PROTOCOLS[one.protocol], name) if requested is None else requested
        )


@given(st.text() | st.from_regex(r"[0-9x]+n[0-9]+d(@.*)?"))
def test_any_text_is_a_topology_or_a_spec_error(text):
    try:
        assert str(TopologySpec.parse(text)) == text.removesuffix("@local")
    except SpecError as error:
        assert "4n8d@slurm" in str(error)


@given(st.text())
def test_any_text_is_a_data_source_or_a_spec_error(text):
    try:
        assert str(DataSpec.parse(text)) == text
    except SpecError as error:
        assert "images:FOLDER" in str(error)


# -- what cannot be


@pytest.mark.parametrize(
    "text",
    [
        *("0n1d", "1n0d", "2x8", "", "1n1d@", "1n1d@Slurm", "01n1d", "-1n1d", "1n1d ", "1n1d\n", "1N1D"),
        *("1000000n1d", "１n1d", "1n1d@a b", "1n1d@../x", "1n1d@@local"),
        *(None, 1, 1.5, True, b"1n1d", ["1n1d"], (1, 1)),
    ],
)
def test_impossible_topologies(text):
    with pytest.raises(SpecError, match="from 1 to 999999"):
        spec(topology=text)


@pytest.mark.parametrize(
    "fields", [(0, 1), (1, 0), (-1, 1), (True, 1), (1, 1.0), (10**9, 1), ("1", 1), (1, 1, "A")]
)
def test_impossible_topologies_made_by_hand(fields):
    with pytest.raises(SpecError):
        TopologySpec(*fields)


@pytest.mark.parametrize(
    "text", ["", ":", "images:", "Images:x", "a b", "images:\0", "images:x\0", None, 5, True, b"x"]
)
def test_impossible_data(text):
    with pytest.raises(SpecError, match="images:FOLDER"):
        spec(data=text)


@pytest.mark.parametrize("fields", [("Images",), ("images", ""), ("images", "a\0b"), ("images", 5), (None,)])
def test_impossible_data_made_by_hand(fields):
    with pytest.raises(SpecError):
        DataSpec(*fields)


WHOLE = ("batch_size", "accumulation", "seed", "warmup", "steps", "repeats", "max_repeats")


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize(
    "value",
    [-1, 1.0, True, False, "5", 10**30, 10**5000, math.nan, math.inf, [1]],
    ids=lambda value: str(type(value).__name__) if isinstance(value, int) else str(value),
)
def test_impossible_whole_numbers(name, value):
    with pytest.raises(SpecError, match=f"^{name} is .*whole number") as error:
        spec(protocol="adaptive", **{name: value})
    assert len(str(error.value)) < 300


@pytest.mark.parametrize("name", ["batch_size", "accumulation", "steps", "repeats", "max_repeats"])
def test_numbers_that_must_not_be_zero(name):
    with pytest.raises(SpecError, match=f"{name} is 0; it must be a whole number from 1 to"):
        spec(protocol="adaptive", **{name: 0})


@pytest.mark.parametrize("value", [0, -0.1, 1.5, math.nan, math.inf, True, "0.1", 10**400])
def test_impossible_targets(value):
    with pytest.raises(SpecError, match="target is"):
        spec(protocol="adaptive", target=value)


@pytest.mark.parametrize(
    "name", ["framework", "model", "precision", "compiler", "strategy", "layout", "device"]
)
@pytest.mark.parametrize(
    "value", ["", "Torch", "torch\n", "a b", "../x", "-x", ".", None, 5, "x\0", "é", "x" * 10 + "/"]
)
def test_impossible_names(name, value):
    with pytest.raises(SpecError, match=f"^{name} is .*must be a name"):
        spec(**{name: value})


@pytest.mark.parametrize(("value", "meant"), [("NHWC", "nhwc"), ("FP32", "fp32")])
def test_a_name_in_capitals_gets_a_suggestion(value, meant):
    with pytest.raises(SpecError, match=f"Did you mean '{meant}'"):
        spec(layout=value)


def test_misspelt_name_gets_a_suggestion():
    with pytest.raises(UnknownName, match="Did you mean 'quick'"):
        spec(protocol="quik")
    with pytest.raises(UnknownName, match="Did you mean 'warmup'"):
        spec(learning_rate_policy="warm-up")
    with pytest.raises(UnknownName, match="Did you mean 'refuse'"):
        spec(on_busy="refuses")
    with pytest.raises(UnknownName, match="Did you mean 'compile'"):
        spec(deadlines={"compiler": 3})
    with pytest.raises(UnknownName, match="Did you mean 'batch_size'"):
        RunSpec.from_dict({"framework": "torch", "model": "resnet50", "batchsize": 3})
    for unhashable in ([], {}, ["quick"]):
        with pytest.raises(UnknownName):
            spec(protocol=unhashable)


@pytest.mark.parametrize("seconds", [0, -1, math.nan, math.inf, True, "5", None, 1e10, 10**400])
def test_impossible_deadlines(seconds):
    with pytest.raises(SpecError, match="deadline of phase 'start'"):
        spec(deadlines={"start": seconds})


@pytest.mark.parametrize("name", ["env", "options", "deadlines"])
@pytest.mark.parametrize(
    "value", [None, 5, "A=1", [("A", "1")], {5: "x"}, {"": "x"}, {"a b": "x"}, {"A\n": "x"}]
)
def test_value_that_is_not_a_mapping_is_refused(name, value):
    with pytest.raises(SpecError):
        spec(**{name: value})


@pytest.mark.parametrize("value", [5, True, "a\0b", b"x", ["x"]])
def test_impossible_variables(value):
    with pytest.raises(SpecError, match="environment variable A must be text"):
        spec(env={"A": value})


@pytest.mark.parametrize("value", ["0", "-1", "abc", "4,2", "", " 2", "1.5", "٣"])
def test_impossible_numbers_of_threads(value):
    with pytest.raises(
        SpecError, match="OMP_NUM_THREADS is .* not a number of threads; give a whole number from 1"
    ):
        spec(env={"OMP_NUM_THREADS": value})


@pytest.mark.parametrize("value", ["1", "64", None])
def test_possible_numbers_of_threads(value):
    assert spec(env={"OMP_NUM_THREADS": value}).env == {"OMP_NUM_THREADS": value}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, [1], {}, b"x", 10**400, object()])
def test_impossible_options(value):
    with pytest.raises(SpecError, match="option 'x' is"):
        spec(options={"x": value})


@pytest.mark.parametrize("value", ["", "x" * 201, "two\nlines", 7, None])
def test_impossible_labels(value):
    with pytest.raises(SpecError, match="The label 'commit' is"):
        spec(labels={"commit": value})


def test_labels_make_no_other_case():
    plain, labeled = spec(seed=3), spec(seed=3, labels={"commit": "1f3a9c"})
    assert plain != labeled
    assert identity(plain) == identity(labeled)
    assert case_key(plain) == case_key(labeled)
    assert digest(plain) == digest(labeled)
    assert facts_of(plain, None, ()) == facts_of(labeled, None, ())
    assert plain.label == labeled.label


def test_fields_that_change_the_case():
    keys = [case_key(spec(**fields)) for fields in ({}, {"seed": 1}, {"steps": 7}, {"precision": "tf32"})]
    assert len(set(keys)) == len(keys)
    assert case_key(spec(repeats=3)) == keys[0]


@pytest.mark.parametrize("value", ["", 5, "a\0b", True])
def test_an_impossible_interpreter(value):
    with pytest.raises(SpecError, match="python is"):
        spec(python=value)


def test_rules_between_fields():
    with pytest.raises(SpecError, match="32 cannot be split into 5 equal micro-batches"):
        spec(accumulation=5)
    with pytest.raises(SpecError, match="target and max_repeats belong to the adaptive protocol"):
        spec(target=0.1)
    with pytest.raises(SpecError, match="target and max_repeats belong"):
        spec(protocol="quick", max_repeats=5)
    with pytest.raises(SpecError, match="max_repeats is 3, which is below repeats, 6"):
        spec(protocol="adaptive", max_repeats=3)
    assert spec(protocol="adaptive", repeats=2, max_repeats=3).resolved_protocol().max_repeats == 3
    assert spec(protocol="adaptive", repeats=50).resolved_protocol().max_repeats == 50


@pytest.mark.parametrize(
    "change",
    [
        {"warmup": -1},
        {"steps": 0},
        {"repeats": 0},
        {"repeats": 8},
        {"target": 2.0},
        {"canonical_steps": -1},
        {"name": "A"},
    ],
)
def test_impossible_protocols(change):
    with pytest.raises(SpecError):
        attrs.evolve(PROTOCOLS["dlperf-v1"], **change)


def test_the_published_protocol():
    assert PROTOCOLS["dlperf-v1"] == Protocol("dlperf-v1", 20, 100, 7, 7)
    assert spec().resolved_protocol() == PROTOCOLS["dlperf-v1"]


# -- a spec is a value


@pytest.mark.parametrize(("name", "value"), [("env", "x"), ("options", 5), ("deadlines", 5.0)])
def test_spec_copies_its_arguments(name, value):
    handed = {"start": value}
    one = spec(**{name: handed})
    handed["start"] = None
    handed["other"] = value
    assert getattr(one, name) == {"start": value}
    document = one.to_dict()
    document[name]["start"] = None
    assert getattr(one, name) == {"start": value}
    assert getattr(RunSpec.from_dict(one.to_dict()), name) is not getattr(one, name)


def test_a_spec_cannot_be_changed():
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        spec().batch_size = 64


def test_two_specs_share_nothing():
    assert spec().env is not spec().env
    assert spec().options is not spec().options


def test_global_batch_size():
    assert spec(topology="2n8d", batch_size=32).global_batch_size == 512
    with pytest.raises(SpecError, match="batch size is max"):
        _ = spec(batch_size="max").global_batch_size


def test_a_document_of_another_kind_is_refused():
    for document in ({}, {"framework": "torch"}, {"framework": "torch", "model": ["resnet50"]}):
        with pytest.raises(DocumentError):
            RunSpec.from_dict(document)
    with pytest.raises(UnknownName):
        RunSpec.from_dict({"framework": "torch", "model": "resnet50", 5: 5})


def test_every_field_has_a_role_and_a_help():
    for field in attrs.fields(RunSpec):
        assert field.metadata["role"] in ("workload", "factor", "context")
        assert field.metadata["help"].endswith((".", "…"))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "torch resnet50 1n1d b32 fp32"),
        (
            {
                "topology": "2n4d",
                "compiler": "inductor",
                "strategy": "horovod",
                "layout": "nhwc",
                "device": "cuda",
            },
            "torch resnet50 2n4d b32 fp32 inductor horovod nhwc cuda",
        ),
        (
            {"accumulation": 2, "seed": 7, "learning_rate_policy": "warmup", "options": {"b": 1, "a": True}},
            "torch resnet50 1n1d b32 fp32 accumulation=2 seed=7 learning_rate_policy=warmup a=True b=1",
        ),
        ({"batch_size": "max", "data": "images:/data"}, "torch resnet50 1n1d bmax fp32 images"),
    ],
)
def test_label_of_a_case_omits_defaults(fields, words):
    assert RunSpec(framework="torch", model="resnet50", **fields).label == words
