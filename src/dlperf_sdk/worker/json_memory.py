"""Estimate, before a text in JSON is parsed, the memory that its values will take."""

import re

_BYTES_OF = {b"{": 240, b"[": 96, b",": 64, b":": 64}
"""Character → maximum memory in bytes that Python needs for what it stands for: an object, an array, a value."""
_WIDE = re.compile(rb"[\xf0-\xf4]")
"""First byte of a character that makes Python store a text in four bytes per character."""
_MOST_PER_BYTE = 1 + 2 * 4 + max(_BYTES_OF.values())


def excess_memory(data: bytes, limit: int) -> int:
    """Estimate the memory that parsing a text in JSON takes; return it if it is above a limit, else 0.

    The estimate covers the bytes, the decoded text and the values, also if one value contains the whole text.

    Args:
        data: The text in UTF-8, which need not be valid.
        limit: Maximum number of bytes.

    Returns:
        The estimate in bytes if it is above the limit; else 0.
    """
    if len(data) * _MOST_PER_BYTE <= limit:
        return 0
    width = 1 if data.isascii() else 4 if _WIDE.search(data) else 2
    memory = len(data) * (1 + 2 * width) + sum(data.count(mark) * size for mark, size in _BYTES_OF.items())
    return memory if memory > limit else 0
