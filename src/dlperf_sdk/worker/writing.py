"""Documents on disk, whole and private."""

import json
import os
from typing import Any


def write_json(path: str, document: Any) -> None:
    """Write a document at a path in one step: a reader sees all of it or nothing. Only its owner can read the file."""
    partial = path + ".partial"
    with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        json.dump(document, file, allow_nan=False)
    os.replace(partial, path)
