"""Render the page of a plugin: its facts, options, environments and arithmetic as blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dlperf_sdk.cli import model_page
from dlperf_sdk.reports.blocks import Block, Cell, Column, Heading, Labels, Paragraph, Table
from dlperf_sdk.reports.numbers import format_count, quantity
from dlperf_sdk.spec.fields import EFFECTS

_LISTS = (("models", "Models"), ("frameworks", "Frameworks"), ("data", "Data"), ("samplers", "Samplers"))


def blocks(about: Mapping[str, Any]) -> list[Block]:
    """Return the page of a plugin from the values that `describe` collected."""
    page: list[Block] = [Heading(about["name"], Cell(f"{about['group']}, {about['distribution']}", "quiet"))]
    if about["description"]:
        page.append(Paragraph(about["description"].split("\n\n")[0].replace("\n", " ")))
    pairs = _facts(about)
    if pairs:
        page.append(Labels(tuple(pairs)))
    if about.get("options"):
        rows = [
            (option["name"], option["type"], _format_value(option["default"]), _meaning(option))
            for option in about["options"]
        ]
        columns = (Column("option"), Column("type"), Column("default", right=True), Column("meaning"))
        page.append(Table(columns, tuple(rows), "Options, set with --set NAME=VALUE"))
    if "environments" in about:
        rows_of = [
            (
                device,
                requirement["python"],
                ", ".join(requirement["requirements"]) or "none",
                "yes" if requirement["lock"] else "no",
            )
            for device, requirement in about["environments"].items()
        ]
        columns = (Column("device"), Column("python"), Column("requirements"), Column("lock"))
        page.append(Table(columns, tuple(rows_of), "Environments"))
    if "flops" in about:
        page += _arithmetic(about)
    if "manifest" in about:
        page += model_page.blocks(about["page"], about["manifest"])
    return page


def _meaning(option: Mapping[str, Any]) -> str:
    """Return an option's help text, and a mark if its value executes a program or reads a file."""
    effects = [effect for effect in EFFECTS if option[effect]]
    return (
        f"{option['help']} ({', '.join(effects)}: no spec file may set it)"
        if effects
        else str(option["help"])
    )


def _facts(about: Mapping[str, Any]) -> list[tuple[str, str]]:
    pairs = [(label, ", ".join(about[key]) or "none") for key, label in _LISTS if key in about]
    pairs += [
        (name.capitalize(), ", ".join(value) if isinstance(value, list) else "yes" if value else "no")
        for name, value in about.get("capabilities", {}).items()
    ]
    if "written" in about:
        pairs.append(("Topology", about["written"]))
    if "figures" in about:
        pairs += [
            ("Title", about["title"]),
            ("Source", about["source"]),
            ("Figures", f"{about['figures']:,}"),
        ]
    if "parameters" in about:
        inputs = (f"{entry['name']} {tuple(entry['shape'])} {entry['dtype']}" for entry in about["inputs"])
        numbers = ", ".join(
            f"{name} {_format_value(value)}"
            for name, value in about["optimizer"].items()
            if name not in ("kind", "source")
        )
        pairs += [
            ("Throughput in", about["unit"]),
            ("Inputs", "; ".join(inputs)),
            ("Parameters", f"{about['parameters']:,}, in {format_count(about['tensors'], 'tensor')}"),
            ("FLOPs", f"{about['flops_per_sample']:,} per sample and training step"),
            ("Optimizer", f"{about['optimizer']['kind']}: {numbers}"),
            ("", f"at a global batch size of 32; {about['optimizer']['source']}"),
        ]
    return pairs


def _arithmetic(about: Mapping[str, Any]) -> list[Block]:
    rows = [
        (term["name"], f"{term['macs']:,}", str(term["passes"]), quantity(term["flops"], "FLOP"))
        for term in about["flops"]
    ]
    rows.append(("sum", "", "", quantity(about["flops_per_sample"], "FLOP")))
    columns = (
        Column("layer"),
        Column("multiply-accumulates", right=True),
        Column("passes", right=True),
        Column("2 × both", right=True),
    )
    note = "3 passes: forward, gradient of the input and of the weight; 2 where the input needs no gradient."
    return [
        Table(columns, tuple(rows), "Arithmetic of one training step per sample"),
        Paragraph(note, "quiet"),
    ]


def _format_value(value: Any) -> str:
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
