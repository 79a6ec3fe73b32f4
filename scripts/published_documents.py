"""Write the pages on published figures, published.md and prediction.md in docs/reference."""

from pathlib import Path

from dlperf_published.collections import COLLECTIONS
from dlperf_published.validation_page import validation

from dlperf_sdk.reports import markdown
from dlperf_sdk.reports.blocks import Block, Heading, Paragraph
from dlperf_sdk.reports.collection_page import disagreement_table

_DISAGREEMENTS = (
    "Each cell in which what a source prints and what its own figures give are not the same: another number, or "
    "a heading that says something else than what was run; and figures that deviate from the protocol that their "
    "source prescribes. All are found by regenerating the tables."
)


def disagreements() -> list[Block]:
    """Return the disagreements of all collections."""
    tables = (disagreement_table(collection()) for collection in COLLECTIONS)
    return [Heading("Disagreements in the published figures"), Paragraph(_DISAGREEMENTS), *tables]


if __name__ == "__main__":
    docs = Path(__file__).resolve().parents[1] / "docs" / "reference"
    for name, blocks in (("published", disagreements()), ("prediction", validation())):
        (docs / f"{name}.md").write_text(markdown.text_of(blocks), encoding="utf-8")
