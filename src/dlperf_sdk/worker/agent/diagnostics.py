"""The end of what agents and launchers wrote to standard error, as an event of agent 0's stream."""

import json
import os
from typing import IO

_LENGTH = 4000


def read_tail(file: IO[bytes]) -> str:
    """Return the last 4000 bytes of a file as text, without white space around it; move to the file's end."""
    file.seek(0, os.SEEK_END)
    file.seek(max(0, file.tell() - _LENGTH))
    return file.read().decode("utf-8", "replace").strip()


def diagnostics_event(file: IO[bytes]) -> bytes:
    """Return the event `diagnostics` with the end of a file, as one line of JSON without its line feed."""
    return json.dumps({"event": "diagnostics", "text": read_tail(file)}).encode()
