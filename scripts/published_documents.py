"""Write the pages on published figures, published.md and prediction.md in docs/reference."""

from pathlib import Path

from dlperf_published.collections import COLLECTIONS
from dlperf_published.validation_page import validation

from dlperf_sdk.reports import markdown
from dlperf_sdk.reports.blocks import Block, Heading, Paragraph
from dlperf_sdk.reports.collection_page import disagreement_blocks

_DISAGREEMENTS = (
    "Each row is a disagreement of a source with itself: a cell whose printed number differs from the one computed "
    "from the source's own figures, or a cell under a heading that does not match what was run. All were found by "
    "computing the tables again. A sentence counts the figures that were not measured with the protocol that the "
    "source prescribes."
)


def disagreements() -> list[Block]:
    """Return the disagreements of all collections."""
    blocks = [block for collection in COLLECTIONS for block in disagreement_blocks(collection())]
    return [Heading("Disagreements in the published figures"), Paragraph(_DISAGREEMENTS), *blocks]


if __name__ == "__main__":
    docs = Path(__file__).resolve().parents[1] / "docs" / "reference"
    for name, blocks in (("published", disagreements()), ("prediction", validation())):
        (docs / f"{name}.md").write_text(markdown.text_of(blocks), encoding="utf-8")
