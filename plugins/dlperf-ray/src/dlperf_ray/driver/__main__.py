"""The program that starts agents in a Ray cluster; it needs Ray and the standard library only.

Standard input has the bundle and then heartbeats, which the driver forwards to all agents. Standard output has the
lines of all agents; whatever Ray prints goes to standard error.
"""

import json
import os
import sys
import time

import actor
from cluster import PLACE, connect, place
from run import Run
from streams import Input, Output

START = 0.95
"""Share of the deadline `start` until which the agents must have started."""


def main(arguments):
    """Run the agents of a case in a Ray cluster, and return when they have ended.

    The standard input of this process is forwarded to the agents, and the agents' output to its standard output. A
    failure is written there as the event `ended`, in the last line. The placement group is removed at the end.

    Args:
        arguments: List of words: the settings as JSON, then the agents' command.
    """
    output, source = Output(), Input()
    settings = json.loads(arguments[0])
    start_time = time.monotonic()
    ray = connect(settings, output)
    if ray is None:
        return
    source.is_connected = True
    ray.cloudpickle.register_pickle_by_value(actor)
    group = place(ray, settings, start_time + PLACE * settings["timeout"], source, output)
    if group is None:
        ray.shutdown()
        return
    try:
        run = Run(ray, group, settings, start_time + START * settings["timeout"], source, output)
        if run.start(arguments[1:]):
            run.serve()
        run.stop()
    finally:
        ray.util.remove_placement_group(group)
        ray.shutdown()


if __name__ == "__main__":
    main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(0)  # a thread may still read standard input
