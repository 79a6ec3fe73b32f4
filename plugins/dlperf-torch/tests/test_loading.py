"""Batches of `images` and `text` through torch's DataLoader, in real loader processes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from conftest import make_request
from dlperf_torch.worker.loading import Loader

from dlperf_sdk.worker.data import DataError

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests"))
loading_cases = pytest.importorskip("loading_cases", reason="sample images need Pillow")

# Three loaders on two cores are slow, and right.
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DLPERF_CACHE_DIR", str(tmp_path / "cache"))


def read_nchw(batch):
    return {name: value.numpy() for name, value in batch.items()}


def read_nhwc(batch):
    return {name: (v.permute(0, 2, 3, 1) if v.dim() == 4 else v).numpy() for name, v in batch.items()}


@pytest.mark.parametrize(
    ("source", "layout", "read"),
    [("images", "nchw", read_nchw), ("images", "nhwc", read_nhwc), ("text", "auto", read_nhwc)],
)
def test_batches_are_the_datasets_in_the_order_of_the_seed(tmp_path, make_trainer, source, layout, read):
    if source == "text":
        pytest.importorskip("tokenizers", reason="text cannot be prepared without the package tokenizers")
    folder = tmp_path / "data"
    for loaders in (1, 2):
        trainer, batches = loading_cases.open_batches(
            make_trainer, folder, source, loaders, layout=layout, seed=loaders
        )
        loading_cases.check_order(trainer, batches, source, read)


def test_images_have_torchs_axes_in_the_memory_of_their_layout(tmp_path, make_trainer):
    _, batches = loading_cases.open_batches(make_trainer, tmp_path / "data")
    image = next(batches)["image"]
    assert image.shape == (4, 3, 40, 40) and image.is_contiguous(memory_format=torch.channels_last)


def test_torch_random_state_is_unchanged(tmp_path, make_trainer):
    trainer, _ = loading_cases.open_batches(make_trainer, tmp_path / "data")
    before = torch.get_rng_state()
    next(trainer.batches())
    assert torch.equal(torch.get_rng_state(), before)


def test_a_broken_image_is_named(tmp_path, make_trainer):
    trainer, _ = loading_cases.open_batches(make_trainer, tmp_path / "data")
    loading_cases.break_images(tmp_path / "data")
    batches = trainer.batches()
    message = None
    try:
        next(batches)
    # Not pytest.raises: its traceback would hold the loaders, which then take torch five seconds to end.
    except DataError as error:
        message = str(error)
    assert "cannot be decoded: " in message and "Traceback" not in message


class Threads:
    def __init__(self):
        self.facts = {}

    def __getitem__(self, keys):
        return {"threads": torch.tensor(torch.get_num_threads()), "pid": torch.tensor(os.getpid())}


def test_loaders_are_processes_of_one_thread():
    request = make_request(
        "resnet50", framework_options={"loader_workers": 2}, data={"source": "images", "samples": 8}
    )
    batches = Loader(Threads(), request, 0)
    actual = [next(batches) for _ in range(4)]
    assert {int(batch["threads"]) for batch in actual} == {1}
    assert len({int(batch["pid"]) for batch in actual} - {os.getpid()}) == 2


_WORKER = """
import sys, time
sys.path.insert(0, sys.argv[1])
from dlperf_sdk.worker import lifetime
from test_loading import Loader, Threads, make_request
options, data = {"loader_workers": 2}, {"source": "images", "samples": 8}
batches = Loader(Threads(), make_request("resnet50", framework_options=options, data=data), 0)
next(batches)
print(*lifetime.children(), flush=True)
time.sleep(60)
"""


def _alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:  # it has ended; perhaps in this very moment
        return False


def test_loaders_die_with_their_worker_even_by_sigkill():
    worker_process = subprocess.Popen(
        [sys.executable, "-c", _WORKER, str(Path(__file__).parent)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        loaders = [int(pid) for pid in worker_process.stdout.readline().split()]
        assert len(loaders) == 2 and all(map(_alive, loaders))
    finally:
        worker_process.send_signal(signal.SIGKILL)
        worker_process.communicate()
    # torch's own watchdog looks every five seconds; the kernel's signal comes at once.
    deadline = time.monotonic() + 2
    while any(map(_alive, loaders)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(map(_alive, loaders))
