"""The page of a plugin as blocks: its facts, options, environments and FLOP count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dlperf_sdk.cli import model_page
from dlperf_sdk.reports.blocks import Block, Cell, Column, Heading, Labels, Paragraph, Table
from dlperf_sdk.reports.numbers import format_count, quantity
from dlperf_sdk.spec.fields import EFFECTS
from dlperf_sdk.spec.values import format_scalar

_LISTS = ("models", "frameworks", "data", "samplers", "hooks")


def blocks(details: Mapping[str, Any]) -> list[Block]:
    """Return the page of a plugin as blocks: headings, paragraphs and tables, for a terminal or another format.

    Args:
        details: The JSON values that `dlperf describe PLUGIN --json` prints.
    """
    page: list[Block] = [
        Heading(details["name"], Cell(f"{details['group']}, {details['distribution']}", "quiet"))
    ]
    if details["description"]:
        page.append(Paragraph(details["description"].split("\n\n")[0].replace("\n", " ")))
    pairs = _facts(details)
    if pairs:
        page.append(Labels(tuple(pairs)))
    if details.get("options"):
        rows = [
            (option["name"], option["type"], _format_value(option["default"]), _meaning(option))
            for option in details["options"]
        ]
        columns = (Column("option"), Column("type"), Column("default", right=True), Column("meaning"))
        page.append(Table(columns, tuple(rows), "Options, set with --set NAME=VALUE"))
    if "environments" in details:
        rows_of = [
            (
                device,
                requirement["python"],
                ", ".join(requirement["requirements"]) or "none",
                "yes" if requirement["lock"] else "no",
            )
            for device, requirement in details["environments"].items()
        ]
        columns = (Column("device"), Column("python"), Column("requirements"), Column("lock"))
        page.append(Table(columns, tuple(rows_of), "Environments"))
    if "flops" in details:
        page += _arithmetic(details)
    if "manifest" in details:
        page += model_page.blocks(details["page"], details["manifest"])
    return page


def _meaning(option: Mapping[str, Any]) -> str:
    """Return an option's help text, and a mark if its value executes a program or reads a file."""
    effects = [effect for effect in EFFECTS if option[effect]]
    return (
        f"{option['help']} ({', '.join(effects)}: no spec file may set it)"
        if effects
        else str(option["help"])
    )


def _facts(details: Mapping[str, Any]) -> list[tuple[str, str]]:
    pairs = [(key.capitalize(), ", ".join(details[key]) or "none") for key in _LISTS if key in details]
    pairs += [
        (name.capitalize(), ", ".join(value) if isinstance(value, list) else "yes" if value else "no")
        for name, value in details.get("capabilities", {}).items()
    ]
    if "written" in details:
        pairs.append(("Topology", details["written"]))
    if "figures" in details:
        pairs += [
            ("Title", details["title"]),
            ("Source", details["source"]),
            ("Figures", f"{details['figures']:,}"),
        ]
    if "parameters" in details:
        inputs = (f"{entry['name']} {tuple(entry['shape'])} {entry['dtype']}" for entry in details["inputs"])
        numbers = ", ".join(
            f"{name} {_format_value(value)}"
            for name, value in details["optimizer"].items()
            if name not in ("kind", "source")
        )
        pairs += [
            ("Throughput in", details["unit"]),
            ("Inputs", "; ".join(inputs)),
            ("Parameters", f"{details['parameters']:,}, in {format_count(details['tensors'], 'tensor')}"),
            ("FLOPs", f"{details['flops_per_sample']:,} per sample and training step"),
            ("Optimizer", f"{details['optimizer']['kind']}: {numbers}"),
            ("", f"at a global batch size of 32; {details['optimizer']['source']}"),
        ]
    return pairs


def _arithmetic(details: Mapping[str, Any]) -> list[Block]:
    rows = [
        (term["name"], f"{term['macs']:,}", str(term["passes"]), quantity(term["flops"], "FLOP"))
        for term in details["flops"]
    ]
    rows.append(("sum", "", "", quantity(details["flops_per_sample"], "FLOP")))
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
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else format_scalar(value)
