"""Write documents to disk in one step, readable by their owner only."""

import json
import os
from typing import Any


def write_json(path: str, document: Any) -> None:
    """Write a JSON document to a file that only its owner can read; replace an existing file.

    The document is first written to a file with `.partial` appended to the name, and this file is then renamed to
    `path`. A reader therefore sees the whole document or the previous one. After an error, `path` is as before, and the
    `.partial` file may remain.

    Args:
        path: Path of the file, in an existing directory.
        document: JSON values.

    Raises:
        OSError: The file cannot be written.
        ValueError: The document contains a number that is not finite.
        TypeError: The document contains an object that is no JSON value.
    """
    partial = path + ".partial"
    with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        json.dump(document, file, allow_nan=False)
    os.replace(partial, path)
