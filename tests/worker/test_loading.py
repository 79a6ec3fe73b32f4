"""What loaders share: where the sockets of loader processes lie, and that they go."""

import subprocess
import sys

PROGRAM = """
import multiprocessing, os, signal
from multiprocessing.connection import Listener
from dlperf_sdk.worker.loading import share_folder_of_sockets

def load(listening):
    listener = Listener(family="AF_UNIX")
    listening.set()
    signal.pause()

share_folder_of_sockets()
context = multiprocessing.get_context("fork")
listening = context.Event()
loader = context.Process(target=load, args=(listening,), daemon=True)
loader.start()
assert listening.wait(60)
print([name for folder, _, names in os.walk(os.environ["TMPDIR"]) for name in names])
os.kill(loader.pid, signal.SIGKILL)
loader.join()
"""


def test_a_killed_loader_leaves_no_socket(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "listener-" in ran.stdout, ran.stderr
    assert list(tmp_path.iterdir()) == []
