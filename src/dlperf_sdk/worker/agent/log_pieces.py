"""Split logs into pieces: they travel apart from records, so that no line of the stream becomes long."""

from typing import Any, Dict, Iterator, List

LONGEST_PIECE = 32 * 1024
"""Characters of a log in one event."""
TAIL = 4000
"""Characters of a log that explain the failure of a parity run."""


def in_pieces(text: str) -> Iterator[str]:
    """Yield the log `text` in pieces of at most `LONGEST_PIECE` (32,768) characters, in order.

    An empty log gives one empty piece.
    """
    for start in range(0, max(1, len(text)), LONGEST_PIECE):
        yield text[start : start + LONGEST_PIECE]


def tail_of(pieces: List[Dict[str, Any]], name: str) -> List[Dict[str, str]]:
    """Return the last `TAIL` (4000) characters of one worker's log.

    Args:
        pieces: Events `log`, in order, each with the worker's `name` and a `text`.
        name: The worker's name.

    Returns:
        A list of one dict of `name` and `text`; an empty list if the log is missing or empty.
    """
    text = "".join(piece["text"] for piece in pieces if piece["name"] == name)
    return [{"name": name, "text": text[-TAIL:]}] if text else []
