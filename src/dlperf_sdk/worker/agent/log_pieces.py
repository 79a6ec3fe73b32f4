"""Logs travel apart from records, in pieces: no line of the stream is long because a worker printed much."""

from typing import Any, Dict, Iterator, List

LONGEST_PIECE = 32 * 1024
"""Characters of a log in one event."""
TAIL = 4000
"""Characters of a log that explain the failure of a parity run."""


def in_pieces(text: str) -> Iterator[str]:
    """Yield a log in pieces of at most `LONGEST_PIECE` characters; an empty log is one empty piece."""
    for start in range(0, max(1, len(text)), LONGEST_PIECE):
        yield text[start : start + LONGEST_PIECE]


def tail_of(pieces: List[Dict[str, Any]], name: str) -> List[Dict[str, str]]:
    """Return the last `TAIL` characters of the log with this name, as a list of at most one `name` and `text`."""
    text = "".join(piece["text"] for piece in pieces if piece["name"] == name)
    return [{"name": name, "text": text[-TAIL:]}] if text else []
