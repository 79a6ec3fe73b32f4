"""Write the pages on published figures, published.md and prediction.md in docs/reference."""

from pathlib import Path

from dlperf_published.collections import COLLECTIONS
from dlperf_published.validation_page import validation

from dlperf_sdk.reports import markdown
from dlperf_sdk.reports.blocks import Block, Heading, Paragraph
from dlperf_sdk.reports.collection_page import deviation_blocks, disagreement_block

_DISAGREEMENTS = (
    "Each row is a disagreement of a source with itself: a cell whose printed number differs from the one computed "
    "from the source's own figures, or a cell under a heading that does not match what was run. A number that is at "
    "most one unit of its last digit away has the kind `last digit`: it was rounded in another way. All were found by "
    "computing the tables again. A sentence counts the figures that were not measured with the protocol that the "
    "source prescribes."
)


def disagreements() -> list[Block]:
    """Return the disagreements of all collections."""
    collections = [collection() for collection in COLLECTIONS]
    blocks = [
        block
        for collection in collections
        for block in (*deviation_blocks(collection), disagreement_block(collection))
    ]
    return [Heading("Disagreements in the published figures"), Paragraph(_DISAGREEMENTS), *blocks]


if __name__ == "__main__":
    docs = Path(__file__).resolve().parents[1] / "docs" / "reference"
    for name, blocks in (("published", disagreements()), ("prediction", validation())):
        (docs / f"{name}.md").write_text(markdown.text_of(blocks), encoding="utf-8")
