"""Write the pages on published figures, published.md and prediction.md in docs/reference."""

from collections.abc import Sequence
from pathlib import Path

from dlperf_published.collections import COLLECTIONS
from dlperf_published.validation_page import validation

from dlperf_sdk.interfaces.collection import Collection
from dlperf_sdk.reports import markdown
from dlperf_sdk.reports.blocks import Block, Column, Heading, Paragraph, Table
from dlperf_sdk.reports.collection_page import deviation_blocks, disagreement_block

_PUBLISHED = """\
# Published figures

Look up here which published figures dlperf-sdk has, and where the tables of their sources disagree with them. To see
the figures, use `dlperf report --published dlperf-v1.0`. [Compare with published
figures](../how-to/compare-with-published.md) has more commands.

"""
_PREDICTION = """\
# Accuracy of predictions

Look up here how large the errors of [predictions](../how-to/predict.md) were for published throughputs.
[Statistics](../explanation/statistics.md#predictions) explains the method.

"""
_COLLECTIONS = (
    "A figure is the throughput of one case. Some sources print a table of figures several times, or compute other "
    "numbers from them, such as speedups. These are the printed cells, which dlperf-sdk computes again from the "
    "figures."
)
_DISAGREEMENTS = (
    "Each row is a printed cell that disagrees with the figures of the same source. The name and the text of a cell "
    "are those of the source. Throughputs are in images or sequences per second on all devices, and a speedup is "
    "relative to one device. The difference is that of the printed number from the computed one, relative to the "
    "latter. There are three kinds:"
)
_KINDS = (
    ("wrong number", "The printed number differs from the computed one."),
    (
        "wrong label",
        "The heading of the number does not match what was run. The number is right, or only its last digit differs.",
    ),
    (
        "last digit",
        "The printed number, with as many decimals as its table has, is at most one unit of the last one away: it was "
        "rounded in another way.",
    ),
)
_PROTOCOL = (
    "A sentence counts the figures that were not measured with the protocol that the source prescribes. In it, 20 + "
    "100 steps means 20 warm-up steps and 100 measured steps."
)


def published() -> list[Block]:
    """Return the content of the page published.md below its introduction.

    It has a table of all collections of published figures, then the disagreements of each collection.
    """
    collections = [collection() for collection in COLLECTIONS]
    return [
        Heading("Collections"),
        Paragraph(_COLLECTIONS),
        _collections_table(collections),
        Heading("Disagreements in the published figures"),
        Paragraph(_DISAGREEMENTS),
        Table((Column("kind"), Column("meaning")), _KINDS),
        Paragraph(_PROTOCOL),
        *(
            block
            for collection in collections
            for block in (*deviation_blocks(collection), disagreement_block(collection))
        ),
    ]


def _collections_table(collections: Sequence[Collection]) -> Table:
    columns = (
        Column("collection"),
        Column("title"),
        Column("source and hardware"),
        Column("figures", right=True),
        Column("printed cells", right=True),
    )
    rows = tuple(
        (
            collection.name,
            collection.title,
            collection.description,
            f"{len(collection.figures):,}",
            f"{collection.count_printed_cells():,}",
        )
        for collection in collections
    )
    return Table(columns, rows)


if __name__ == "__main__":
    docs = Path(__file__).resolve().parents[1] / "docs" / "reference"
    for name, head, blocks in (
        ("published", _PUBLISHED, published()),
        ("prediction", _PREDICTION, validation()),
    ):
        (docs / f"{name}.md").write_text(head + markdown.text_of(blocks), encoding="utf-8")
