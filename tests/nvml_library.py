"""Compiles the stand-in for NVIDIA's library: the bindings are tested through a real C ABI."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("fake_nvml.c")
FIRST, SECOND = "GPU-11111111-aaaa-bbbb-cccc-000000000000", "GPU-22222222-aaaa-bbbb-cccc-000000000000"


def compiled(folder: Path, *options: str) -> str:
    """The path of the library, compiled with these options; skips the test where there is no C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler (gcc or cc): the NVML bindings are NOT tested here")
    library = folder / f"libfake{''.join(options)}.so"
    command = [compiler, "-shared", "-fPIC", "-Wall", "-Werror", *options, "-o", str(library), str(SOURCE)]
    subprocess.run(command, check=True, capture_output=True)
    return str(library)


class FakeNvml:
    """The compiled library, and its state."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._library = ctypes.CDLL(path)

    def set(self, name: str, value: int) -> None:
        kind = ctypes.c_ulonglong if name in ("fake_energy", "fake_reasons") else ctypes.c_int
        kind.in_dll(self._library, name).value = value

    def hold(self, gpu: int, processes: int, used: int) -> None:
        (ctypes.c_uint * 2).in_dll(self._library, "fake_processes")[gpu] = processes
        (ctypes.c_ulonglong * 2).in_dll(self._library, "fake_used")[gpu] = used

    @property
    def open(self) -> int:
        return ctypes.c_int.in_dll(self._library, "fake_open").value


@pytest.fixture
def nvml(tmp_path: Path) -> Iterator[FakeNvml]:
    """A fresh library with two idle H200; whoever opened it must have closed it at the end."""
    library = FakeNvml(compiled(tmp_path))
    yield library
    assert library.open == 0
