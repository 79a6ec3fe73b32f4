"""The end of what agents and launchers wrote to standard error, as an event of agent 0's stream."""

import json
import os
from typing import IO

_LENGTH = 4000


def read_tail(file: IO[bytes]) -> str:
    """Return the last 4000 bytes of a file as text, without white space around it; move to the file's end.

    Text that is cut off begins with a whole line, or with a whole word if there is only one line: a secret value that
    is cut in two would not be recognized. Bytes that are no UTF-8 are replaced. The text is empty if the file is.

    Args:
        file: A seekable file, opened for reading in binary mode.
    """
    start = max(0, file.seek(0, os.SEEK_END) - _LENGTH)
    file.seek(start)
    text = file.read().decode("utf-8", "replace").strip()
    if start:
        text = text.partition("\n" if "\n" in text else " ")[2]
    return text.strip()


def diagnostics_event(file: IO[bytes]) -> bytes:
    """Return the event `diagnostics` with the end of a file, as one line of JSON without its line feed.

    The event has the keys `event` and `text`, which is what `read_tail` returns for the file.
    """
    return json.dumps({"event": "diagnostics", "text": read_tail(file)}).encode()
