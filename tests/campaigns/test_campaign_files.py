"""Campaign files: what they mean, and how each mistake in them is told, with its line."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlperf_sdk import Matrix
from dlperf_sdk.campaigns import file, planning
from dlperf_sdk.campaigns.campaign import RETRIES, Settings, expand_cases, make_campaign
from dlperf_sdk.campaigns.matrix import FIELDS
from dlperf_sdk.campaigns.predicate import KINDS, predicate, value_of
from dlperf_sdk.cli import main
from dlperf_sdk.documents import schema, source_positions
from dlperf_sdk.errors import CampaignError, DocumentError, PluginError, SpecError, UnknownName
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.spec.run_spec import RunSpec

REGISTRY = Registry()


def specs(campaign):
    return [item.spec for item in expand_cases(campaign, "stamp")]


def written(folder: Path, text: str, name: str = "case.yaml") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


BASE = """
name: mine
fields: {model: linear, protocol: quick}
axes:
  framework: [numpy, faulty]
  batch_size: [4, 8]
zip:
  - topology: [1n1d, 1n2d]
    seed: [1, 2]
include:
  - {framework: numpy, batch_size: 64, options: {features: 8}}
exclude:
  - {framework: faulty, batch_size: {min: 8}}
overrides:
  - when: {framework: faulty}
    set: {options: {fault: nan}}
"""


# -- what a file means


def test_axes_are_crossed_and_zips_are_paired(tmp_path):
    actual = specs(file.load_campaign(written(tmp_path, BASE)))
    output = [
        (item.framework, item.batch_size, str(item.topology), item.seed, dict(item.options))
        for item in actual
    ]
    assert output == [
        ("numpy", 4, "1n1d", 1, {}),
        ("numpy", 4, "1n2d", 2, {}),
        ("numpy", 8, "1n1d", 1, {}),
        ("numpy", 8, "1n2d", 2, {}),
        ("faulty", 4, "1n1d", 1, {"fault": "nan"}),
        ("faulty", 4, "1n2d", 2, {"fault": "nan"}),
        ("numpy", 64, "1n1d", 0, {"features": 8}),
    ]
    assert all(item.protocol == "quick" for item in actual)


def test_the_fields_at_the_top_of_a_file_are_for_all_of_its_matrices(tmp_path):
    text = """name: a
fields: {framework: numpy, model: linear, steps: 4, options: {features: 8}, precision: tf32}
matrices:
  - axes: {seed: [1]}
  - fields: {steps: 5, options: {hidden: 3}}
    axes: {seed: [2]}
"""
    path = written(tmp_path, text)
    campaign = file.load_campaign(path)
    assert [(item.seed, item.steps, dict(item.options)) for item in specs(campaign)] == [
        (1, 4, {"features": 8}),
        (2, 5, {"features": 8, "hidden": 3}),
    ]
    with pytest.raises(CampaignError, match=rf"{path}:(2|5): "):
        planning.plan_campaign(campaign, REGISTRY)
    path.write_text(text.replace("hidden: 3", "features: 3"))
    with pytest.raises(CampaignError, match=rf"{path}:2: None of the 2 cases .*'tf32'"):
        planning.plan_campaign(file.load_campaign(path), REGISTRY)


def test_toml_and_json_say_the_same_as_yaml(tmp_path):
    import yaml

    plain = yaml.safe_load(BASE)
    as_json = written(tmp_path, json.dumps(plain), "case.json")
    toml = """
name = "mine"

[fields]
model = "linear"
protocol = "quick"

[axes]
framework = ["numpy", "faulty"]
batch_size = [4, 8]

[[zip]]
topology = ["1n1d", "1n2d"]
seed = [1, 2]

[[include]]
framework = "numpy"
batch_size = 64
options = {features = 8}

[[exclude]]
framework = "faulty"
batch_size = {min = 8}

[[overrides]]
when = {framework = "faulty"}
set = {options = {fault = "nan"}}
"""
    expected = specs(file.load_campaign(written(tmp_path, BASE)))
    assert specs(file.load_campaign(as_json)) == expected
    assert specs(file.load_campaign(written(tmp_path, toml, "case.toml"))) == expected


def test_an_axis_may_be_an_option(tmp_path):
    text = (
        "name: a\nfields: {framework: numpy, model: linear, options: {features: 4}}\n"
        "axes:\n  options.features: [8, 16]\n"
    )
    assert [item.options["features"] for item in specs(file.load_campaign(written(tmp_path, text)))] == [
        8,
        16,
    ]


def test_extending_file_overrides_the_extended_one(tmp_path):
    written(tmp_path, BASE + "order: {seed: 5}\nretry: {crashed: 3}\n", "base.yaml")
    text = """
name: more
extends: [base.yaml]
include:
  - {framework: numpy, model: linear, batch_size: 2}
exclude:
  - {framework: faulty}
overrides:
  - set: {repeats: 2}
retry: {timeout: 1}
"""
    campaign = file.load_campaign(written(tmp_path, text))
    actual = specs(campaign)
    assert [item.batch_size for item in actual] == [4, 4, 8, 8, 64, 2]
    assert all(item.repeats == 2 for item in actual)
    assert campaign.settings.seed == 5
    assert (campaign.settings.retry["crashed"], campaign.settings.retry["timeout"]) == (3, 1)


def test_overrides_in_python_say_the_same_as_in_a_file(tmp_path):
    fields = {"framework": "numpy", "model": "linear"}
    matrix = Matrix(
        fields=fields,
        axes={"seed": [1, 2, 3]},
        overrides=[{"set": {"steps": 6}}, {"when": {"seed": {"min": 2}}, "set": {"options.features": 8}}],
        exclude=[{"options.features": 8, "seed": 3}],
    )
    plain = {"fields": fields, "axes": {"seed": [1, 2, 3]}}
    plain["overrides"] = [
        {"set": {"steps": 6}},
        {"when": {"seed": {"min": 2}}, "set": {"options": {"features": 8}}},
    ]
    plain["exclude"] = [{"options.features": 8, "seed": 3}]
    path = written(tmp_path, json.dumps({"name": "a", **plain}), "case.json")
    assert specs(make_campaign(matrix)) == specs(file.load_campaign(path))
    assert [(item.seed, item.steps, dict(item.options)) for item in specs(make_campaign(matrix))] == [
        (1, 6, {}),
        (2, 6, {"features": 8}),
    ]


@pytest.mark.parametrize(
    ("override", "error", "output"),
    [
        ({"sett": {"steps": 6}}, SpecError, "must have the fields to set"),
        ({"set": {"steps": 6}, "wen": {}}, SpecError, "must have the fields to set"),
        ({"set": {"stesp": 6}}, UnknownName, "Did you mean 'steps'"),
        ({"set": {"steps": 6}, "when": {"sed": 1}}, UnknownName, "Did you mean 'seed'"),
        (7, SpecError, "An override is 7"),
    ],
)
def test_an_override_in_python_that_is_none(override, error, output):
    with pytest.raises(error, match=output):
        Matrix(axes={"seed": [1]}, overrides=[override])


def test_a_name_that_an_override_in_python_asks_for_in_vain(tmp_path):
    matrix = Matrix(
        fields={"framework": "numpy", "model": "linear"},
        axes={"seed": [1]},
        overrides=[{"when": {"framework": "numpi"}, "set": {"steps": 6}}],
    )
    with pytest.raises(CampaignError, match="Did you mean 'numpy'"):
        planning.plan_campaign(make_campaign(matrix), REGISTRY)


def test_equal_cases_are_one():
    matrix = Matrix(
        fields={"model": "linear", "framework": "numpy"},
        axes={"batch_size": [4, 4]},
        include=[{"batch_size": 4}, {"batch_size": 4, "accumulation": 1}],
    )
    assert len(specs(make_campaign(matrix))) == 1


def test_cases_come_out_one_by_one():
    """A matrix of a billion cases takes no time to make, to count and to begin with."""
    values = list(range(1, 1001))
    matrix = Matrix(
        fields={"model": "linear", "framework": "numpy"},
        axes={"batch_size": values, "seed": values, "steps": values},
    )
    assert len(matrix) == 10**9
    assert next(iter(matrix))["steps"] == 1


# -- predicates


@pytest.mark.parametrize(
    ("plain", "fields", "holds"),
    [
        ({"precision": "fp32"}, {}, True),  # the default counts
        ({"precision": ["amp-fp16", "amp-bf16"]}, {"precision": "amp-bf16"}, True),
        ({"batch_size": {"min": 8, "max": 16}}, {"batch_size": 16}, True),
        ({"batch_size": {"min": 8, "max": 16}}, {"batch_size": 17}, False),
        ({"batch_size": {"min": 8}}, {"batch_size": "max"}, False),
        ({"batch_size": "max"}, {"batch_size": "max"}, True),
        ({"nodes": {"not": 1}}, {"topology": "2n8d"}, True),
        ({"devices": 16}, {"topology": "2n8d"}, True),
        ({"launcher": "slurm"}, {"topology": "2n8d@slurm"}, True),
        ({"any": [{"compiler": "xla"}, {"devices": {"min": 16}}]}, {"topology": "2n8d"}, True),
        ({"any": [{"compiler": "xla"}, {"devices": {"min": 17}}]}, {"topology": "2n8d"}, False),
        ({"options.features": 8}, {"options": {"features": 8}}, True),
        ({"options.features": 8}, {}, False),
        ({"options.flag": 1}, {"options": {"flag": True}}, False),  # 1 is not true
        ({"precision": "fp32", "compiler": "xla"}, {}, False),  # all must hold
        ({"framework": {"in": ["torch", "mxnet"], "not": "mxnet"}}, {"framework": "mxnet"}, False),
    ],
)
def test_a_predicate_holds_or_not(plain, fields, holds):
    assert predicate(plain).holds(fields) is holds


@pytest.mark.parametrize(
    ("plain", "error", "output"),
    [
        ({"precison": "fp32"}, UnknownName, "Did you mean 'precision'"),
        ({"batch_size": {"mn": 4}}, UnknownName, "operator of a predicate named 'mn'. Did you mean 'min'"),
        ({"batch_size": "big"}, SpecError, "must be a whole number"),
        ({"precision": 16}, SpecError, "must be a text"),
        ({"batch_size": True}, SpecError, "must be a whole number"),
        ({"precision": {"min": 1}}, SpecError, "min takes a number"),
        ({"batch_size": []}, SpecError, "empty list"),
        ({"batch_size": {}}, SpecError, "in, not, min, max"),
        ({}, SpecError, "must be fields"),
        ([], SpecError, "must be fields"),
        ({"any": {}}, SpecError, "list of predicates"),
        ({"any": [{"modl": "x"}]}, UnknownName, "Did you mean 'model'"),
        ({"env": {"X": "1"}}, UnknownName, "named 'env'"),
    ],
)
def test_a_predicate_that_is_none(plain, error, output):
    with pytest.raises(error, match=output):
        predicate(plain)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*KINDS, "any", "min", "max", "in", "not", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(JSON, st.fixed_dictionaries({}, optional={"batch_size": st.integers(1, 99), "precision": st.text()}))
def test_any_value_is_a_predicate_or_is_refused(plain, fields):
    try:
        actual = predicate(plain)
    except (SpecError, UnknownName):
        return
    assert actual.holds({"framework": "numpy", "model": "linear", **fields}) in (True, False)


def test_every_scalar_field_can_be_used_in_a_predicate():
    case = RunSpec(framework="numpy", model="linear", topology="2n3d@local")
    plain = {name: value for name, value in case.to_dict().items() if name != "schema_version"}
    assert set(KINDS) - {"nodes", "devices", "devices_per_node", "launcher"} == set(FIELDS) - {
        "env",
        "options",
        "deadlines",
        "labels",
    }
    assert [value_of(plain, name) for name in ("nodes", "devices_per_node", "devices", "launcher")] == [
        2,
        3,
        6,
        "local",
    ]


# -- mistakes, each with its line


MISTAKES = {
    "an unknown key": (
        "name: a\naxes: {framework: [numpy]}\nfield: {}\n",
        3,
        "'field' is not a known key .did you mean 'fields'",
    ),
    "an unknown key below": (
        "name: a\naxes: {framework: [numpy]}\norder:\n  sede: 1\n",
        4,
        "'sede' is not a known key",
    ),
    "an axis beside the axes": (
        "name: a\nframeworks: [numpy]\naxes: {model: [linear]}\n",
        2,
        r"at \$: 'frameworks' is not a known key\. Write a list of values as an axis: `axes: {framework: \[…\]}`\.$",
    ),
    "an axis beside the axes of a matrix": (
        "name: a\nmatrices:\n  - axes: {framework: [numpy]}\n    topologies: [1n1d]\n",
        4,
        r"at \$\.matrices\[0\]: 'topologies' .* `axes: {topology: \[…\]}`\.$",
    ),
    "a list of a field's values beside the axes": (
        "name: a\naxes: {framework: [numpy]}\nmodel: [linear]\n",
        3,
        r"`axes: {model: \[…\]}`",
    ),
    "a field beside the fields": (
        "name: a\naxes: {framework: [numpy]}\nmodel: linear\n",
        3,
        "`fields: {model: …}`",
    ),
    "an unknown axis": (
        "name: a\naxes:\n  framework: [numpy]\n  precison: [fp32]\n",
        4,
        "Did you mean 'precision'",
    ),
    "an axis of another type": (
        "name: a\naxes:\n  framework: [numpy]\n  batch_size: [4, four]\n",
        4,
        "batch_size",
    ),
    "an empty axis": ("name: a\naxes:\n  framework: [numpy]\n  seed: []\n", 4, "1 or more items"),
    "lists of unequal length": ("name: a\nzip:\n  - seed: [1, 2]\n    steps: [1]\n", 2, "equal length"),
    "a predicate's field": (
        "name: a\naxes: {framework: [numpy]}\nexclude:\n  - {modell: linear}\n",
        4,
        "Did you mean 'model'",
    ),
    "a predicate's name": (
        "name: a\nfields: {model: linear}\naxes: {framework: [numpy], precision: [fp32, amp-fp16]}\nexclude:\n"
        "  - {model: linear}\n  - {precision: amp-pf16}\n",
        6,
        "Did you mean 'amp-fp16'",
    ),
    "an override's predicate": (
        "name: a\nfields: {model: linear}\naxes: {framework: [numpy]}\noverrides:\n  - when: {framework: numpi}\n"
        "    set: {seed: 1}\n",
        5,
        "Did you mean 'numpy'",
    ),
    "an override's field": (
        "name: a\naxes: {framework: [numpy]}\noverrides:\n  - set:\n      sed: 1\n",
        5,
        "did you mean 'seed'",
    ),
    "no case at all": ("name: a\nfields: {framework: numpy}\n", 2, "no axes, no zip and no include"),
    "all excluded": (
        "name: a\nfields: {model: linear}\naxes: {framework: [numpy]}\nexclude: [{framework: numpy}]\n",
        3,
        "all 1 are excluded",
    ),
    "an explosion": (
        "name: a\nfields: {model: linear, framework: numpy}\nmax_cases: 5\n"
        "axes:\n  seed: [1, 2, 3]\n  batch_size: [1, 2]\n",
        4,
        "has 6 cases before anything is excluded .its largest matrix: seed 3 × batch_size 2., and takes 5",
    ),
    "an explosion beyond all bounds": (
        "name: a\nfields: {model: linear, framework: numpy}\naxes:\n"
        + "".join(f"  options.o{i}: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n" for i in range(25)),
        3,
        r"has more than 10\^25 cases before anything is excluded",
    ),
    "an explosion of predicates": (
        "name: a\nfields: {model: linear, framework: numpy}\naxes:\n"
        f"  seed: {list(range(100))}\n  steps: {list(range(5, 105))}\n"
        "exclude:\n" + "  - {seed: 1000}\n" * 150 + "overrides:\n" + "  - {set: {warmup: 1}}\n" * 60,
        3,
        "to 10,000 cases, 2,100,000 times in all, and may do so 2,000,000 times",
    ),
    "no model": ("name: a\naxes: {framework: [numpy]}\n", 2, "needs a framework and a model"),
    "a framework that is not there": (
        "name: a\nfields: {model: linear}\naxes:\n  batch_size: [4]\n  framework: [numpi]\n",
        5,
        "Did you mean 'numpy'",
    ),
    "one value of an axis": (
        "name: a\nfields: {model: linear}\naxes:\n  framework:\n    - numpy\n    - numpi\n",
        6,
        "Did you mean 'numpy'",
    ),
    "one value of an include": (
        "name: a\nfields: {model: linear}\naxes: {framework: [numpy]}\ninclude:\n  - framework: numpy\n"
        "    model: linnear\n",
        6,
        "Did you mean 'linear'",
    ),
    "an option that is an axis": (
        "name: a\nfields: {model: linear, framework: numpy}\naxes:\n  seed: [1]\n  options.nonsense: [1]\n",
        5,
        "no option of linear",
    ),
    "an option that is not there": (
        "name: a\nfields:\n  model: linear\n  options: {featurs: 3}\naxes: {framework: [numpy]}\n",
        4,
        "Did you mean 'features'",
    ),
    "a value that cannot be": (
        "name: a\nfields: {model: linear, framework: numpy}\naxes:\n  accumulation: [1, 3]\n  batch_size: [4]\n",
        4,
        "cannot be split",
    ),
    "none can be run": (
        "name: a\nfields: {model: linear, framework: numpy}\naxes:\n  precision: [amp-bf16, tf32]\n",
        4,
        "None of the 2 cases of a can be run here",
    ),
    "an interpreter": (
        "name: a\nfields:\n  model: linear\n  python: /bin/sh\naxes: {framework: [numpy]}\n",
        4,
        "sets python to '/bin/sh'. A file may not decide which program is run",
    ),
    "a folder elsewhere": (
        "name: a\nfields: {model: linear}\naxes:\n  framework: [numpy]\n  data: ['images:../..']\n",
        5,
        "outside",
    ),
    "a file whose name is too long": (
        f"name: a\nextends:\n  - {'x' * 300}.yaml\n",
        3,
        "File name too long",
    ),
    "a file that is not there": ("name: a\nextends:\n  - smoke.yml\n", 3, "there is no such file"),
    "a file elsewhere": (
        "name: a\nextends:\n  - ../other.yaml\n",
        3,
        "lies outside the file's own directory",
    ),
    "a preset that is not there": ("name: a\nextends: [preset:smok]\n", 2, "Did you mean 'smoke'"),
    "memory tried again": (
        "name: a\naxes: {framework: [numpy]}\nretry:\n  out-of-memory: 1\n",
        4,
        "'out-of-memory' is not a known key",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_mistake_is_reported_with_its_line(tmp_path, mistake):
    text, line, output = MISTAKES[mistake]
    path = written(tmp_path, text)
    with pytest.raises(CampaignError, match=output) as caught:
        planning.plan_campaign(file.load_campaign(path), REGISTRY)
    assert str(caught.value).startswith(f"{path}:{line}: "), caught.value


def test_schema_errors_are_reported_in_file_order(tmp_path):
    path = written(
        tmp_path,
        "name: a\nfeilds: {model: linear}\naxes:\n  framework: [numpy]\n  batch_size: [4, four]\n"
        "order: {sede: 1, sort: 2}\nfields: {topology: 8 GPUs, env: {A B: x}}\n",
    )
    with pytest.raises(CampaignError) as caught:
        file.load_campaign(path)
    message = str(caught.value).splitlines()
    assert [line.split(": ")[0] for line in message] == [f"{path}:{n}" for n in (2, 5, 6, 6, 7, 7)]
    for line, output in zip(
        message,
        (
            "did you mean 'fields'",
            "from 1, or max",
            "'sede'",
            "'sort'",
            "a variable's name",
            "NODESnDEVICESd",
        ),
        strict=True,
    ):
        assert output in line


def test_mistakes_in_predicates_axes_and_folders_are_reported_together(tmp_path):
    path = written(
        tmp_path,
        "name: a\nfields: {model: linear}\nmatrices:\n  - axes: {framework: [numpy], precison: [fp32]}\n"
        "  - axes: {framework: [numpy]}\n    fields: {data: 'images:../..'}\n"
        "exclude:\n  - {modell: linear}\n  - {seed: 1}\noverrides:\n  - when: {sed: 1}\n    set: {steps: 4}\n",
    )
    with pytest.raises(CampaignError) as caught:
        file.load_campaign(path)
    message = str(caught.value).splitlines()
    assert [line.split(": ")[0] for line in message] == [f"{path}:{n}" for n in (4, 6, 8, 11)]


def test_ten_mistakes_are_listed_and_the_rest_counted(tmp_path):
    keys = "".join(f"key{i}: 1\n" for i in range(13))
    path = written(tmp_path, f"name: a\naxes: {{framework: [numpy]}}\n{keys}")
    with pytest.raises(CampaignError) as caught:
        file.load_campaign(path)
    message = str(caught.value).splitlines()
    assert [line.split(": ")[0] for line in message[:10]] == [f"{path}:{n}" for n in range(3, 13)]
    assert message[10:] == ["And 3 more."]


def test_command_prints_one_line_per_mistake(tmp_path, capfd):
    path = written(tmp_path, "name: a\naxes:\n  framework: []\nfeilds: {}\n")
    assert main(["plan", str(path)]) == 2
    lines_of_it = capfd.readouterr().err.splitlines()
    assert lines_of_it[0].startswith(f"Error: {path}:3: ")
    assert lines_of_it[1].startswith(f"{path}:4: ")
    assert main(["campaign", "run", str(written(tmp_path, "name: a\nname: b\n")), "--json"]) == 2
    assert f"{path}:2: " in json.loads(capfd.readouterr().out)["error"]["message"]


def test_the_worked_example_of_the_docs_can_be_planned(tmp_path):
    docs = Path(__file__).parents[2] / "docs" / "how-to" / "campaigns.md"
    text = docs.read_text().partition("```yaml\n")[2].partition("```")[0]
    _, entries = planning.plan_campaign(file.load_campaign(written(tmp_path, text)), Registry())
    assert [entry.refusal for entry in entries] == [None] * 4


def test_files_that_extend_each_other_in_a_circle(tmp_path):
    written(tmp_path, "name: a\nextends: [b.yaml]\n", "a.yaml")
    written(tmp_path, "name: b\nextends: [sub/c.yaml]\n", "b.yaml")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "c.yaml").symlink_to(tmp_path / "a.yaml")
    with pytest.raises(CampaignError, match=r"in a circle|outside"):
        file.load_campaign(tmp_path / "a.yaml")
    written(tmp_path, "name: b\nextends: [a.yaml]\n", "b.yaml")
    with pytest.raises(CampaignError, match=r"b.yaml:2: .*in a circle: \S*a.yaml → \S*b.yaml → \S*a.yaml"):
        file.load_campaign(tmp_path / "a.yaml")


def test_file_extended_twice_is_included_once(tmp_path):
    written(tmp_path, BASE + "order: {seed: 5}\n", "base.yaml")
    written(tmp_path, "name: b\nextends: [base.yaml]\noverrides: [{set: {steps: 7}}]\n", "b.yaml")
    written(tmp_path, "name: c\nextends: [base.yaml]\nexclude: [{seed: 2}]\n", "c.yaml")
    campaign = file.load_campaign(written(tmp_path, "name: a\nextends: [b.yaml, c.yaml]\n", "a.yaml"))
    assert [block.matrix.size for block in campaign.blocks if block.matrix.size] == [9]
    assert (len(campaign.exclude), len(campaign.overrides)) == (2, 2)
    assert campaign.settings.seed == 5
    assert {(item.seed, item.steps) for item in specs(campaign)} == {(0, 7), (1, 7)}


def test_files_that_double_again_and_again_cost_nothing(tmp_path):
    """Twenty files, each of which extends the next one twice: a million of times the last one, read once."""
    for i in range(file.DEEPEST):
        written(tmp_path, f"name: a\nextends: [{i + 1}.yaml, {i + 1}.yaml]\n", f"{i}.yaml")
    written(tmp_path, BASE, f"{file.DEEPEST}.yaml")
    assert len(file.load_campaign(tmp_path / "0.yaml").blocks) == 1


def test_files_that_extend_each_other_without_end(tmp_path):
    for i in range(file.DEEPEST + 5):
        written(tmp_path, f"name: a\nextends: [{i + 1}.yaml]\n", f"{i}.yaml")
    with pytest.raises(CampaignError, match=rf"{file.DEEPEST}.yaml:2: .*more than {file.DEEPEST} deep"):
        file.load_campaign(tmp_path / "0.yaml")


WHERE = """name: a
fields: {model: linear, framework: numpy}
axes:
  precision:
    - fp32
    - amp-bf16
  batch_size: [4]
include:
  - {batch_size: 8}
  - {batch_size: 16,
     precision: tf32}
  - {batch_size: 32, accumulation: 3}
exclude: [{accumulation: 3}]
"""


def test_each_case_and_refusal_has_its_line(tmp_path, capfd):
    path = written(tmp_path, WHERE)
    _, entries = planning.plan_campaign(file.load_campaign(path), REGISTRY)
    assert [(entry.location.rpartition(":")[2], entry.refusal is None) for entry in entries] == [
        ("3", True),
        ("6", False),
        ("9", True),
        ("11", False),
    ]
    assert main(["campaign", "plan", str(path), "--json"]) == 0
    cases = json.loads(capfd.readouterr().out)["cases"]
    assert [case["from"] for case in cases if case["skipped"]] == [f"{path}:6", f"{path}:11"]


@pytest.mark.parametrize(
    ("field", "values", "output"),
    [
        ("env", ({}, {"GLOO_SOCKET_IFNAME": "lo"}), "The variable GLOO_SOCKET_IFNAME is set by the plugin"),
        ("data", ("synthetic", "synthetic:here"), "takes no folder"),
        ("options.packed_qkv", (True, 1), "must be true or false"),
    ],
)
def test_mistake_in_one_of_several_axis_values_is_reported(tmp_path, field, values, output):
    text = "name: a\nfields: {framework: torch, model: bert-base, topology: 1n2d}\naxes:\n  %s: %s\n"
    for axis in (values, values[::-1]):
        path = written(tmp_path, text % (field, json.dumps(axis)))
        with pytest.raises(CampaignError, match=output):
            planning.plan_campaign(file.load_campaign(path), REGISTRY)


def test_impossible_included_case_is_reported_with_its_line(tmp_path):
    path = written(tmp_path, WHERE.replace("exclude: [{accumulation: 3}]\n", ""))
    with pytest.raises(CampaignError, match=r"case.yaml:12: .*cannot be split"):
        planning.plan_campaign(file.load_campaign(path), REGISTRY)


def test_plugins_that_are_not_installed_can_be_skipped(tmp_path):
    text = "name: a\nmissing: skip\nfields: {model: linear}\naxes: {framework: [numpy, caffe]}\n"
    _, entries = planning.plan_campaign(file.load_campaign(written(tmp_path, text)), REGISTRY)
    assert [None if entry.refusal is None else entry.refusal[0] for entry in entries] == [None, "missing"]


@pytest.mark.parametrize(
    "text", ["- 1\n", "name: [\n", "name: a\nname: b\n", "!!python/object:os.system {}\n"]
)
def test_text_that_is_not_a_document_is_refused(tmp_path, text):
    with pytest.raises(DocumentError):
        file.load_campaign(written(tmp_path, text))


def test_schema_has_every_field_and_setting():
    document = schema.load("campaign")
    assert list(document["$defs"]["fields"]["properties"]) == list(FIELDS)
    assert list(document["$defs"]["axes"]["properties"]) == list(FIELDS)
    order, limits, quiet = (document["$defs"][name]["properties"] for name in ("order", "limits", "quiet"))
    output = {*order, *(f"{name}_limit" for name in limits), *(f"quiet_{name}" for name in quiet)}
    output |= {"retry", "cooldown", "missing", "max_cases", "trace"}
    output |= {"adjacent"}  # which an interleaved gate alone sets
    assert output == {field.name for field in attrs.fields(Settings)}
    assert set(document["properties"]["retry"]["properties"]) == set(RETRIES)
    for name, count in RETRIES.items():
        assert document["properties"]["retry"]["properties"][name]["default"] == count


def test_a_file_may_name_its_schema_for_editors(tmp_path):
    for name, text in (
        ("a.json", json.dumps({"$schema": "./campaign.schema.json", "name": "a", "axes": {"seed": [1]}})),
        ("a.yaml", "# yaml-language-server: $schema=campaign.schema.json\nname: a\naxes: {seed: [1]}\n"),
        ("a.toml", '#:schema campaign.schema.json\nname = "a"\n[axes]\nseed = [1]\n'),
    ):
        assert file.load_campaign(written(tmp_path, text, name)).size == 1


def test_editor_schema_is_self_contained_and_equivalent(capsys):
    import yaml
    from jsonschema import Draft202012Validator

    assert main(["campaign", "schema"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert "urn:" not in json.dumps(document)
    Draft202012Validator.check_schema(document)
    validator = Draft202012Validator(document)  # which is given no other document
    for name in file.list_presets():
        text = REGISTRY.load(file.PRESETS, name).read_text()
        assert validator.is_valid(yaml.safe_load(text)), name
    fine = yaml.safe_load(BASE)
    assert validator.is_valid(fine)
    for wrong in (
        {**fine, "feilds": {}},
        {**fine, "fields": {"topology": "8 GPUs"}},
        {**fine, "axes": {"batch_size": [0]}},
        {**fine, "overrides": [{"set": {"deadlines": {"step": "soon"}}}]},
    ):
        assert not validator.is_valid(wrong), wrong


# -- where things stand


@given(st.dictionaries(st.sampled_from("abcdef"), st.lists(st.integers(0, 9), max_size=3), max_size=4))
def test_lines_of_yaml(plain):
    text = "\n".join(
        f"{key}:\n" + "".join(f"  - {value}\n" for value in values) for key, values in plain.items()
    )
    text = text.replace(":\n\n", ": []\n\n") if plain else "{}\n"
    actual = source_positions.lines_of(text, ".yaml")
    for key in plain:
        assert text.splitlines()[actual[key,] - 1].startswith(f"{key}:")


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=10,
    ),
    st.sampled_from([None, 1, "\t"]),
)
def test_lines_of_json(plain, indent):
    text = json.dumps(plain, indent=indent)
    actual = source_positions.lines_of(text, ".json")

    def places(value, above):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield (*above, key), inner
            if isinstance(inner, dict | list):
                yield from places(inner, (*above, key))

    expected = dict(places(plain, ())) if isinstance(plain, dict | list) else {}
    assert set(actual) == set(expected)
    if indent is not None:
        rows = text.splitlines()
        for place, value in expected.items():
            row = rows[actual[place] - 1].strip().removesuffix(",")
            start = json.dumps(place[-1]) + ": " if isinstance(place[-1], str) else ""
            assert row.startswith(start + json.dumps(value, indent=indent).splitlines()[0])


def test_a_json_file_may_be_indented_with_tabs(tmp_path):
    path = written(
        tmp_path, '{\n\t"name": "a",\n\t"axes": {"framework": ["numpy"]},\n\t"feild": 1\n}', "a.json"
    )
    with pytest.raises(CampaignError, match=r"a\.json:4: "):
        file.load_campaign(path)


def test_lines_of_toml():
    text = (
        'name = "a"\n\n[fields]\nmodel = "x" # [not]\n\n'
        '[[zip]]\nseed = [\n 1,\n]\n[[zip]]\nseed = [2]\n["order"]\nseed=1\n'
    )
    actual = source_positions.lines_of(text, ".toml")
    assert actual["fields", "model"] == 4
    assert (actual["zip", 0, "seed"], actual["zip", 1, "seed"]) == (7, 11)
    assert actual["order", "seed"] == 13
    assert source_positions.line_of(actual, ("zip", 1, "seed", 0)) == 11
    assert source_positions.line_of(actual, ("nothing",)) == 1


@pytest.mark.parametrize("inside", ["[{blanks}x!", "[x{blanks}!", "[{dots}]", "{dots} = 1"])
def test_a_text_in_toml_that_looks_like_a_table_takes_no_time_and_no_memory(inside):
    row = inside.format(blanks=" \t" * 100_000, dots="a." * 50_000 + "a")
    text = f'x = """\n{row}\n"""\ny = 1\n'
    assert tomllib.loads(text)["y"] == 1
    actual = source_positions.lines_of(text, ".toml")
    assert actual["x",] == 1
    assert sum(map(len, actual)) < 10_000


# -- the presets


def test_every_preset_can_be_read():
    assert file.list_presets() == ("dlperf-v1", "smoke", "tensorpack-2017", "tf-cnn-2017")
    for name in file.list_presets():
        assert len(specs(file.load_campaign(f"preset:{name}"))) >= 10
    with pytest.raises(UnknownName, match="Did you mean 'smoke'"):
        file.load_campaign("preset:smoek")
    with pytest.raises(UnknownName, match="no campaign named 'smoke'. Did you mean 'preset:smoke'"):
        file.load_campaign("smoke")


def test_the_framework_all_stands_for_all_installed_frameworks(tmp_path):
    text = "name: a\nfields: {model: linear}\naxes: {framework: [all], seed: [1, 2]}\n"
    actual = [item.framework for item in specs(file.load_campaign(written(tmp_path, text)))]
    assert actual == [name for name in REGISTRY.names("frameworks") for _ in range(2)]
    assert {"torch", "tensorflow"} < set(actual)


def test_a_preset_that_is_no_path_names_its_distribution(monkeypatch):
    monkeypatch.setattr(Registry, "load", lambda self, group, name: "smoke.yaml")
    with pytest.raises(PluginError, match=r"The preset 'smoke' of dlperf-sdk .* is 'smoke.yaml'"):
        file.load_campaign("preset:smoke")


def test_cases_of_a_preset_are_located_by_its_name(tmp_path):
    extending = file.load_campaign(written(tmp_path, "name: a\nextends: [preset:smoke]\n"))
    for campaign in (file.load_campaign("preset:smoke"), extending):
        assert all(re.fullmatch("preset:smoke:[0-9]+", block.location) for block in campaign.blocks)


def test_the_preset_smoke_is_minutes():
    for item in specs(file.load_campaign("preset:smoke")):
        protocol = item.resolved_protocol()
        assert (item.device, protocol.warmup, protocol.steps, protocol.repeats) == ("cpu", 2, 6, 3)
        assert item.options["image_size" if item.model == "resnet50" else "sequence_length"] == 64


def test_the_presets_are_listed_with_their_sizes(capsys):
    assert main(["campaign", "presets", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {name: item["cases"] for name, item in listed.items()} == {
        name: file.load_campaign(f"preset:{name}").size for name in file.list_presets()
    }
    assert main(["campaign", "presets"]) == 0
    assert "preset:dlperf-v1" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["name: x\naxis:\n  seed: [1, 2]\n", "name: x\nfields: {}\naxis: {}\n"])
def test_plan_recognizes_a_campaign_by_any_of_its_keys(text, tmp_path, capsys):
    path = tmp_path / "mistyped.yaml"
    path.write_text(text)
    assert main(["plan", str(path)]) == 2
    assert "did you mean 'axes'" in " ".join(capsys.readouterr().err.split()).lower()
