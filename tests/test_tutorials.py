"""The tutorials work: every code block is executed, or saved as the file that it is, in order."""

from __future__ import annotations

import sysconfig
import venv
from pathlib import Path

import attrs
import pytest
from code_blocks import LANGUAGES, PROGRAMS, blocks_of, execute

ROOT = Path(__file__).parents[1]
TUTORIALS = ROOT / "docs" / "tutorials"
LAUNCHER = """\
#!{python}
import sys
from dlperf_sdk.__main__ import main
sys.exit(main())
"""


def follow(name: str, folder: Path, programs: Path = PROGRAMS, kind: str = "tutorials") -> None:
    """Execute all blocks of a page in a folder, except those that are text only."""
    blocks = [block for block in blocks_of(ROOT / "docs" / kind / f"{name}.md") if block.language != "text"]
    assert blocks
    for block in blocks:
        execute(block, folder, programs)


def test_every_code_block_is_marked_for_execution():
    pages = [page for page in TUTORIALS.glob("*.md") if page.name != "index.md"]
    assert pages
    for page in pages:
        assert {block.language for block in blocks_of(page)} <= LANGUAGES - {"text"}, page.name


def test_the_examples_of_a_launcher_and_a_measurer(tmp_path):
    launcher, measurer = blocks_of(ROOT / "docs" / "how-to" / "extend.md")
    execute(launcher, tmp_path)
    use = """
from dlperf_sdk import run
from dlperf_sdk.registry.plugins import Registry

registry = Registry({"measurers": {"least-memory": LeastMemory}})
result = run("numpy", "linear", batch_size=4, warmup=1, steps=5, repeats=1, store=None, registry=registry)
assert any(metric.name == "least-host-memory" and metric.value > 0 for metric in result.metrics)
"""
    execute(attrs.evolve(measurer, text=measurer.text + use), tmp_path)


def test_model_references(tmp_path):
    follow("model-references", tmp_path, kind="how-to")


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """An environment over the present one, into which a plugin can be installed, and its folder of programs."""
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=True)
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "present.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    launcher = environment / "bin" / "dlperf"
    launcher.write_text(LAUNCHER.format(python=environment / "bin" / "python"))
    launcher.chmod(0o755)
    return launcher.parent


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_framework_plugin(tmp_path, programs, monkeypatch):
    monkeypatch.setenv("PIP_NO_BUILD_ISOLATION", "0")  # pip's word for: without isolation
    follow("framework-plugin", tmp_path, programs)


@pytest.mark.framework
@pytest.mark.timeout(1200)
def test_first_benchmark(tmp_path):
    follow("first-benchmark", tmp_path)


@pytest.mark.framework
@pytest.mark.timeout(1200)
def test_campaign_on_a_cluster(tmp_path):
    follow("campaign-on-a-cluster", tmp_path)


@pytest.mark.framework
@pytest.mark.timeout(1200)
def test_query_results(tmp_path):
    follow("query-results", tmp_path, kind="how-to")


@pytest.mark.framework
@pytest.mark.timeout(1200)
def test_history(tmp_path):
    follow("history", tmp_path, kind="how-to")


@pytest.mark.framework
@pytest.mark.timeout(1200)
def test_sweep(tmp_path):
    follow("sweep", tmp_path, kind="how-to")
    (report,) = tmp_path.glob("results/*-resnet50-sweep/report.html")
    assert "batch size" in report.read_text(encoding="utf-8")


@pytest.mark.framework
@pytest.mark.timeout(1200)
def test_own_images(tmp_path):
    follow("own-images", tmp_path, kind="how-to")


@pytest.mark.framework
@pytest.mark.timeout(1200)
def test_embed(tmp_path):
    pytest.importorskip("pandas", reason="The page makes a data frame.")
    follow("embed", tmp_path, kind="how-to")
    assert len(list(tmp_path.glob("dlperf-results/*/result.json"))) == 4


@pytest.mark.framework
@pytest.mark.timeout(1200)
def test_profile(tmp_path):
    follow("profile", tmp_path, kind="how-to")
    assert "What the profiler shows" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.framework
@pytest.mark.timeout(1200)
def test_regression_gate(tmp_path):
    follow("regression-gate", tmp_path, kind="how-to")


@pytest.mark.frameworks
@pytest.mark.timeout(1200)
def test_compare_two_frameworks(tmp_path):
    follow("compare-two-frameworks", tmp_path)
