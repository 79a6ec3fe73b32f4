"""The bundle's command line: `python BUNDLE agent …` on a node, `python BUNDLE worker …` for each process there."""

import atexit
import faulthandler
import json
import os
import signal
import sys
from typing import List

from dlperf_sdk.worker import lifetime, memory
from dlperf_sdk.worker.processes import SERVICE, process_from
from dlperf_sdk.worker.request import Request, resolve


def _wait_for_go() -> None:
    """Block until the agent says that every worker is ready; the end of the pipe means that the agent is gone."""
    if not os.read(0, 1):
        os._exit(1)


def _limit_memory(request: Request) -> None:
    if request.memory_limit is not None:
        memory.limit(request.memory_limit)


def _worker(directory: str) -> int:
    """Run the worker that the agent described in the directory's `process.json`: call a service's function, or train.

    This process is killed when its agent ends. It is bound to the processors and the memory limit that the agent
    assigned to it. A trainer writes its record into the directory.

    Returns:
        The exit code: 1 if a trainer's record has a failure, else 0.
    """
    with open(os.path.join(directory, "process.json"), encoding="utf-8") as file:
        order = json.load(file)
    lifetime.die_with(order["agent"])
    if order["cpus"]:
        os.sched_setaffinity(0, order["cpus"])
    process = process_from(order["process"])
    request = Request.load(order["request"])
    if process.role == SERVICE:
        if process.devices:  # schedulers and parameter servers, which have none, hold no batches
            _limit_memory(request)
        target = resolve(process.target or "")
        if process.feeds is None:
            target()
        else:
            target(request, request.cluster(order["nodes"]), process)
        return 0
    from dlperf_sdk.worker import trainer

    # The agent ends a trainer that hangs, and reports the stacks that the log then has.
    faulthandler.register(signal.SIGTERM, chain=True)
    _limit_memory(request)
    cluster = request.cluster(order["nodes"])
    return trainer.run(request, cluster, process, order["attempt"], directory, _wait_for_go)


def _work(directory: str) -> int:
    """Run `_worker`, and end the process with it: in the usual way, unless that would hang or abort."""
    code = _worker(directory)
    if not code:
        if lifetime.needs_finalization():
            return code
        atexit._run_exitfuncs()
    # After a failure even an exit function may hang, since the peers are gone. The record is on disk.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main(arguments: List[str]) -> int:
    """Run a subcommand of the worker package: `agent`, `run`, `batch` or `worker`.

    Args:
        arguments: The subcommand and its arguments, without the program's name.

    Returns:
        The exit code: 0 for success; its other values are those of the subcommand. The subcommand `worker` ends the
        process itself if finalizing it could hang or abort.

    Raises:
        SystemExit: The arguments are malformed, or ask for help; or a subcommand exits, for example at a SIGTERM.
        OSError: A file that the subcommand needs cannot be read or written.
        Exception: The subcommand `worker` passes on what a service's function or a trainer's `Runtime.stop` raises.
    """
    if arguments[:1] == ["worker"] and len(arguments) == 2:  # many of these start at once, and need no parser
        return _work(arguments[1])
    import argparse

    from dlperf_sdk.worker.bundled import DamagedBundle

    parser = argparse.ArgumentParser(prog="bundle", description=__doc__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.required = True
    agent = commands.add_parser("agent", help="start, watch and end this node's workers")
    agent.add_argument(
        "--node", required=True, help="which node this is, counted from 0; $NAME: from that variable"
    )
    agent.add_argument(
        "--hosts", required=True, help="the first two hosts or more, as a list; $NAME: from that variable"
    )
    agent.add_argument(
        "--interface", help="the network interface of the workers, instead of the one between the hosts"
    )
    agent.add_argument("--ports", default="", help="FIRST-LAST: the only ports to listen on, and to hand out")
    agent.add_argument("--python", help="the environment's interpreter, instead of the one in the request")
    agent.add_argument("--scratch", help="a private directory, to be removed at the end")
    agent.add_argument("--case", help="the name of the run, for people who list processes")
    agent.add_argument(
        "--tether", action="store_true", help="end everything when standard input ends or falls silent"
    )
    run = commands.add_parser(
        "run", help="run the whole case on this machine, and write down what comes of it"
    )
    run.add_argument("-o", "--output", required=True, metavar="DIR", help="where to; a new folder")
    run.add_argument(
        "--python", default=sys.executable, help="an interpreter that has the framework; this one"
    )
    batch = commands.add_parser("batch", help="be a batch job (its script calls this)")
    batch.add_argument("--folder", required=True)
    batch.add_argument("--linger", type=float, required=True)
    batch.add_argument("step", nargs="+")
    worker = commands.add_parser("worker", help="be one worker process (agents call this)")
    worker.add_argument("directory")
    chosen = parser.parse_args(arguments)
    if chosen.command == "agent":
        from dlperf_sdk.worker.agent import joining

        return joining.main(
            chosen.node,
            chosen.hosts,
            chosen.interface,
            chosen.ports,
            chosen.python,
            chosen.scratch,
            chosen.tether,
        )
    try:
        if chosen.command == "run":
            from dlperf_sdk.worker.agent import standalone

            return standalone.main(chosen.output, chosen.python)
        if chosen.command == "batch":
            from dlperf_sdk.worker.agent import batch_job

            return batch_job.main(chosen.folder, chosen.linger, chosen.step)
    except DamagedBundle as error:
        print("%s." % error, file=sys.stderr)
        return 4
    return _work(chosen.directory)
