"""Definition of a failure in the protocol: one shape, and the rules for which of several failures is the cause."""

from typing import Any, Dict, List, Optional

from dlperf_sdk.worker import memory

SETTLE = 1.0
"""Seconds to wait for further failures after the first one: the cause is not always reported first."""

KINDS = (
    "out-of-memory",
    "unsupported",
    "unavailable",
    "environment",
    "lost-node",
    "timeout",
    "invalid-record",
    "crashed",
)
"""Kinds of failure, the most probable cause first. When several workers fail, one failure mostly causes the others:
for example, when a node is lost, the workers of the other nodes lose their peers."""


class Failed(Exception):
    """An error that carries a failure of the protocol in its attribute `failure`.

    Args:
        failure: A dict with `kind`, `message`, `phase`, `node` and `rank`, as the function `failure` returns it. The
            `message` is the error's text.
    """

    def __init__(self, failure: Dict[str, Any]) -> None:
        super().__init__(failure["message"])
        self.failure = failure


def failure(
    kind: str,
    message: str,
    phase: Optional[str] = None,
    node: Optional[int] = None,
) -> Dict[str, Any]:
    """Return a failure that an agent or the coordinator detected, in the form of `dlperf_sdk.results.records.Failure`.

    Args:
        kind: The kind of failure: a `dlperf_sdk.results.records.FailureKind`.
        message: What happened, and what to do next.
        phase: The phase in which it happened; None if unknown.
        node: Number of the node on which it happened; None if unknown.

    Returns:
        A dict: the four arguments by name, and `rank`, which is None.
    """
    return {"kind": kind, "message": message, "phase": phase, "node": node, "rank": None}


def explain_worker_failure(
    name: str,
    exit: Dict[str, Any],
    record: Optional[Dict[str, Any]],
    why_no_record: str,
    detected: Optional[Dict[str, Any]],
    kernel_killed: bool,
    limit: Optional[int],
    log: str,
) -> Optional[Dict[str, Any]]:
    """Return the failure of a trainer that has ended; None if it succeeded.

    The first rule that applies decides:

    1. The agent detected a failure: that failure.
    2. The record has a failure: that failure.
    3. SIGKILL ended the trainer and the kernel killed a process because memory ran out; or the trainer ended with a
       signal or an exit code other than 0, its memory is limited, and `log` reports a lack of memory: `out-of-memory`.
    4. A signal ended the trainer, or its exit code is not 0: `crashed`, even if the record reports success.
    5. The record is missing or reports no success: `invalid-record`.

    A failure of an unknown kind becomes `invalid-record`.

    Args:
        name: The trainer's name in messages.
        exit: How the trainer ended, as `WorkerProcess.exit` returns it: `code`, `signal` (its name, or None), `phase`,
            `node` and `rank`.
        record: The trainer's record as JSON values; None if it left none that can be read.
        why_no_record: If `record` is None, the reason: a phrase that continues a sentence about the trainer.
        detected: The failure that the agent detected, in the form of `failure`; None if it detected none.
        kernel_killed: True if the kernel has killed a process because memory ran out during the attempt.
        limit: Bytes that each trainer may allocate; None without a limit.
        log: The end of the trainer's log; only read if `limit` or `ulimit -v` limits its memory.

    Returns:
        A new dict with `kind`, `message`, `phase`, `node` and `rank` of the failure; one from the record also has the
        record's further fields, such as `type` and `traceback`. None if the trainer succeeded.
    """
    reported = (record or {}).get("failure")
    phase = exit["phase"]
    ok = record is not None and record.get("status") == "ok"
    is_limited = limit is not None or memory.address_space_limit() is not None
    if record is not None and not ok:
        why_no_record = "left a record that states neither success nor a failure"
    if detected is not None:
        failed = dict(detected)
    elif record is not None and record.get("status") == "failed" and isinstance(reported, dict):
        failed = dict(reported)
    elif exit["signal"] == "SIGKILL" and kernel_killed:
        failed = failure(
            "out-of-memory",
            "%s was killed by the kernel in phase '%s' because the machine, or its control group, had no memory left. "
            "Use a smaller batch size, or a machine with more memory." % (name, phase),
        )
    elif (exit["signal"] or exit["code"]) and is_limited and memory.reports_out_of_memory(log):
        cause = (
            "`ulimit -v` limits its address space"
            if limit is None
            else "memory_limit lets it allocate %d bytes only" % limit
        )
        failed = failure(
            "out-of-memory",
            "%s ended in phase '%s' since %s: its log ends with %r. Allow more."
            % (name, phase, cause, _last_line(log)),
        )
    elif exit["signal"]:
        message = "%s was ended by %s in phase '%s'. Its log shows how far it came; %s.%s"
        advice = _advice(exit["signal"])
        failed = failure("crashed", message % (name, exit["signal"], phase, advice, _limit_hint(limit)))
    elif exit["code"] and ok:
        message = (
            "%s had written its record, and then left with exit code %d in phase '%s': what failed came after its "
            "work, where the runtime's `stop` and exit functions run. Its log may say why.%s"
        )
        failed = failure("crashed", message % (name, exit["code"], phase, _limit_hint(limit)))
    elif exit["code"]:
        message = "%s left with exit code %d in phase '%s', and %s; its log may say why.%s"
        failed = failure("crashed", message % (name, exit["code"], phase, why_no_record, _limit_hint(limit)))
    elif not ok:
        message = (
            "%s left with exit code 0 in phase '%s', but %s. See its log, and what in the plugin ends the process or "
            "touches its record."
        )
        failed = failure("invalid-record", message % (name, phase, why_no_record))
    else:
        return None
    if failed.get("kind") not in KINDS:
        message = "%s reported a failure of an unknown kind, %.40r: its record breaks the protocol."
        failed = failure("invalid-record", message % (name, failed.get("kind")))
    return dict(failed, phase=failed.get("phase") or phase, node=exit["node"], rank=exit["rank"])


def explain_service_failure(name: str, exit: Dict[str, Any], kernel_killed: bool) -> Optional[Dict[str, Any]]:
    """Return the failure of a service that ended while trainers needed it; None if its exit code was 0.

    The failure is a dict with `kind`, `message`, `phase`, `node` and `rank`. Its kind is `out-of-memory` if the kernel
    killed the service because memory ran out, else `crashed`.

    Args:
        name: The service's name in messages.
        exit: How the service ended, as `WorkerProcess.exit` returns it: `code`, `signal` (its name, or None) and
            `node`.
        kernel_killed: True if the kernel has killed a process because memory ran out during the attempt.
    """
    if not exit["signal"] and not exit["code"]:
        return None
    if exit["signal"] == "SIGKILL" and kernel_killed:
        message = (
            "%s, which the trainers need, was killed by the kernel because the machine, or its control group, had no "
            "memory left. Use a smaller batch size, or a machine with more memory."
        )
        return failure("out-of-memory", message % name, None, exit["node"])
    if exit["signal"]:
        ending = "was ended by %s" % exit["signal"]
        advice = _advice(exit["signal"])
    else:
        ending, advice = "left with exit code %d" % exit["code"], "the end of the log may say why"
    message = "%s, which the trainers need, %s on node %d. Its log shows how far it came; %s."
    return failure("crashed", message % (name, ending, exit["node"], advice), None, exit["node"])


def _last_line(log: str) -> str:
    return (log.rstrip().splitlines() or [""])[-1][:200]


def _limit_hint(limit: Optional[int]) -> str:
    """Return a hint that a limit may be the reason why a process died without mentioning memory."""
    if limit is None:
        space = memory.address_space_limit()
        return (
            ""
            if space is None
            else " `ulimit -v` leaves it %d KiB, which may be too few: raise it." % (space // 1024)
        )
    return " memory_limit lets it allocate %d bytes, which may be too few: try with more." % limit


def _advice(signal: str) -> str:
    """Return advice for a process that was ended by a signal that this run did not send."""
    if signal == "SIGKILL":
        return "a user or a memory watchdog sent the signal; if memory ran out, choose a smaller batch size"
    if signal in ("SIGTERM", "SIGINT", "SIGHUP"):
        return "a user or the scheduler of this machine sent the signal"
    return "look there, and in the framework's issues, for a fault in its libraries"


def select_cause(failures: List[Dict[str, Any]]) -> Dict[str, Any]:
    """Return the failure that most probably caused the others.

    The kind decides: `out-of-memory`, `unsupported`, `unavailable`, `environment`, `lost-node`, `timeout`,
    `invalid-record`, `crashed`, in this order. Among failures of one kind, those without an exception's type come
    first, such as a death by a signal. Among these, the earliest is taken.

    Args:
        failures: At least one failure, in order of arrival; each a dict with `kind`, and with the exception's `type` if
            there is one.

    Raises:
        ValueError: There is no failure, or one has a kind that is not in this list, such as `interrupted`.
    """
    return min(failures, key=lambda failure: (KINDS.index(failure["kind"]), failure.get("type") is not None))
