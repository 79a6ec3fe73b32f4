"""Conversion of an HTML report to blocks, so that Markdown has the same content."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import evolve

from dlperf_sdk.reports.blocks import Block, Heading, Labels, Paragraph
from dlperf_sdk.reports.html.page import Abreast, Choice, Folded, Item, Page, Plot, Sortable


def blocks_of(page: Page) -> list[Block]:
    """Return the whole content of a page as blocks, in the order of the page.

    In place of a plot there are its description and, if it has one, the table of its numbers.
    """
    blocks: list[Block] = [Heading(page.title)]
    if page.lede:
        blocks.append(Paragraph(page.lede))
    blocks.append(
        Labels(
            tuple(
                (tile.label, f"{tile.value} ({tile.text})" if tile.text else tile.value)
                for tile in page.tiles
            )
        )
    )
    for section in page.sections:
        blocks.append(Heading(section.title))
        if section.lede:
            blocks.append(Paragraph(section.lede))
        blocks += _blocks(section.items)
    return [*blocks, Paragraph(page.colophon, "quiet")]


def _blocks(items: Sequence[Item]) -> Iterator[Block]:
    for item in items:
        match item:
            case Abreast():
                yield from _blocks(item.items)
            case Choice():
                yield from _blocks(item.options)
            case Folded():
                yield Heading(item.title)
                yield from _blocks(item.items)
            case Plot():
                if item.numbers is None:
                    yield Paragraph(f"{item.title}. {item.description}")
                else:
                    yield evolve(item.numbers, title=item.title)
                    yield Paragraph(item.description)
            case Sortable():
                yield item.table
            case _:
                yield item
