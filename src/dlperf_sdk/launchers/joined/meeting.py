"""How the processes of a job find each other: the job's secret, and the address of rank 0.

Both are in a file that only its user can read, in a folder that all nodes share. Without such a folder, the user gives
the secret in a variable, and the job's variables give the address.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import socket
import stat
from collections.abc import Mapping
from pathlib import Path

import attrs
from attrs import frozen

from dlperf_sdk import private_files
from dlperf_sdk.errors import UsageError
from dlperf_sdk.folders import expand_home, follow_links
from dlperf_sdk.launchers.joined.job_kinds import Seat
from dlperf_sdk.worker import network
from dlperf_sdk.worker.agent.placement import expand_hosts

JOIN_VARIABLE = "DLPERF_JOIN_SECRET"
"""The variable with the secret, in place of the file."""
SHORTEST_SECRET = 32
"""Minimum number of characters of a secret that the user gives: it must not be found by trying."""
_LONGEST_FILE = 4096


@frozen
class Meeting:
    """The secret and the address with which a process of the job reaches rank 0."""

    secret: str
    """The secret of the job."""
    address: str
    """Name or address of rank 0's node, as the other nodes reach it."""


def meeting_file(folder: str, seat: Seat, environ: Mapping[str, str]) -> Path:
    """Return the path of the file through which the processes of a job find each other.

    All processes of a job get the same path. The file need not exist.

    Args:
        folder: The folder of the file; empty for the working directory.
        seat: The process's place in the job.
        environ: The environment variables of the process, which identify the job.
    """
    identity = [seat.kind.name, *(environ.get(name, "") for name in seat.kind.identity)]
    name = hashlib.sha256("\0".join(identity).encode()).hexdigest()[:16]
    return follow_links(expand_home(folder or ".")) / f".dlperf-job-{name}"


def _given_secret(environ: Mapping[str, str]) -> str | None:
    """Return the secret that the user gave in the variable; None if there is none.

    Raises:
        UsageError: The secret is too short.
    """
    secret = environ.get(JOIN_VARIABLE)
    if secret is not None and len(secret) < SHORTEST_SECRET:
        raise UsageError(
            f"The variable {JOIN_VARIABLE} has {len(secret)} characters; a secret needs at least {SHORTEST_SECRET}. "
            "`openssl rand -hex 32` prints one."
        )
    return secret


def open_meeting(path: Path, address: str, environ: Mapping[str, str]) -> Meeting:
    """Return the secret and the address by which other processes reach rank 0; called in rank 0.

    The secret is the user's, from DLPERF_JOIN_SECRET; in this case, no file is written. If the variable is not set, a
    random secret is drawn, and is written to the job's file together with `address`.

    Args:
        path: The job's file, as `meeting_file` returns it.
        address: This node's address, on which rank 0 listens.
        environ: The environment variables of the process.

    Raises:
        UsageError: The file cannot be written, or the given secret has fewer than 32 characters.
    """
    secret = _given_secret(environ)
    if secret is not None:
        return Meeting(secret, address)
    meeting = Meeting(secrets.token_hex(32), address)
    try:
        private_files.write(path, json.dumps(attrs.asdict(meeting)).encode())
    except OSError as error:
        raise UsageError(
            f"{path.parent}, in which the processes of the job meet, cannot be written: {error.strerror}. Name a "
            f"folder that all nodes share (--set meeting=DIR), or give all processes a secret in {JOIN_VARIABLE}."
        ) from error
    return meeting


def close_meeting(path: Path, meeting: Meeting) -> None:
    """Remove the job's file if it still contains the secret and the address of `meeting`. No error is raised.

    Args:
        path: The job's file, as `meeting_file` returns it.
        meeting: The secret and the address, as `open_meeting` returned them.
    """
    with contextlib.suppress(OSError, ValueError):
        if _read(path) == meeting:
            path.unlink()


def find_meeting(path: Path, address: str, environ: Mapping[str, str]) -> Meeting:
    """Return the secret and the address by which rank 0 is reached; called in a process other than rank 0.

    The secret comes from the variable DLPERF_JOIN_SECRET, or else, with the address, from the job's file.

    Args:
        path: The job's file, as `meeting_file` returns it.
        address: Rank 0's address, if the user or the job gives it, else empty; used if the secret is in the variable.
        environ: The environment variables of the process.

    Raises:
        ValueError: The file does not exist yet, cannot be read or trusted, or is malformed; the message is a clause
            without a full stop.
        UsageError: The given secret has fewer than 32 characters, or it is given without an address.
    """
    secret = _given_secret(environ)
    if secret is None:
        try:
            return _read(path)
        except OSError as error:
            raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    if not address:
        raise UsageError(
            f"The variable {JOIN_VARIABLE} is set, and this job does not set the address of rank 0's node. Give it "
            "with --set address=HOST."
        )
    return Meeting(secret, address)


def _read(path: Path) -> Meeting:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise ValueError(
                f"{path} must be a regular file of this user, which no other user may read or write"
            )
        try:
            document = json.loads(file.read(_LONGEST_FILE))
            secret, address = document["secret"], document["address"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ValueError(f"{path} is not a job file of dlperf") from None
    if not (isinstance(secret, str) and isinstance(address, str) and len(secret) >= SHORTEST_SECRET):
        raise ValueError(f"{path} is not a job file of dlperf")
    return Meeting(secret, address)


def address_of_controller(seat: Seat, option: str, environ: Mapping[str, str]) -> str:
    """Return the name or address of rank 0's node, from the user or the job; empty if neither gives it.

    For a job on one node, it is `127.0.0.1` unless the user gives another one.

    Args:
        seat: The place of this process in the job.
        option: The value of the user's option `address`; empty if it is not set.
        environ: The environment variables of the process.

    Raises:
        UsageError: The job's variable with the list of its hosts is malformed.
    """
    if option or seat.nodes == 1:
        return option or "127.0.0.1"
    if seat.kind.hosts:
        try:
            return expand_hosts(environ[seat.kind.hosts])[0] if seat.kind.hosts in environ else ""
        except ValueError as error:
            raise UsageError(
                f"The variable {seat.kind.hosts} does not name the nodes of the job ({seat.kind.name}): {error}. "
                "Give the address of rank 0's node with --set address=HOST."
            ) from error
    return environ.get(seat.kind.address, "") if seat.kind.address else ""


def listening_address(seat: Seat, option: str, environ: Mapping[str, str]) -> str:
    """Return the address in digits at which the other nodes reach this node, the node of rank 0.

    The name or address that `address_of_controller` returns is looked up first, then this node's own name. A node's
    name often stands for its loopback address, which other nodes cannot use. Such an address is skipped unless the user
    gave it. If nothing is left, the result is the first address of a network interface that is not a loopback address.
    For a job on one node, it is `127.0.0.1` unless the user gives another one.

    Args:
        seat: The place of this process, rank 0, in the job.
        option: The value of the user's option `address`; empty if it is not set.
        environ: The environment variables of the process.

    Raises:
        UsageError: This node has only loopback addresses, or the job's variable with the list of its hosts is
            malformed.
    """
    if seat.nodes == 1 and not option:
        return "127.0.0.1"
    names = [address_of_controller(seat, option, environ), socket.gethostname()]
    for name in filter(None, names):
        with contextlib.suppress(
            OSError, UnicodeError
        ):  # UnicodeError: a name that no host can have, such as a..b
            address = socket.gethostbyname(name)
            if not address.startswith("127.") or name in (option, address):
                return address
    for _, interface in socket.if_nameindex():
        with contextlib.suppress(OSError):
            address = network.address_of(interface)
            if not address.startswith("127."):
                return address
    raise UsageError(
        "The node of rank 0 has no address that other nodes could reach. Give one with --set address=HOST."
    )
