"""One launch: wait until all processes of the job have joined, run the agents, and merge what is known of them."""

from __future__ import annotations

import json
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from dlperf_sdk.errors import Unavailable
from dlperf_sdk.interfaces.topology import Job
from dlperf_sdk.launchers.joined.crew import Crew, Report, merge_cpus
from dlperf_sdk.launchers.joined.job_kinds import describe_place
from dlperf_sdk.launchers.processes import STOP_TIMEOUT, run_commands
from dlperf_sdk.launchers.start_failures import explain_start_failure
from dlperf_sdk.launchers.stream_events import ended_event, is_abrupt_end

_JOIN = 0.9
"""Share of the deadline `start` until which all processes must have joined."""
_POLL = 0.2
_QUIET = 2.0
"""Seconds without a message about processes that are missing, and between two of them."""
_SETTLE = 5.0
"""Seconds after a failure of a process or an agent in which agent 0 may report the cause."""
_SIGNAL = 3.0
"""Seconds after an abrupt end in which a signal may arrive: a scheduler that ends the job signals its agents, too."""
_MOST_NAMED = 4

CommandsOf = Callable[[], Sequence[Sequence[str]]]


@contextmanager
def run_agents(crew: Crew, job: Job, python: str, commands: CommandsOf) -> Iterator[Iterator[bytes]]:
    """Return a context manager that runs an agent on each node of a case; its value yields agent 0's stream by lines.

    A thread starts the agents as soon as all processes of the job have joined; until then, the stream has events
    `waiting`. On exit, all agents are ended. No failure is raised: if the agents cannot be started, or if an agent or a
    process of the job fails, the last event of the stream, `ended`, says so.

    Args:
        crew: The processes of the job.
        job: The case and its bundle.
        python: The interpreter of the agents, for messages.
        commands: Function without arguments, called as soon as all processes have joined the job. It returns the
            command of each node's agent, as its words, in the order of the nodes.
    """
    launch = _Launch(crew, job, python, commands)
    supervising = threading.Thread(target=launch.supervise, daemon=True)
    supervising.start()
    try:
        yield explain_start_failure(launch.lines(), python, node=0)
    finally:
        launch.stopped.set()
        supervising.join()


class _Launch:
    """A launch. One thread starts and ends everything, so that the controller's can be interrupted at any time."""

    def __init__(self, crew: Crew, job: Job, python: str, commands: CommandsOf) -> None:
        self._crew, self._job, self._python, self._commands = crew, job, python, commands
        self._items: queue.SimpleQueue[bytes | Report | None] = queue.SimpleQueue()
        """Lines of agent 0, reports, and None at the end of agent 0."""
        self.stopped = threading.Event()

    def supervise(self) -> None:
        """Run the agents until `stopped` is set."""
        try:
            if self._await_crew():
                self._run()
        except OSError as error:
            self._items.put(ended_event("unavailable", f"The agents cannot be started: {error}.", 0))
        except Unavailable as error:
            self._items.put(ended_event("unavailable", str(error), 0))
        finally:
            self._items.put(None)

    def _await_crew(self) -> bool:
        """Return True once all processes have joined; False after a failure, or if `stopped` was set."""
        start = reported_at = time.monotonic()
        timeout = _JOIN * self._job.start_timeout
        while (missing := self._crew.list_missing()) and self._crew.failure is None:
            now = time.monotonic()
            text = ", ".join(describe_place(*place) for place in missing[:_MOST_NAMED])
            text += f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
            if now > start + timeout:
                message = (
                    f"These processes of the job have not joined within {timeout:.0f} s: {text}. Run the same command "
                    "in all processes, and see what those have printed."
                )
                self._items.put(ended_event("lost-node", message, missing[0][0]))
                return False
            if now > reported_at + _QUIET:
                reported_at = now
                event = {"event": "waiting", "text": f"processes that have not joined yet: {text}"}
                self._items.put(json.dumps(event).encode())
            if self.stopped.wait(_POLL):
                return False
        if self._crew.failure is not None:
            self._items.put(self._crew.failure)
            return False
        return True

    def _run(self) -> None:
        commands = dict(enumerate(self._commands()))
        cpus = {node: merge_cpus(self._crew.members_of(node)) for node in commands}
        os.sched_setaffinity(0, cpus[0])  # of this thread, and of what it starts
        self._crew.launch(self._job.bundle, commands, cpus, self._items.put)
        try:
            with run_commands([commands[0]], self._job.bundle) as lines:
                threading.Thread(target=self._forward, args=(lines,), daemon=True).start()
                self.stopped.wait()
                self._crew.end()
        finally:
            self._crew.end()
            self._crew.await_end(STOP_TIMEOUT)

    def _forward(self, lines: Iterator[bytes]) -> None:
        try:
            for line in lines:
                self._items.put(line)
        except (OSError, ValueError):
            pass  # the context was left, which closed the stream
        finally:
            self._items.put(None)

    def lines(self) -> Iterator[bytes]:
        """Yield agent 0's lines; at most one more, an event `ended`, if something else has failed."""
        final: bytes | None = None
        timeout: float | None = None
        """Seconds until `final` is the last line; None while nothing has failed."""
        due = 0.0
        while True:
            try:
                item = self._items.get(timeout=None if timeout is None else max(0.0, due - time.monotonic()))
            except queue.Empty:
                if final is not None:
                    yield final
                return
            if isinstance(item, Report):
                event = self._event_of(item)
                if item.kind == "interrupted":
                    yield event
                    return
                if timeout is not None:
                    continue
                final, timeout = event, _SETTLE
            elif item is None or is_abrupt_end(item):
                final, timeout = final if item is None else item, _SIGNAL
            else:
                yield item
                continue
            due = time.monotonic() + timeout

    def _event_of(self, report: Report) -> bytes:
        if report.errors is None:
            return ended_event(report.kind, report.message, report.node)
        output = json.dumps({"event": "diagnostics", "text": report.errors}).encode()
        *_, last = explain_start_failure(iter([output]), self._python, node=report.node)
        if last is not output:
            return last
        advice = "Check the Python that runs the agents there (--set agent_python=)."
        return ended_event(report.kind, f"{report.message} {advice} {report.errors}".strip(), report.node)
