"""Tests of the colors, symbols and dashes that the plots of a page share."""

import json
import re

import pytest

from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.reports import html
from dlperf_sdk.reports.html import palette
from dlperf_sdk.reports.html.palette import Palette

pytestmark = pytest.mark.long

CHANNELS = ("color", "shape", "strokeDash")


def spec(*names):
    encoding = {channel: {"scale": {"domain": list(names)}} for channel in CHANNELS}
    return {"layer": [{"encoding": encoding}], "data": {"values": [{"series": name} for name in names]}}


def looks(page_palette, *names):
    """The color, symbol and dash of each series."""
    encoding = page_palette.paint(spec(*names))["layer"][0]["encoding"]
    ranges = [encoding[channel]["scale"]["range"] for channel in CHANNELS]
    return [(color, shape, tuple(dash)) for color, shape, dash in zip(*ranges, strict=True)]


def test_a_framework_has_one_color_and_one_symbol_in_all_plots():
    plots = (
        ("torch 2.1 fp32", "torch 2.2 fp32", "mxnet fp32"),
        ("mxnet amp-fp16", "torch 2.2 fp32"),
        ("torch",),
    )
    page_palette = Palette.of_plots(spec(*names) for names in plots)
    by_framework = {}
    for names in plots:
        for name, (color, shape, _) in zip(names, looks(page_palette, *names), strict=True):
            by_framework.setdefault(name.split()[0], set()).add((color, shape))
    assert {name: len(found) for name, found in by_framework.items()} == {"torch": 1, "mxnet": 1}
    (torch,), (mxnet,) = by_framework["torch"], by_framework["mxnet"]
    assert torch[0] != mxnet[0] and torch[1] != mxnet[1]


def test_lines_of_a_framework_differ_in_their_dashes_and_keep_them():
    names = [*(f"torch {number}" for number in range(palette.MOST_SERIES)), "mxnet"]
    page_palette = Palette.of_plots([spec(*names)])
    first = looks(page_palette, *names)
    assert len(set(first)) == len(names)
    assert looks(page_palette, "mxnet", "torch 3") == [first[-1], first[3]]


def test_series_of_a_single_framework_differ_in_color_and_symbol():
    names = [f"torch {number}" for number in range(palette.MOST_SERIES)]
    page_palette = Palette.of_plots([spec("torch fp32"), spec(*names)])
    looks(page_palette, "torch fp32")
    together = looks(page_palette, "torch fp32", *names[:-1])
    assert len({color for color, _, _ in together}) == palette.MOST_SERIES
    assert {dash for _, _, dash in together} == {(1, 0)}
    assert len(set(looks(page_palette, *(f"torch {n}" for n in range(2 * palette.MOST_SERIES))))) == 20


def test_the_legend_has_the_looks_of_the_plot():
    page_palette = Palette.of_plots([spec("torch fp32", "torch tf32", "mxnet fp32")])
    painted = page_palette.paint(spec("torch fp32", "torch tf32", "mxnet fp32"))
    ranges = {name: painted["layer"][0]["encoding"][name]["scale"]["range"] for name in CHANNELS}
    entries = page_palette.legend(painted)
    assert [entry.color for entry in entries] == ranges["color"]
    assert [entry.path for entry in entries] == [palette._PATHS[shape] for shape in ranges["shape"]]
    assert [entry.dash for entry in entries] == ["", "8 4", ""]
    assert ranges["strokeDash"] == [[1, 0], [8, 4], [1, 0]]
    # Without lines the legend has symbols only.
    del painted["layer"][0]["encoding"]["strokeDash"]
    assert [entry.dash for entry in page_palette.legend(painted)] == [None] * 3


@pytest.mark.parametrize("channel", ["color", "shape"])
def test_a_framework_has_one_look_in_a_published_report(channel):
    published_page = html.report_on_collection(Registry().collection("dlperf-v1.0"))
    by_framework = {}
    for names, values in scales(published_page, channel):
        for name, value in zip(names, values, strict=True):
            by_framework.setdefault(name.split()[0], set()).add(value)
    assert len(by_framework) == 5 and all(len(values) == 1 for values in by_framework.values())
    assert len(set.union(*by_framework.values())) == 5


def scales(document, channel):
    texts = re.findall(r'<script type="application/json">(\{.*?\})</script>', document, re.DOTALL)
    for plot in (json.loads(text) for text in texts if '"layer"' in text):
        for layer in plot["layer"]:
            scale = layer.get("encoding", {}).get(channel, {}).get("scale")
            if scale:
                yield scale["domain"], scale["range"]
