"""The wheel holds the schemas, and validates with them where there is no checkout."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from dlperf_sdk.documents.schema import NAMES

ROOT = Path(__file__).parents[1]
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import dlperf_sdk.documents.schema as schema
from dlperf_sdk import RunSpec
from dlperf_sdk.errors import DocumentError

assert schema.__file__.startswith(sys.argv[1]), schema.__file__
assert str(schema._directory()).startswith(sys.argv[1]), schema._directory()
spec = RunSpec.from_dict({"framework": "torch", "model": "resnet50", "topology": "1n2d"})
schema.check("run-spec", spec.to_dict())
for name in schema.NAMES:
    try:
        schema.check(name, {"schema_version": "1.0"})
    except DocumentError as error:
        print(error)
"""


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """The wheel, built from this tree and unpacked where nothing else is."""
    built, clean = tmp_path_factory.mktemp("built"), tmp_path_factory.mktemp("clean")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(built), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = built.glob("dlperf_sdk-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(clean)
    return clean


def test_the_wheel_has_the_schemas_of_the_checkout(unpacked):
    schemas = {path.name: path.read_bytes() for path in (ROOT / "schemas").iterdir()}
    assert set(schemas) == {f"{name}.schema.json" for name in NAMES}
    assert {
        path.name: path.read_bytes() for path in (unpacked / "dlperf_sdk" / "schemas").iterdir()
    } == schemas


def test_each_plugin_of_this_project_is_an_extra(unpacked):
    (metadata,) = unpacked.glob("dlperf_sdk-*.dist-info/METADATA")
    extras = re.findall(
        r"^Requires-Dist: (dlperf-[^;]+); extra == '([^']+)'$", metadata.read_text(), re.MULTILINE
    )
    assert extras == [
        (path.name, path.name.removeprefix("dlperf-")) for path in sorted((ROOT / "plugins").iterdir())
    ]


def test_the_wheel_has_the_references_of_the_models(unpacked):
    source = ROOT / "src" / "dlperf_sdk" / "models" / "references"
    data = {path.name: path.read_bytes() for path in source.iterdir()}
    assert set(data) == {"resnet50.json", "bert_base.json"}
    shipped = unpacked / "dlperf_sdk" / "models" / "references"
    assert {path.name: path.read_bytes() for path in shipped.iterdir()} == data


def test_the_wheel_has_the_templates_of_the_report(unpacked):
    source = ROOT / "src" / "dlperf_sdk" / "reports" / "html" / "templates"
    shipped = unpacked / "dlperf_sdk" / "reports" / "html" / "templates"
    data = {path.name: path.read_bytes() for path in source.iterdir()}
    assert set(data) == {"page.html", "items.html", "style.css", "behavior.js", "search.js", "tables.js"}
    assert {path.name: path.read_bytes() for path in shipped.iterdir()} == data


def test_wheel_has_the_files_for_plugin_authors(unpacked):
    shipped, source = unpacked / "dlperf_sdk", ROOT / "src" / "dlperf_sdk"
    templates = {path.name for path in (source / "skeleton" / "templates").iterdir()}
    assert {path.name for path in (shipped / "skeleton" / "templates").iterdir()} == templates
    assert len(templates) == 11
    assert (shipped / "testing" / "sample.jpg").read_bytes() == (
        source / "testing" / "sample.jpg"
    ).read_bytes()
    assert (shipped / "py.typed").exists()


def test_the_wheel_has_every_module_and_nothing_else(unpacked):
    source = ROOT / "src" / "dlperf_sdk"
    modules = {str(path.relative_to(source)) for path in source.rglob("*.py")}
    assert {str(path.relative_to(unpacked / "dlperf_sdk")) for path in unpacked.rglob("*.py")} == modules
    assert {path.name.partition("-")[0] for path in unpacked.iterdir()} == {"dlperf_sdk"}


def test_a_document_is_checked_from_the_wheel(unpacked):
    """`-I`: no current directory, no user's packages, no PYTHONPATH: the wheel and what it needs."""
    command = [sys.executable, "-I", "-c", PROGRAM, str(unpacked)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=unpacked.parent)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(NAMES)
    assert all(" is not valid at $: " in line and " must be there" in line for line in lines)
