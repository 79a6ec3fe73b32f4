"""No document decides what is executed or read: every place of every kind of file, every way to write a setting."""

from __future__ import annotations

import itertools
import json
import socket
import subprocess
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml
from result_samples import a_result

from dlperf_sdk.api import dry_run, rerun, resume
from dlperf_sdk.campaigns import file
from dlperf_sdk.campaigns.campaign import expand_cases, make_campaign
from dlperf_sdk.campaigns.campaign_directory import create_campaign
from dlperf_sdk.campaigns.matrix import Matrix
from dlperf_sdk.campaigns.planning import plan_campaign
from dlperf_sdk.cli import main
from dlperf_sdk.errors import CampaignError, DlperfError, SpecError, UsageError
from dlperf_sdk.execution import replay
from dlperf_sdk.launchers.local import Local
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.result import Result
from dlperf_sdk.spec.fields import context, has_effect
from dlperf_sdk.spec.run_spec import RunSpec

REGISTRY = Registry()
CASE = {"framework": "numpy", "model": "linear", "repeats": 1}

SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "options.launcher_flags": ("ssh", {"options": {"launcher_flags": "-oProxyCommand='touch PWNED'"}}),
    "options.agent_python": ("ssh", {"options": {"agent_python": "./evil"}}),
    "options.hostfile": ("mpi", {"options": {"hostfile": "/etc/passwd"}}),
    "options.srun_flags": ("slurm", {"options": {"srun_flags": "--task-prolog=./evil"}}),
    "options.sbatch_flags": ("slurm", {"options": {"sbatch_flags": "--wrap=./evil"}}),
    "options.address": ("ray", {"options": {"address": "evil.example:6379"}}),
    "options.ray_python": ("ray", {"options": {"ray_python": "./evil"}}),
    "python": ("local", {"python": "./evil"}),
    "container": ("local", {"container": "podman:evil"}),
    "container_mounts": ("local", {"container_mounts": "/etc"}),
    "container_devices": ("local", {"container_devices": "/dev/sda"}),
    "env.LD_PRELOAD": ("local", {"env": {"LD_PRELOAD": "./evil.so"}}),
    "data": ("local", {"data": "images:../outside"}),
}
"""A setting that no file may have → the launcher that it belongs to, and the fields that set it."""

PLACES = ("fields", "axes", "zip", "include", "overrides")
IN_MATRICES = ("matrices.fields", "matrices.axes", "matrices.zip", "matrices.include")
EXTENDED = tuple(f"extends {place}" for place in (*PLACES, *IN_MATRICES))
WAYS = ("nested", "dotted")
SUFFIXES = (".json", ".yaml", ".toml")


@pytest.fixture(autouse=True)
def _no_processes(monkeypatch, request):
    """Fail where a process would be started, except in the one test of the whole way."""
    if request.function is test_no_proxy_command_is_executed:
        return

    def refuse(*args, **kwargs):
        pytest.fail(f"a process was started: {args}")

    monkeypatch.setattr(subprocess, "Popen", refuse)


def fields_of(setting: str, way: str) -> dict[str, Any]:
    """Return the fields that set it, an entry of a mapping also as `options.NAME`."""
    (name, value), *_ = SETTINGS[setting][1].items()
    if way == "nested" or "." not in setting:
        return {name: value}
    return {setting: next(iter(value.values()))}


def campaign_document(place: str, fields: dict[str, Any], launcher: str) -> dict[str, Any]:
    """Return a campaign that sets fields in one place."""
    outer, _, inner = place.rpartition(".")
    shared = {**CASE, "topology": f"1n1d@{launcher}"}
    # Hosts are harmless, and let a launcher get as far as it can.
    shared |= (
        {"options": {"hosts": "localhost"}}
        if launcher in ("ssh", "mpi") and "hostfile" not in str(fields)
        else {}
    )
    lists = {name: [value] for name, value in fields.items()}
    part: dict[str, Any] = {
        "fields": {"fields": fields, "axes": {"seed": [1]}},
        "axes": {"axes": lists},
        "zip": {"zip": [{"seed": [1], **lists}]},
        "include": {"include": [fields]},
        "overrides": {"axes": {"seed": [1]}, "overrides": [{"when": {"seed": 1}, "set": fields}]},
    }[inner]
    if outer:
        return {"name": "a", "fields": shared, "matrices": [part]}
    merged = {**shared, **part.get("fields", {})}
    if "options" in part.get("fields", {}):
        merged["options"] = {**shared.get("options", {}), **part["fields"]["options"]}
    return {"name": "a", **part, "fields": merged}


def write(path: Path, document: dict[str, Any]) -> Path:
    """Write a document in the format of its suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".yaml":
        path.write_text(yaml.safe_dump(document))
    elif path.suffix == ".json":
        path.write_text(json.dumps(document, indent=1))
    else:
        lines = [f"{json.dumps(name)} = {inline(value)}" for name, value in document.items()]
        path.write_text("\n".join(lines) + "\n")
    return path


def inline(value: Any) -> str:
    """Return a value as TOML writes it in one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {inline(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(inline, value)) + "]"
    return json.dumps(value)


def campaign_file(folder: Path, suffix: str, place: str, fields: dict[str, Any], launcher: str) -> Path:
    """Write a campaign that sets fields in one place, or extends one that does from a directory of its own."""
    extends, _, inner = place.rpartition(" ")
    document = campaign_document(inner, fields, launcher)
    if not extends:
        return write(folder / f"case{suffix}", document)
    write(folder / "below" / f"base{suffix}", document)
    return write(folder / f"case{suffix}", {"name": "b", "extends": [f"below/base{suffix}"]})


def named(setting: str) -> str:
    """Return the name that a message has for a setting."""
    return "outside its own directory" if setting == "data" else f"{setting.rpartition('.')[2]}"


# -- campaign files


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_campaign_file_decides_nothing_that_is_executed(tmp_path, setting, suffix):
    for place, way in itertools.product((*PLACES, *IN_MATRICES, *EXTENDED), WAYS):
        folder = tmp_path / f"{place}-{way}"
        path = campaign_file(folder, suffix, place, fields_of(setting, way), SETTINGS[setting][0])
        with pytest.raises(CampaignError) as refusal:
            list(expand_cases(file.load_campaign(path), "stamp", REGISTRY))
        message = str(refusal.value)
        assert named(setting) in message, (place, way, message)
        assert message.startswith(f"{folder}/"), (place, way, message)


@pytest.mark.parametrize("place", (*PLACES, *IN_MATRICES))
@pytest.mark.parametrize("way", WAYS)
def test_a_refusal_has_the_line_of_the_setting(tmp_path, place, way):
    path = campaign_file(tmp_path, ".yaml", place, fields_of("options.agent_python", way), "ssh")
    with pytest.raises(CampaignError) as refusal:
        plan_campaign(file.load_campaign(path), REGISTRY)
    numbers = [i for i, line in enumerate(path.read_text().splitlines(), 1) if "agent_python" in line]
    line = int(str(refusal.value).split(":")[1])
    if (place, way) == ("overrides", "nested"):  # the line of the override
        assert line < numbers[0]
    else:
        assert line in (numbers[0], numbers[0] + 1)  # of an axis: the key's, or the value's


def test_a_setting_that_only_several_places_together_make_is_refused(tmp_path):
    """The option is written for one launcher, and an override chooses another."""
    document = {
        "name": "a",
        "fields": {**CASE, "options": {"agent_python": "./evil"}},
        "axes": {"options.hosts": ["localhost"]},
        "overrides": [{"set": {"topology": "1n1d@ssh"}}],
    }
    with pytest.raises(CampaignError, match="agent_python"):
        plan_campaign(file.load_campaign(write(tmp_path / "a.yaml", document)), REGISTRY)


def test_data_belongs_to_the_file_that_names_it(tmp_path):
    for place in (*PLACES, *IN_MATRICES, *EXTENDED):
        folder = tmp_path / place.replace(" ", "-")
        path = campaign_file(folder, ".yaml", place, {"data": "images:photos"}, "local")
        home = folder / "below" if place.startswith("extends") else folder
        assert {item.spec.data.path for item in expand_cases(file.load_campaign(path), "stamp")} == {
            str(home / "photos")
        }


def test_tuning_settings_are_allowed_everywhere(tmp_path):
    for place, fields in itertools.product(
        (*PLACES, *IN_MATRICES, *EXTENDED), ({"env": {"OMP_NUM_THREADS": "1"}}, {"options": {"features": 8}})
    ):
        path = campaign_file(tmp_path / place, ".yaml", place, fields, "local")
        assert len(list(expand_cases(file.load_campaign(path), "stamp"))) == 1


def test_presets_pass_the_check():
    for name in file.list_presets():
        assert len(list(expand_cases(file.load_campaign(f"preset:{name}"), "stamp"))) >= 10


def test_a_campaign_in_python_may_set_anything():
    matrix = Matrix(
        fields={**CASE, "topology": "1n1d@ssh"},
        axes={
            "options.hosts": ["localhost"],
            "options.launcher_flags": ["-oBatchMode=yes"],
            "python": ["./mine"],
        },
    )
    (case,) = expand_cases(make_campaign(matrix), "stamp")
    assert case.spec.options["launcher_flags"] == "-oBatchMode=yes"


@pytest.mark.parametrize("command", [["validate"], ["plan"], ["campaign", "plan"], ["campaign", "run"]])
def test_the_commands_refuse_a_campaign_file(tmp_path, monkeypatch, capfd, command):
    monkeypatch.chdir(tmp_path)
    fields = {"options.hostfile": "/etc/passwd"}
    assert main([*command, str(campaign_file(tmp_path, ".yaml", "axes", fields, "ssh"))]) == 2
    captured = capfd.readouterr()
    assert "sets the option hostfile to '/etc/passwd'" in captured.err
    assert "root:x" not in captured.out + captured.err
    assert [item.name for item in tmp_path.iterdir()] == ["case.yaml"]


def test_no_proxy_command_is_executed(tmp_path, monkeypatch, capfd):
    """The whole way, with the ssh that is installed here, if one is."""
    monkeypatch.chdir(tmp_path)
    Path("case.yaml").write_text(
        "name: a\nfields: {framework: numpy, model: linear, topology: 1n1d@ssh, repeats: 1, on_busy: note}\n"
        "axes:\n  options.hosts: [localhost]\n"
        f"  options.launcher_flags: [\"-oProxyCommand='touch {tmp_path}/PWNED'\"]\n"
    )
    assert main(["campaign", "run", "case.yaml"]) == 2
    assert capfd.readouterr().err.startswith(
        "Error: case.yaml:5: The case sets the option launcher_flags to "
    )
    assert [item.name for item in tmp_path.iterdir()] == ["case.yaml"]


# -- spec files


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_spec_file_decides_nothing_that_is_executed(tmp_path, setting):
    for suffix, way in itertools.product(SUFFIXES, WAYS):
        fields, launcher = fields_of(setting, way), SETTINGS[setting][0]
        path = write(tmp_path / f"{way}{suffix}", {**CASE, "topology": f"1n1d@{launcher}", **fields})
        with pytest.raises(UsageError) as refusal:
            dry_run(path)
        assert named(setting) in str(refusal.value)
        assert str(refusal.value).startswith(str(path))
        # The launcher may also be chosen by whoever runs it.
        path = write(tmp_path / f"{way}{suffix}", {**CASE, **fields})
        with pytest.raises(UsageError, match=named(setting)):
            dry_run(path, topology=f"1n1d@{launcher}")


# -- results, campaign directories and streams


def hostile(setting: str) -> RunSpec:
    """Return a case with the setting, as a document of ours would hold it."""
    launcher, fields = SETTINGS[setting]
    return RunSpec(**{**CASE, "topology": f"1n1d@{launcher}", **fields})


EXECUTED = [setting for setting in SETTINGS if setting != "data"]


@pytest.mark.parametrize("setting", EXECUTED)
def test_resume_executes_only_allowed_programs_of_a_directory(tmp_path, setting):
    campaign = make_campaign(Matrix(include=[CASE]))
    stamp, entries = plan_campaign(campaign, REGISTRY)
    create_campaign(tmp_path, campaign, entries, stamp)
    document = json.loads((tmp_path / "campaign.json").read_text())
    document["cases"][0]["spec"] = hostile(setting).to_dict()
    (tmp_path / "campaign.json").write_text(json.dumps(document))
    with pytest.raises(SpecError, match=f"--allow {named(setting)} "):
        resume(tmp_path)
    with pytest.raises(SpecError, match=f"--allow {named(setting)} "):
        resume(tmp_path, allow=["lock", "other"])
    (name, value), *_ = SETTINGS[setting][1].items()
    if "." in setting:  # an option cannot be written in another way
        document["cases"][0]["spec"] |= {name: {}, setting: next(iter(value.values()))}
        (tmp_path / "campaign.json").write_text(json.dumps(document))
        with pytest.raises(DlperfError, match="does not describe a campaign"):
            resume(tmp_path)


@pytest.mark.parametrize("id", ["../../outside", "/tmp/outside", "..", "a/b", 3])
def test_a_case_of_a_directory_names_no_place_outside_of_it(tmp_path, id):
    campaign = make_campaign(Matrix(include=[CASE]))
    stamp, entries = plan_campaign(campaign, REGISTRY)
    create_campaign(tmp_path / "it", campaign, entries, stamp)
    path = tmp_path / "it" / "campaign.json"
    document = json.loads(path.read_text())
    document["cases"][0]["id"] = id
    path.write_text(json.dumps(document))
    (tmp_path / "outside").mkdir()
    with pytest.raises(DlperfError):
        resume(tmp_path / "it")
    assert (tmp_path / "outside").is_dir()


@pytest.mark.parametrize("setting", [item for item in EXECUTED if item != "python"])
def test_rerun_executes_only_allowed_programs_of_a_result(tmp_path, setting):
    launcher, fields = SETTINGS[setting]
    created = a_result(fields={**CASE, "topology": f"1n1d@{launcher}", **fields})
    with pytest.raises(SpecError, match=f"--allow {named(setting)}[ ]"):
        rerun(created, store=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_stream_decides_nothing_that_is_read(tmp_path):
    event = {
        "event": "case",
        "time": "2026-01-31T12:00:00+00:00",
        "id": "run-1",
        "spec": hostile("options.hostfile").to_dict(),
        "versions": {"python": "3.11.7", "packages": {}},
        "command": ["python3"],
        "variables": {},
        "plugin": "dlperf-numpy 0.1.0",
    }
    with pytest.raises(SpecError, match="hostfile") as refusal:
        replay.replay([json.dumps(event).encode()], tmp_path)
    assert "root:x" not in str(refusal.value)
    assert not list(tmp_path.iterdir())


# -- the options that plugins declare


@attrs.frozen
class CustomOptions:
    """Options whose names tell nothing."""

    tool: str = attrs.field(default="", metadata={"help": "A program.", "executes": True})
    table: str = context("A file.", "", reads=True)
    depth: int = context("A number.", 1)


class Custom(Local):
    """A launcher with options of its own."""

    name = "custom"
    Options = CustomOptions


CUSTOM = Registry({"topologies": {"custom": Custom}})


@pytest.mark.parametrize("option", ["tool", "table"])
def test_a_plugins_metadata_decides(tmp_path, option):
    fields = {**CASE, "topology": "1n1d@custom", "options": {option: "x"}}
    with pytest.raises(SpecError, match=f"sets the option {option}"):
        dry_run(write(tmp_path / "case.json", fields), registry=CUSTOM)
    document = {"name": "a", "fields": fields, "axes": {"options.depth": [1]}}
    with pytest.raises(CampaignError, match=f"sets the option {option}"):
        plan_campaign(file.load_campaign(write(tmp_path / "a.yaml", document)), CUSTOM)
    fields["options"] = {"depth": 2}
    assert dry_run(write(tmp_path / "case.json", fields), registry=CUSTOM).topology_options.depth == 2


HARMLESS_TEXTS = {
    *("interface", "ports", "hosts"),  # each host must be one that ssh or mpirun already trusts
    *(
        "partition",
        "account",
        "time_limit",
        "constraint",
        "gres",
    ),  # each is one word `--NAME=VALUE` of sbatch
    *("memory", "gpu_resource"),  # an amount and the name of a resource, in a manifest that the user submits
    "attention",  # one of a fixed list
}
"""Options with text values that name no program, no file and no server whose answers are executed."""


def test_options_with_texts_are_declared_or_known_to_be_harmless():
    options = {
        f"{name}.{field.name}": field
        for group in ("topologies", "frameworks", "models")
        for name in REGISTRY.names(group)
        for field in attrs.fields(REGISTRY.load(group, name).Options)
        if "str" in str(field.type)
    }
    assert {"ssh.hostfile", "slurm.srun_flags", "mpi.launcher_flags", "ray.address"} <= options.keys()
    undeclared = {name for name, field in options.items() if not has_effect(field.metadata)}
    assert {name.partition(".")[2] for name in undeclared} == HARMLESS_TEXTS


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_file_names_a_database(suffix, tmp_path):
    """Nothing connects to the database that a spec, a campaign or a result names."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"postgresql://127.0.0.1:{listener.getsockname()[1]}/results"
        documents = [
            {**CASE, "store": url},
            {**CASE, "options": {"store": url}},
            {"name": "one", "fields": CASE, "store": url},
            {"name": "one", "fields": {**CASE, "store": url}},
            {"name": "one", "fields": CASE, "settings": {"store": url}},
            {"name": "one", "fields": CASE, "axes": {"store": [url]}},
        ]
        for number, document in enumerate(documents):
            path = write(tmp_path / f"{number}{suffix}", document)
            for words in (["plan", str(path)], ["run", str(path)], ["campaign", "run", str(path)]):
                assert (
                    main([*words, *(["--output", str(tmp_path / "out")] if words[0] != "plan" else [])]) == 2
                )
        with pytest.raises(DlperfError):
            Result.from_dict({**a_result().to_dict(), "store": url})
        listener.settimeout(0)
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert not (tmp_path / "out").exists()
