"""A rank of a job on the cluster: `joined_rank.py FILE`. The first one runs a case; the others serve it.

The file has the case. Events are appended to the file beside it that ends in `.events`: a cut-off node cannot print.
"""

import json
import signal
import sys
from pathlib import Path

from dlperf_sdk import RunSpec
from dlperf_sdk.interfaces.topology import Job
from dlperf_sdk.launchers.events import launch_events
from dlperf_sdk.registry.options import options_of
from dlperf_sdk.registry.plugins import Registry


def main(path):
    document = json.loads(path.read_text())
    spec, launcher = RunSpec.from_dict(document["spec"]), Registry().topology("joined")
    options = options_of(launcher, spec)
    launcher.join_job([spec], options)
    shape = (spec.topology.nodes, spec.topology.devices_per_node)
    bundle = path.with_suffix(".pyz")
    job = Job(document["id"], bundle, *shape, "cpu", options, (), document["start"])
    with path.with_suffix(".events").open("a") as file:
        for event in launch_events(launcher, job):
            file.write(json.dumps(event) + "\n")
            file.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as the command line does
    main(Path(sys.argv[1]))
