"""Print the stream that a batch job keeps on this node, from an offset on, until it is over: `follow.py JOB OFFSET`.

Runs as a step of the job. Who has kept what it printed says so with `fetched.py`: that it is printed is no proof.
"""

import os
import stat
import sys
import time


def main(job: str, offset: str) -> int:
    folder = "/tmp/dlperf-job-%d-%s" % (os.getuid(), job)  # noqa: S108 - made by the job itself, and looked at below
    deadline = time.monotonic() + 30
    while not os.path.exists(os.path.join(folder, "stream")):
        if time.monotonic() > deadline:
            sys.exit("there is no stream of job %s on this node" % job)
        time.sleep(0.1)
    about = os.lstat(folder)
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid():
        sys.exit("%s is somebody else's" % folder)
    with open(os.path.join(folder, "stream"), "rb") as file:
        file.seek(int(offset))
        while True:
            over = os.path.exists(os.path.join(folder, "over"))  # before the read: nothing comes after it
            data = file.read(1 << 16)
            while data:
                data = data[os.write(1, data) :]
                if not data:
                    data = file.read(1 << 16)
            if over:
                break
            time.sleep(0.1)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
