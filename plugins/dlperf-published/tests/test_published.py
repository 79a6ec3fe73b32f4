"""The published figures: each is what its source says at its line, and can be asked for."""

import json
import re
import subprocess
import sys
import zipfile
from fractions import Fraction
from pathlib import Path

import pytest
from dlperf_published.collections import COLLECTIONS
from dlperf_published.source_data import figures as published
from hypothesis import given
from hypothesis import strategies as st

from dlperf_sdk.documents import schema
from dlperf_sdk.errors import DocumentError, UnknownName, UsageError
from dlperf_sdk.interfaces.figure import PublishedFigure
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.worker.estimate import median

NAMES = [collection.name for collection in COLLECTIONS]
HERE = Path(__file__).parent
SOURCES = {
    (document, int(line)): text
    for document, line, text in (
        row.split("\t") for row in (HERE / "sources.tsv").read_text(encoding="utf-8").splitlines()
    )
}
"""Lines of the source documents, as they stand there."""


def cells(text):
    """The cells of a row of a Markdown table."""
    return [cell.strip() for cell in text.strip().strip("|").split("|")]


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_is_valid_and_survives_its_document(name):
    for figure in published(name):
        document = figure.to_dict()
        schema.check("published", document)
        assert PublishedFigure.from_dict(json.loads(json.dumps(document))) == figure
        assert figure.collection == name


@pytest.mark.parametrize(("name", "count"), [("dlperf-v1.0", 323), ("tf-cnn-2017", 64), ("tensorpack", 37)])
def test_nothing_is_missing_and_nothing_is_there_twice(name, count):
    described = [
        (
            *(f.framework_version, f.implementation, f.date, str(f.topology)),
            *((role, str(f.value(role))) for role in sorted(f.roles())),
        )
        for f in published(name)
    ]
    assert len(described) == len(set(described)) == count


def test_dlperf_figure_equals_its_line():
    for figure in published("dlperf-v1.0"):
        row = cells(SOURCES[figure.source.document, figure.source.line])
        numbers = [Fraction(cell.rstrip("x")) for cell in row if re.fullmatch(r"\d+(\.\d+)?x?", cell)]
        # The columns are in different orders; throughput is the one before the speedup everywhere.
        assert numbers[-2:] == [Fraction(str(figure.throughput)), Fraction(str(figure.printed_speedup))], row
        assert figure.topology.nodes == numbers[0]
        assert numbers[1] in (figure.topology.devices_per_node, figure.devices), row
        # Some reports say the batch size in the heading.
        assert len(numbers) == 4 or figure.batch_size in numbers, row


def test_tensorpack_figure_equals_its_line():
    place = {"constant": 0, "in-graph": 1, "python-queue": 2}
    for figure in published("tensorpack").filter(date="2017-09"):
        devices, ours, theirs = cells(SOURCES[figure.source.document, figure.source.line])
        assert int(devices) == figure.devices
        printed = (
            theirs
            if figure.implementation != "tensorpack"
            else ours.split("/")[place[figure.options["input_pipeline"]]]
        )
        assert float(printed) == figure.throughput
    for figure in published("tensorpack").filter(date="2019-05"):
        text = SOURCES[figure.source.document, figure.source.line]
        assert re.search(rf"\b{figure.throughput:g} img/s", text)
        assert ("--use-fp16" in text) == (figure.precision == "fp16")
        assert ("--use-xla-compile" in text) == (figure.compiler == "xla")
        assert ("--batch 128" in text) == (figure.batch_size == 128)
        strategy = re.search(r"--variable-update=(\w+)", text)[1]
        assert {"replicated": "all_reduce"}.get(strategy, strategy) == figure.strategy


def test_the_spreadsheet_s_figures_make_up_its_lines():
    """Its text has no boundaries between cells: all cells of a row make up the line, in the source's order."""
    table = published("tf-cnn-2017")
    for line in {figure.source.line for figure in table}:
        row = [figure for figure in table if figure.source.line == line]
        text = SOURCES["Benchmarks: TensorFlow, a spreadsheet", line]
        # The label of the first row is `images/s` and 1, those of the others are 2, 3 and 4.
        assert re.sub(r"^(images/s)?[1-4]", "", text, count=1) == "".join(f"{f.throughput:g}" for f in row)
        assert len(row) == 16


def test_published_repeats_have_the_figure_as_their_median():
    with_repeats = [figure for figure in published("dlperf-v1.0") if figure.repeats]
    assert len(with_repeats) == 80
    for figure in with_repeats:
        assert abs(Fraction(str(median(figure.repeats))) - Fraction(str(figure.throughput))) <= Fraction(
            "0.005"
        ), figure.source


def test_collections_are_looked_up_by_name():
    assert set(NAMES) <= set(Registry().names("collections"))
    for name in NAMES:
        assert Registry().collection(name).figures == published(name)


# -- asking


def test_figures_are_filtered_by_field_and_option():
    table = published("dlperf-v1.0")
    actual = table.filter(framework="oneflow", model="bert-base", topology=("1n1d", "4n8d"), clip_norm=0)
    assert len(actual) == 8
    assert {str(figure.topology) for figure in actual} == {"1n1d", "4n8d"}
    assert (
        table.get(framework="mxnet", model="resnet50", precision="fp16", topology="4n8d").throughput
        == 30713.68
    )
    assert table.filter(model="resnet50").filter(clip_norm=None) == table.filter(model="resnet50")
    assert table.filter(precision="fp32").values("compiler") == ("none",)
    assert len(table.filter(framework="jax")) == 0


def test_missing_figures_are_reported():
    with pytest.raises(UnknownName, match=r"Did you mean 'dlperf-v1.0'"):
        Registry().collection("dlperf-v1")
    table = published("tensorpack")
    with pytest.raises(UnknownName, match="Did you mean 'framework'"):
        table.filter(framwork="tensorflow")
    with pytest.raises(UsageError, match=r"has no figure with precision='bf16'"):
        table.get(precision="bf16")
    with pytest.raises(UsageError, match="They differ in batch_size, compiler: say which"):
        table.get(precision="fp16")


FIGURE = published("tensorpack").figures[0].to_dict()


@pytest.mark.parametrize(
    ("change", "output"),
    [
        ({"throughput": 0}, "more than 0"),
        ({"throughput": float("nan")}, "not a JSON number"),
        ({"topology": "0n8d"}, "topology"),
        ({"options": {"clip": 1}}, "'clip' is not a known key"),
        ({"schema_version": "2.0"}, "update it"),
        ({"source": {"document": "a"}}, "'line' must be there"),
    ],
)
def test_a_bad_figure_is_refused(change, output):
    with pytest.raises(DocumentError, match=re.escape(output)):
        PublishedFigure.from_dict({**FIGURE, **change})


@given(
    st.sampled_from(sorted(FIGURE)),
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=2),
)
def test_any_other_value_is_valid_or_refused(key, value):
    """Nothing else than a refusal comes of a wrong value."""
    try:
        PublishedFigure.from_dict({**FIGURE, key: value})
    except (DocumentError, UsageError):
        return
    schema.check("published", {**FIGURE, key: value})


def test_the_wheel_has_the_data(tmp_path):
    project = HERE.parent
    command = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(tmp_path),
        str(project),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    with zipfile.ZipFile(next(tmp_path.glob("dlperf_published-*.whl"))) as wheel:
        shipped = {
            name: wheel.read(name) for name in wheel.namelist() if name.startswith("dlperf_published/data/")
        }
    data = project / "src" / "dlperf_published" / "data"
    assert shipped == {f"dlperf_published/data/{path.name}": path.read_bytes() for path in data.iterdir()}
    assert len(shipped) == 2 * len(NAMES)
