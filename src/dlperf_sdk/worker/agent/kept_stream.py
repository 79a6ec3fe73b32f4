"""Print or acknowledge the stream that a batch job keeps on this node: `JOB OFFSET`, or `JOB acknowledge`.

Runs as a step of the job, from source alone. The stream is printed from an offset on until it is complete. Printed
data may be lost on its way: only when the reader acknowledges the stream, the job stops waiting.
"""

import os
import stat
import sys
import time

START_TIMEOUT = 30.0
"""Seconds to wait for the stream of a job that has begun."""
END_TIMEOUT = 15.0
"""Seconds to wait for the end of a job whose last event has been read."""


def main(job: str, command: str) -> int:
    """Print or acknowledge the stream of a job on this node.

    Args:
        job: The job's number.
        command: With `acknowledge`, the stream is marked as read, so that the job stops waiting for a reader. With a
            number, that many bytes of the stream are skipped, and the others are written to standard output until the
            stream is complete.

    Returns:
        The exit code: 1 if the stream to acknowledge is not complete within `END_TIMEOUT` (15) seconds, or its folder
        does not exist; else 0.

    Raises:
        SystemExit: The stream to print does not appear within `START_TIMEOUT` (30) seconds, or the job's folder belongs
            to another user.
        ValueError: `command` is neither `acknowledge` nor a number.
    """
    folder = "/tmp/dlperf-job-%d-%s" % (os.getuid(), job)  # noqa: S108 - made by the job itself, and checked below
    return _acknowledge(folder) if command == "acknowledge" else _follow(folder, int(command))


def _follow(folder: str, offset: int) -> int:
    """Write the stream in a job's folder to standard output until it is complete; return 0.

    Args:
        folder: The job's folder.
        offset: Number of bytes to skip.

    Raises:
        SystemExit: The stream does not appear within `START_TIMEOUT` seconds, or the folder belongs to another user.
    """
    deadline = time.monotonic() + START_TIMEOUT
    while not os.path.exists(os.path.join(folder, "stream")):
        if time.monotonic() > deadline:
            sys.exit("%s does not exist on this node" % folder)
        time.sleep(0.1)
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        sys.exit("%s belongs to another user" % folder)
    with open(os.path.join(folder, "stream"), "rb") as file:
        file.seek(offset)
        while True:
            is_over = os.path.exists(os.path.join(folder, "over"))  # before the read: nothing comes after it
            data = file.read(1 << 16)
            while data:
                data = data[os.write(1, data) :]
                if not data:
                    data = file.read(1 << 16)
            if is_over:
                return 0
            time.sleep(0.1)


def _acknowledge(folder: str) -> int:
    """Mark the stream in a job's folder as read, so that the job stops waiting for a reader.

    Returns:
        The exit code: 0, or 1 if the folder does not exist or the stream is not complete within `END_TIMEOUT` seconds.
    """
    deadline = time.monotonic() + END_TIMEOUT
    while not os.path.exists(os.path.join(folder, "over")):
        if time.monotonic() > deadline or not os.path.exists(folder):
            return 1
        time.sleep(0.1)
    open(os.path.join(folder, "acknowledged"), "w").close()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
