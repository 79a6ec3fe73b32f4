"""Write the pages on published figures, published.md and prediction.md in docs/reference."""

from pathlib import Path

from dlperf_published.collections import COLLECTIONS
from dlperf_published.validation_page import validation

from dlperf_sdk.reports import markdown
from dlperf_sdk.reports.blocks import Block, Heading, Paragraph
from dlperf_sdk.reports.collection_page import disagreement_table

_DISAGREEMENTS = (
    "Each row is a disagreement of a source with itself: a cell whose printed number differs from the one "
    "computed from "
    "the source's own figures, a cell under a heading that does not match what was run, or figures that were not "
    "measured with the protocol that the source prescribes. All were found by computing the tables again."
)


def disagreements() -> list[Block]:
    """Return the disagreements of all collections."""
    tables = (disagreement_table(collection()) for collection in COLLECTIONS)
    return [Heading("Disagreements in the published figures"), Paragraph(_DISAGREEMENTS), *tables]


if __name__ == "__main__":
    docs = Path(__file__).resolve().parents[1] / "docs" / "reference"
    for name, blocks in (("published", disagreements()), ("prediction", validation())):
        (docs / f"{name}.md").write_text(markdown.text_of(blocks), encoding="utf-8")
