"""Arrays on disk: one file of little-endian 4-byte numbers per input, written sample by sample.

Any NumPy reads them without pickle: `numpy.memmap(file, dtype="<i4", mode="r", shape=shape)`.
"""

from __future__ import annotations

import hashlib
import os
import sys
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

_STORED = {"int64": ("i", "<i4"), "float32": ("f", "<f4")}
"""An input's dtype → the type code of `array`, and the dtype in the file: word pieces fit into 32 bits."""
_FLUSH = 1 << 18
"""Numbers that are held before they are written."""


class _Column:
    def __init__(self, path: Path, name: str, shape: tuple[int, ...], dtype: str) -> None:
        self.name, self.shape, self.path = name, shape, path
        self.code, self.dtype = _STORED[dtype]
        self.size = 1
        for length in shape:
            self.size *= length
        self.samples = 0
        self.pending: array[Any] = array(self.code)
        assert self.pending.itemsize == 4
        self.digest = hashlib.sha256()
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self.file: BinaryIO = os.fdopen(number, "wb")

    def add(self, values: Sequence[float]) -> None:
        if len(values) != self.size:
            raise ValueError(f"{self.name} takes {self.size} numbers per sample, not {len(values)}")
        self.pending.extend(values)
        self.samples += 1
        if len(self.pending) >= _FLUSH:
            self.flush()

    def flush(self) -> None:
        if sys.byteorder == "big":
            self.pending.byteswap()
        content = self.pending.tobytes()
        self.digest.update(content)
        self.file.write(content)
        self.pending = array(self.code)

    def entry(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "file": self.path.name,
            "dtype": self.dtype,
            "shape": [self.samples, *self.shape],
            "sha256": self.digest.hexdigest(),
        }


class Writer:
    """Writer of samples into a directory, one file `NAME.bin` per input; a context manager that closes the files.

    A file contains the numbers of all samples in C order, each as four little-endian bytes.

    Args:
        directory: An existing directory, which contains none of these files yet.
        inputs: The model's inputs, as in a request: `name`, `shape` of one sample, and `dtype` (`int64` or `float32`).

    Raises:
        OSError: A file cannot be created, or exists.
        KeyError: An input has another `dtype`.
    """

    def __init__(self, directory: Path, inputs: Sequence[Mapping[str, Any]]) -> None:
        self._columns = {
            entry["name"]: _Column(
                directory / f"{entry['name']}.bin", entry["name"], tuple(entry["shape"]), entry["dtype"]
            )
            for entry in inputs
        }

    def add(self, sample: Mapping[str, Sequence[float]]) -> None:
        """Append one sample. After an error the files are unusable, since they may differ in length.

        Args:
            sample: For each input, by name, a flat sequence of all its numbers in C order.

        Raises:
            ValueError: A sequence has the wrong length.
            KeyError: An input is missing.
        """
        for name, column in self._columns.items():
            column.add(sample[name])

    def entries(self) -> list[dict[str, Any]]:
        """Write all pending numbers, and return an entry for each file, in the order of the constructor's `inputs`.

        The entries are for the index of the prepared data. An entry is a dict with `name` (of the input), `file`
        (the file's name), `dtype`, `shape` and `sha256` (in hexadecimal). `shape` begins with the number of samples;
        `dtype` is `<i4` or `<f4`.
        """
        for column in self._columns.values():
            column.flush()
        return [column.entry() for column in self._columns.values()]

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for column in self._columns.values():
            column.file.close()
