"""One attempt on one node: start this node's workers, watch them, end them."""

import os
import signal
import time
from typing import Any, Dict, List, Mapping, Optional

from dlperf_sdk.worker import failures, lifetime
from dlperf_sdk.worker.agent.worker_process import WorkerProcess
from dlperf_sdk.worker.processes import SERVICE, Process

GRACE = 3.0
"""Seconds between asking a worker to end and killing it."""


def _oom_kills() -> int:
    """Return the kernel's count of out-of-memory kills on this machine since boot; 0 if unavailable."""
    try:
        with open("/proc/vmstat", encoding="ascii") as file:
            return int(dict(line.split() for line in file).get("oom_kill", 0))
    except OSError:
        return 0


class Attempt:
    """All workers of one node in one attempt: `workers` lists those that were started, in the order of the processes.

    Args:
        number: Number of the attempt; 0 for the parity run.
        directory: An existing directory, in which each worker gets one of its own.
        deadlines: `Request.deadlines`: seconds by phase.
        memory_limit: Bytes that each trainer may allocate; None without a limit.
        secrets: Secret values by name; reported logs have `<NAME>` in their place.
    """

    def __init__(
        self,
        number: int,
        directory: str,
        deadlines: Dict[str, float],
        memory_limit: Optional[int],
        secrets: Mapping[str, str],
    ) -> None:
        self.number, self.directory, self._deadlines = number, directory, deadlines
        self._memory_limit, self._secrets = memory_limit, secrets
        self.workers: List[WorkerProcess] = []
        self._oom_before = _oom_kills()

    def start(
        self, nodes: Dict[str, Dict[str, Any]], processes: List[Process], orders: List[Dict[str, Any]]
    ) -> None:
        """Start this node's processes, one after another.

        Args:
            nodes: Number of a node in digits, such as `"0"` → its known fields, as `processes.nodes_from` takes them.
            processes: The processes, as `launch_commands.orders_for` returns them.
            orders: The command and further details of each process, as `launch_commands.orders_for` returns them.

        Raises:
            OSError: A process cannot be started. The processes before it in the list run until `end` is called.
        """
        for process, order in zip(processes, orders):
            name = order["name"]
            directory = os.path.join(self.directory, "%d-%s" % (self.number, name))
            worker = WorkerProcess(process, name, directory, self._deadlines, self._secrets)
            worker.start(
                order["command"],
                order["environment"],
                {
                    "agent": os.getpid(),
                    "attempt": self.number,
                    "request": order["request"],
                    "nodes": nodes,
                    "process": process._asdict(),
                    "cpus": order["cpus"],
                },
            )
            self.workers.append(worker)

    @property
    def trainers(self) -> List[WorkerProcess]:
        """The workers that train: all but the services."""
        return [worker for worker in self.workers if worker.process.role != SERVICE]

    def check(self) -> None:
        """Update the state of every worker (`ended`, `detected_failure`), and end workers that missed a deadline.

        A worker that missed a deadline has the failure as its `detected_failure`; once the worker has ended, the
        failure has its stacks. If a worker has ended, the processes that it left in its process group are killed.
        """
        for worker in self.workers:
            if worker.ended:
                continue
            worker.read_progress()
            if worker.popen.poll() is not None:
                worker.read_progress()
                worker.ended = True
                worker.signal(signal.SIGKILL)  # processes that it left in its group
                if worker.process.role == SERVICE and self._at_work():
                    worker.detected_failure = failures.explain_service_failure(
                        worker.name, worker.exit(), self._kernel_killed()
                    )
                elif worker.process.role != SERVICE and worker.detected_failure is None:
                    worker.detected_failure = worker.check_disk()
                elif worker.detected_failure is not None:
                    worker.detected_failure["traceback"] = worker.stacks()
                continue
            worker.detected_failure = worker.detected_failure or worker.check_deadline()
            if worker.detected_failure is not None:
                worker.end_late()

    def ready(self) -> bool:
        """Return True if every trainer waits for its window to begin; also if the node has no trainers."""
        return all(worker.last_progress[0] == "ready" for worker in self.trainers)

    def release(self) -> None:
        """Allow all trainers to begin their windows."""
        for worker in self.trainers:
            worker.release()

    def _at_work(self) -> bool:
        """Return True while trainers need the services.

        A node without trainers serves other nodes: there it is True until the coordinator ends the attempt.
        """
        final_phases = ("teardown", "done")
        return not self.trainers or any(
            not worker.ended and worker.last_progress[0] not in final_phases for worker in self.trainers
        )

    def _kernel_killed(self) -> bool:
        """Return True if the kernel has killed a process for memory since the attempt began."""
        return _oom_kills() > self._oom_before

    def failures(self) -> List[Dict[str, Any]]:
        """Return the failures so far: first those of services that ended too early, then those of trainers.

        Each is a dict in the form that `dlperf_sdk.worker.failures.failure` returns; that of a trainer may have further
        fields, such as `type` and `traceback`. The list is empty as long as no process has failed.
        """
        ended = [worker for worker in self.trainers if worker.ended]
        killed = bool(ended) and self._kernel_killed()  # read only after one has ended
        candidates = [worker.detected_failure for worker in self.workers if worker.process.role == SERVICE]
        candidates += [
            failures.explain_worker_failure(
                worker.name,
                worker.exit(),
                worker.record(),
                worker.why_no_record,
                worker.detected_failure,
                killed,
                self._memory_limit,
                worker.log()[-2000:],
            )
            for worker in ended
        ]
        return [failure for failure in candidates if failure is not None]

    def is_over(self) -> bool:
        """Return True if this node has trainers and all of them have ended.

        A node without trainers serves other nodes until the coordinator ends the attempt.
        """
        return bool(self.trainers) and all(worker.ended for worker in self.trainers)

    def end(self) -> None:
        """End the remaining workers: send SIGTERM, wait up to `GRACE` (3) seconds, send SIGKILL.

        Afterwards kill all other children of this process: those that the workers have left behind.
        """
        running = [worker for worker in self.workers if worker.popen.poll() is None]
        for worker in running:
            worker.signal(signal.SIGTERM)
        deadline = time.monotonic() + GRACE
        while time.monotonic() < deadline and any(worker.popen.poll() is None for worker in running):
            time.sleep(0.02)
        for worker in self.workers:
            worker.signal(signal.SIGKILL)
            worker.popen.wait()
            worker.read_progress()
            worker.ended = True
            worker.close()
        for pid in lifetime.children():
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except OSError:
                pass
