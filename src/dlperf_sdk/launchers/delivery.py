"""What the launchers share: a node's command, and the processes that carry the bundle there and the stream back."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import selectors
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO

from attrs import frozen

import dlperf_sdk
from dlperf_sdk.interfaces.topology import Job

BEAT = 5.0
"""Seconds between two signs of life on an agent's tether; it ends itself after 25 without one."""
SILENCE = 15.0
"""Seconds without an event after which agent 0 counts as lost; it gives a sign of life every two."""
PATIENCE = 10.0
"""Seconds that the agents are given to end their workers; those get three of them."""
_SETTLE = 5.0
"""Seconds in which, after a node's command has failed, agent 0 may tell the story better."""
_LAST_WORDS = 4000
HEARTBEAT = b'{"event": "heartbeat"}'
"""A sign of life in a stream, from a launcher that has something to wait for."""


@cache
def bootstrap() -> str:
    """The program that takes the bundle from standard input, without what only its readers need."""
    path = Path(dlperf_sdk.__file__).parent / "worker" / "agent" / "bootstrap.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return ast.unparse(ast.Module(tree.body[1:], []))


@frozen
class Rendezvous:
    """What an agent is told of its place: literally, or the name of the launcher's variable behind a '$'."""

    node: str
    hosts: str
    interface: str = ""
    """Its network interface, instead of the one that it is reached over."""
    ports: str = ""
    """FIRST-LAST: the only ports that it listens on, and hands out."""


def node_command(job: Job, python: str, place: Rendezvous) -> tuple[str, ...]:
    """What runs on a node, with the bundle on its standard input. An agent needs the standard library, so its Python
    leaves out (-S) what site packages do at its start."""
    said = {"--interface": place.interface, "--ports": place.ports}
    chosen = tuple(word for flag, value in said.items() if value for word in (flag, value))
    return (
        *job.prefix,
        *(python, "-I", "-S", "-c", bootstrap(), _size(job.bundle)),
        *("agent", "--case", job.id, "--node", place.node, "--hosts", place.hosts, *chosen, "--tether"),
    )


def shown(command: Sequence[str]) -> tuple[str, ...]:
    """The command for people: what the bootstrap is, they need not read each time."""
    return tuple("BOOTSTRAP" if word == bootstrap() else word for word in command)


def _size(bundle: Path) -> str:
    try:
        return str(bundle.stat().st_size)
    except OSError:
        return "BYTES"  # a plan is shown, and there is none yet


@contextmanager
def running(
    commands: Sequence[Sequence[str]], bundle: Path, diagnostics: IO[bytes]
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that are fed the bundle, and then a sign of life every few seconds; leaving the context ends them.

    They end by the end of their standard input; who does not in time is killed, and what it had started elsewhere
    ends itself for want of a sign of life.
    """
    started: list[subprocess.Popen[bytes]] = []
    over = threading.Event()
    try:
        for command in commands:
            started.append(
                subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=diagnostics,
                    start_new_session=True,  # a Ctrl-C is the controller's to handle
                )
            )
            threading.Thread(
                target=_feed, args=(started[-1].stdin, bundle.read_bytes(), over), daemon=True
            ).start()
        yield started
    finally:
        over.set()
        _end(started)


def _feed(pipe: IO[bytes], bundle: bytes, over: threading.Event) -> None:
    """Closes the pipe when it is over, or nobody reads it any more."""
    with contextlib.suppress(OSError, ValueError), pipe:
        pipe.write(bundle)
        pipe.flush()
        while not over.wait(BEAT):
            pipe.write(b"\n")
            pipe.flush()


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + PATIENCE
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def lines_of(processes: Sequence[subprocess.Popen[bytes]], diagnostics: IO[bytes]) -> Iterator[bytes]:
    """All lines that the processes print, until the first of them, which carries agent 0's stream, ends.

    Where another one fails and agent 0 has nothing to say about it, a last line tells which.
    """
    parts: dict[int, bytes] = dict.fromkeys(range(len(processes)), b"")
    failed: tuple[float, int] | None = None
    with selectors.DefaultSelector() as ready:
        for index, process in enumerate(processes):
            assert process.stdout is not None
            ready.register(process.stdout, selectors.EVENT_READ, index)
        while True:
            for key, _ in ready.select(None if failed is None else max(0.0, failed[0] - time.monotonic())):
                index, data = key.data, os.read(key.fd, 1 << 16)
                *lines, parts[index] = (
                    (parts[index] + data).split(b"\n") if b"\n" in data else [parts[index] + data]
                )
                yield from lines
                if not data:
                    ready.unregister(key.fileobj)
                    if index == 0:
                        yield last_words(diagnostics)
                        return
                    if processes[index].wait() and failed is None:
                        failed = time.monotonic() + _SETTLE, index
            if failed is not None and time.monotonic() >= failed[0]:
                code, node = processes[failed[1]].returncode, failed[1]
                said = f"The command of node {node} ended with code {code} before its agent did. {said_in(diagnostics)}"
                yield ended("lost-node", said.strip(), node)
                return


def ended(kind: str, message: str, node: int | None = None) -> bytes:
    """The stream's last event, where it is the launcher that knows why a run ended."""
    failure = {"kind": kind, "message": message, "phase": None, "node": node, "rank": None}
    return json.dumps({"event": "ended", "status": kind, "failure": failure}).encode()


def lost(host: str | None, how: str, said: str = "") -> bytes:
    """The stream's last event, where agent 0 can no longer say it; `host` is its node's name, if that is known."""
    name = f"node 0 ({host})" if host else "node 0"
    tail = f" Its last words: {said}" if said else ""
    message = (
        f"The agent of {name} {how}. Every node's workers end themselves; finished repeats are kept.{tail}"
    )
    return ended("lost-node", message, 0)


def is_lost(line: bytes) -> bool:
    """Whether a line is the stream's last event, and says that a node was lost."""
    return _ended_in(line) == "lost-node"


def has_died(line: bytes) -> bool:
    """Whether a line is the stream's last event, and says that a node was lost or a worker died: what a scheduler that
    ends everything looks like to whoever it ends last."""
    return _ended_in(line) in ("lost-node", "crashed")


def _ended_in(line: bytes) -> str | None:
    """The status in a stream's last event; None for any other line."""
    if b'"ended"' not in line:
        return None
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event.get("status") if isinstance(event, dict) and event.get("event") == "ended" else None


def last_words(diagnostics: IO[bytes]) -> bytes:
    """What the launcher and the agents wrote to standard error, as an event."""
    return json.dumps({"event": "diagnostics", "text": said_in(diagnostics)}).encode()


def said_in(diagnostics: IO[bytes]) -> str:
    """The end of it."""
    diagnostics.seek(0, os.SEEK_END)
    diagnostics.seek(max(0, diagnostics.tell() - _LAST_WORDS))
    return diagnostics.read().decode(errors="replace").strip()
