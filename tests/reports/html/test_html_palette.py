"""Tests of the colors and symbols that the plots of a page share."""

import json
import re
from collections import Counter

from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.reports import html
from dlperf_sdk.reports.html import palette
from dlperf_sdk.reports.html.palette import Palette


def spec(*names):
    encoding = {channel: {"scale": {"domain": list(names)}} for channel in ("color", "shape")}
    return {"layer": [{"encoding": encoding}], "data": {"values": [{"series": name} for name in names]}}


def colors(page_palette, *names):
    painted = page_palette.paint(spec(*names))
    return painted["layer"][0]["encoding"]["color"]["scale"]["range"]


def test_a_series_keeps_its_color_in_later_plots():
    page_palette = Palette()
    first = colors(page_palette, "torch 2.1 fp32", "torch 2.2 fp32", "mxnet fp32")
    assert colors(page_palette, "mxnet fp32", "torch 2.2 fp32") == [first[2], first[1]]


def test_a_framework_keeps_its_color_under_another_label():
    page_palette = Palette()
    torch, mxnet = colors(page_palette, "torch fp32", "mxnet fp32")
    assert colors(page_palette, "mxnet amp-fp16 dynamic", "torch amp-fp16") == [mxnet, torch]


def test_series_of_one_plot_have_different_colors():
    page_palette = Palette()
    # Each has its framework's color in its own plot; together one of them must yield.
    colors(page_palette, "torch fp32")
    colors(page_palette, "torch tf32")
    together = colors(page_palette, "torch fp32", "torch tf32", *(f"framework{i} fp32" for i in range(8)))
    assert len(set(together)) == palette.MOST_SERIES


def test_series_of_the_same_color_differ_in_their_symbols():
    names = [f"torch {i}" for i in range(2 * palette.MOST_SERIES)]
    entries = Palette().legend(spec(*names))
    assert len({(entry.color, entry.path) for entry in entries}) == len(names)


def test_the_legend_has_the_colors_of_the_plot():
    page_palette = Palette()
    painted = page_palette.paint(spec("torch fp32", "mxnet fp32"))
    encoding = painted["layer"][0]["encoding"]
    entries = page_palette.legend(painted)
    assert [entry.color for entry in entries] == encoding["color"]["scale"]["range"]
    assert [palette._PATHS[shape] for shape in encoding["shape"]["scale"]["range"]] == [
        entry.path for entry in entries
    ]


def test_a_framework_has_one_color_in_four_of_five_plots_of_a_published_report():
    published_page = html.report_on_collection(Registry().collection("dlperf-v1.0"))
    by_framework: dict[str, Counter[str]] = {}
    for names, ranges in scales(published_page):
        frameworks = [name.split()[0] for name in names]
        for framework, color in zip(frameworks, ranges, strict=True):
            if frameworks.count(framework) == 1:
                by_framework.setdefault(framework, Counter())[color] += 1
    most_common = {name: counts.most_common(1)[0] for name, counts in by_framework.items()}
    assert len({color for color, _ in most_common.values()}) == len(by_framework) == 5
    for name, (_, count) in most_common.items():
        # Another color is that of a series which an earlier plot shows beside one of the same framework.
        assert count >= 0.8 * by_framework[name].total(), name


def scales(document):
    texts = re.findall(r'<script type="application/json">(\{.*?\})</script>', document, re.DOTALL)
    for plot in (json.loads(text) for text in texts if '"layer"' in text):
        for layer in plot["layer"]:
            scale = layer.get("encoding", {}).get("color", {}).get("scale")
            if scale:
                yield scale["domain"], scale["range"]
