"""The registry: names without imports, and plugins that are broken, doubled or not what they say."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from importlib.metadata import EntryPoints, entry_points

import pytest
from hypothesis import given
from hypothesis import strategies as st
from throwaway import distribution

from dlperf_sdk.cli import main
from dlperf_sdk.errors import DuplicatePlugin, PluginError, UnknownName
from dlperf_sdk.launchers.local import Local
from dlperf_sdk.registry import plugins
from dlperf_sdk.registry.groups import GROUPS
from dlperf_sdk.registry.plugins import Registry

ENGINE = """
    from contextlib import contextmanager
    from dlperf_sdk import Topology

    class Launcher(Topology):
        name = "{name}"

        def commands(self, job):
            return ()

        @contextmanager
        def launch(self, job):
            yield iter(())
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install throw-away plugins of the group `topologies`; their modules are forgotten afterwards."""
    created: list[str] = []

    def add(dist, name, source, attribute="Launcher", *, metadata=True):
        module = dist.replace("-", "_") + "_module"
        entry = {"dlperf_sdk.topologies": {name: f"{module}:{attribute}"}}
        distribution(tmp_path / dist, dist, entry, {module: source}, metadata=metadata)
        monkeypatch.syspath_prepend(tmp_path / dist)
        created.append(module)
        return module

    yield add
    for module in created:
        sys.modules.pop(module, None)


def test_every_built_in_plugin_loads_under_its_name():
    registry = Registry()
    for group, kind in GROUPS.items():
        for name in registry.names(group):
            assert isinstance(registry.load(group, name), kind.interface())
    assert {"resnet50", "bert-base", "linear"} <= set(registry.names("models"))
    assert "numpy" in registry.names("frameworks")


@pytest.mark.long
def test_a_plugin_of_a_private_distribution_works_but_is_in_no_list(capsys):
    """`dlperf-faulty`, which is for tests, has the classifier `Private :: Do Not Upload`."""
    registry = Registry()
    assert registry.framework("faulty").name == "faulty"
    assert registry.has_plugin("frameworks", "faulty")
    assert "faulty" not in registry.names("frameworks")
    with pytest.raises(UnknownName) as caught:
        registry.framework("fault")
    assert "faulty" not in str(caught.value)
    for words in (["list"], ["list", "--json"], ["describe", "resnet50"], ["doctor"]):
        main(words)
        assert "faulty" not in capsys.readouterr().out


def test_third_party_plugin_is_found(install):
    install("dlperf-mine", "mine", ENGINE.format(name="mine"))
    row = next(row for row in Registry().rows("topologies") if row.name == "mine")
    assert (row.distribution, row.target) == ("dlperf-mine 1.0", "dlperf_mine_module:Launcher")
    assert Registry().topology("mine").name == "mine"
    assert Registry().distribution("topologies", "mine") == "dlperf-mine 1.0"


@given(st.sets(st.text("abcdefgh_", min_size=1, max_size=9), max_size=40), st.text("abcdefgh_z", max_size=9))
def test_of_many_names_those_that_are_like_it_are_listed_or_the_first(known, name):
    error = UnknownName("thing", name, known)
    listed = re.search(r"(?:Known|Also similar): (.*?)(?:, and (\d+) more)?\.", str(error))
    named = set(listed[1].split(", ")) if listed else set()
    meant = re.search("Did you mean '(.*?)'", str(error))
    assert set(error.known) == known and named <= known and len(named) <= 12
    if known and len(known) <= 12:
        assert named == known
    elif known and meant:
        assert len(named) <= 2 and meant[1] not in named
    elif known:
        assert int(listed[2]) == len(known) - len(named)


def test_an_unknown_name_gets_a_suggestion_and_the_names_that_exist():
    with pytest.raises(UnknownName, match=r"Did you mean 'local'\?.*dlperf_sdk\.topologies") as caught:
        Registry().topology("locall")
    assert caught.value.kind == "launcher"
    assert "local" in caught.value.known


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("import no_such_framework", "ModuleNotFoundError: No module named 'no_such_framework'"),
        ("raise AssertionError('not today')", "AssertionError: not today"),
        ("import sys; sys.exit('bye')", "SystemExit: bye"),
        ("class Other: pass", "AttributeError"),
        ("def (", "SyntaxError"),
        (
            ENGINE.format(name="broken")
            + "        def __init__(self):\n            raise OSError('no licence')\n",
            "no licence",
        ),
    ],
)
def test_a_broken_plugin_is_an_error_that_names_its_distribution(install, source, output):
    install("dlperf-broken", "broken", source)
    install("dlperf-mine", "mine", ENGINE.format(name="mine"))
    registry = Registry()
    assert {"broken", "mine", "local"} <= set(registry.names("topologies"))
    with pytest.raises(PluginError, match="'broken' of dlperf-broken 1.0 cannot be used") as caught:
        registry.topology("broken")
    assert output in str(caught.value)
    assert registry.topology("mine").name == "mine"
    assert isinstance(registry.topology("local"), Local)


def test_an_entry_point_that_makes_no_sense(install):
    install("dlperf-broken", "broken", "", "not a name!")
    with pytest.raises(PluginError, match="'broken' of dlperf-broken 1.0"):
        Registry().topology("broken")


def test_two_distributions_of_one_name(install):
    install("dlperf-one", "mine", ENGINE.format(name="mine"))
    install("dlperf-two", "mine", ENGINE.format(name="mine"))
    registry = Registry()
    assert [row.distribution for row in registry.rows("topologies") if row.name == "mine"] == [
        "dlperf-one 1.0",
        "dlperf-two 1.0",
    ]
    with pytest.raises(
        DuplicatePlugin, match=r"dlperf-one 1\.0 \(.*\) and dlperf-two 1\.0 \(.*\)\. Uninstall one"
    ):
        registry.topology("mine")
    assert isinstance(registry.topology("local"), Local)


@pytest.mark.parametrize("thing", ["class Launcher: pass", "Launcher = 3", "def Launcher(): ..."])
def test_plugin_of_another_interface_is_refused(install, thing):
    install("dlperf-other", "other", thing)
    with pytest.raises(PluginError, match=r"'other' of dlperf-other 1\.0 does not implement Topology"):
        Registry().topology("other")


def test_abstract_class_is_refused_as_a_plugin(install):
    install(
        "dlperf-half",
        "half",
        "from dlperf_sdk import Topology\nclass Launcher(Topology):\n    name = 'half'\n",
    )
    with pytest.raises(PluginError, match="abstract"):
        Registry().topology("half")


def test_entry_point_and_class_must_agree_on_the_name(install):
    install("dlperf-mine", "mine", ENGINE.format(name="yours"))
    with pytest.raises(PluginError, match=r"'mine' of dlperf-mine 1\.0 calls itself 'yours'"):
        Registry().topology("mine")


def test_a_distribution_without_metadata_is_a_row(install):
    """What a half-finished uninstallation leaves behind."""
    install("dlperf-lost", "lost", ENGINE.format(name="lost"), metadata=False)
    row = next(row for row in Registry().rows("topologies") if row.name == "lost")
    assert "without metadata" in row.distribution
    assert "dlperf_lost-1.0.dist-info" in row.distribution


def test_plugins_at_hand():
    class Mine(Local):
        name = "mine"

    registry = Registry({"topologies": {"mine": Mine}})
    assert isinstance(registry.topology("mine"), Mine)
    assert registry.distribution("topologies", "mine") == "given at run time"
    with pytest.raises(DuplicatePlugin, match="given at run time"):
        Registry({"topologies": {"local": Mine}}).topology("local")


def test_a_trainer_may_come_from_either_side():
    registry = Registry()

    class Theirs(type(registry.model("linear"))):
        trainers = {"numpy": "theirs:Trainer", "elsewhere": "theirs:Other"}

    class Elsewhere(type(registry.framework("numpy"))):
        name = "elsewhere"
        trainers = {}

    numpy = registry.framework("numpy")
    assert registry.trainer(numpy, registry.model("linear")) == "dlperf_numpy.worker:Linear"
    assert registry.trainer(numpy, Theirs()) == "dlperf_numpy.worker:Linear"
    assert registry.trainer(Elsewhere(), Theirs()) == "theirs:Other"
    assert registry.trainer(Elsewhere(), registry.model("resnet50")) is None


def test_listing_imports_nothing(tmp_path):
    source = f"open({str(tmp_path / 'imported')!r}, 'w')"
    entry = {f"dlperf_sdk.{group}": {"mine": "mine_module:Mine"} for group in GROUPS}
    distribution(tmp_path / "site", "dlperf-mine", entry, {"mine_module": source})
    script = """
        import json, sys
        from dlperf_sdk.registry.groups import GROUPS
        from dlperf_sdk.registry.plugins import Registry
        names = {group: Registry().names(group) for group in GROUPS}
        print(json.dumps([names, sorted(sys.modules)]))
    """
    answer = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={"PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        check=True,
    )
    names, modules = json.loads(answer.stdout)
    assert all("mine" in actual for actual in names.values())
    assert not (tmp_path / "imported").exists()
    assert not {
        "dlperf_published",
        "dlperf_numpy",
        "dlperf_torch",
        "dlperf_sdk.models.resnet50",
        "dlperf_sdk.launchers.local",
    } & set(modules)


# -- collections of published figures, and importers


THIRD_PARTY = """
    from dlperf_sdk.interfaces.collection import Collection, Figures
    from dlperf_sdk.interfaces.figure import PublishedFigure
    from dlperf_sdk.interfaces.importer import Importer, Reading

    FIGURE = {
        "collection": "theirs",
        **{"framework": "torch", "implementation": "their-own", "framework_version": "2.9"},
        **{"model": "resnet50", "printed_model": "ResNet-50", "topology": "1n2d", "batch_size": 32},
        **{"precision": "fp32", "compiler": "none", "strategy": "all_reduce", "device": "cuda"},
        **{"hardware": "B200", "data": "synthetic", "throughput": 406.0, "unit": "img/s"},
        **{"date": "2026-01", "release": "1", "estimator": "unknown", "source": {"document": "paper.pdf", "line": 3}},
    }

    class Theirs(Collection):
        name = "theirs"
        title = "Their paper"
        description = "Figures of their paper."
        figures = Figures("theirs", (PublishedFigure.from_valid(FIGURE),))

    class TheirLog(Importer):
        name = "their-log"
        version = "1"

        def read(self, log, given):
            return Reading("theirs", {}, float(next(iter(log))[1]), "loop-elapsed", "images over the loop's time")
"""


@pytest.fixture
def third_party(tmp_path, monkeypatch):
    """Install a distribution with a collection and an importer."""
    entries = {
        "dlperf_sdk.collections": {"theirs": "their_module:Theirs"},
        "dlperf_sdk.importers": {"their-log": "their_module:TheirLog"},
    }
    distribution(tmp_path / "site", "dlperf-theirs", entries, {"their_module": THIRD_PARTY})
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.chdir(tmp_path)
    yield
    sys.modules.pop("their_module", None)


def test_a_third_partys_collection_is_reported_in_every_format(third_party, capsys):
    pytest.importorskip("altair")
    for form, text in (("terminal", "Their paper"), ("markdown", "Their paper"), ("html", "paper.pdf:3")):
        assert main(["report", "--published", "theirs", "--format", form]) == 0
        assert text in capsys.readouterr().out
    assert main(["report", "--published", "theirs", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [figure["throughput"] for figure in document["figures"]] == [406.0]
    assert document["disagreements"] == []
    assert main(["describe", "theirs"]) == 0
    assert "Figures of their paper." in capsys.readouterr().out


def test_a_third_partys_importer_makes_results_that_its_figures_are_compared_with(
    third_party, tmp_path, capsys
):
    (tmp_path / "run.log").write_text("203\n")
    case = ("framework=torch", "model=resnet50", "topology=1n2d", "batch_size=32", "precision=fp32")
    assert main(["import", "their-log", "run.log", *(w for fact in case for w in ("--set", fact))]) == 0
    capsys.readouterr()
    assert main(["report", "--compare-published", "theirs"]) == 0
    shown = capsys.readouterr().out
    assert "Comparison with Their paper" in shown and "0.500" in shown
    assert main(["describe", "importer", "their-log"]) == 0


@pytest.mark.parametrize(
    ("words", "group"),
    [
        (["report", "--published", "dlperf-v1.0"], "collections"),
        (["report", "--compare-published", "dlperf-v1.0"], "collections"),
        (["import", "dllogger", "run.log"], "importers"),
        (["plan", "preset:dlperf-v1"], "presets"),
    ],
)
def test_without_our_distribution_the_error_names_it(third_party, words, group, monkeypatch, capsys):
    entries = EntryPoints(
        entry
        for group in GROUPS
        for entry in entry_points(group=f"dlperf_sdk.{group}")
        if entry.dist.name != "dlperf-published"
    )
    monkeypatch.setattr(plugins, "entry_points", lambda: entries)
    assert main(words) == 2
    assert (
        f"`pip install --find-links dist dlperf-published` adds the {group} of this project"
        in capsys.readouterr().err
    )


def test_a_misspelt_collection_or_importer_gets_a_suggestion():
    with pytest.raises(UnknownName, match=r"Did you mean 'dlperf-v1.0'\?"):
        Registry().collection("dlperf-v1")
    with pytest.raises(UnknownName, match=r"Did you mean 'dllogger'\?"):
        Registry().importer("dlloger")
