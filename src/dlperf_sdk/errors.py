"""Every exception that dlperf-sdk raises on purpose.

::

    DlperfError                      exit code
    ├── UsageError                       2     what was asked cannot be understood
    │   ├── SpecError                    2     a field of the run spec is wrong
    │   ├── UnknownName                  2     no plugin, option or key of that name
    │   ├── DocumentError                2     a file is not what it should be: corrupt, or of a newer version
    │   ├── CampaignError                2     a campaign asks for what cannot be; says in which line of its file
    │   ├── StoreError                   2     the result store cannot be read or written
    │   └── AnalysisError                2     what was measured cannot answer the question
    │       └── NotComparable            2     two results do not measure the same; `.reasons` says why
    ├── PluginError                      3     a plugin is installed, but does not work
    │   └── DuplicatePlugin              3     two distributions claim one name
    └── RunFailed                       3/4    a case failed; `.result` holds it, `.failure` says how
        ├── Unsupported                  4     the framework, or its plugin, cannot do this
        ├── Unavailable                  4     the devices, ports or files are not there, or are in use; or the
        │                                      store has failed in the middle
        ├── EnvironmentFailed            3     the framework's environment could not be made or used
        ├── OutOfMemory                  4
        ├── TimedOut                     4     a phase passed its deadline
        ├── Crashed                      4     a worker raised, or died
        ├── LostNode                     4     a node's agent is no longer heard
        ├── InvalidRecord                4     a worker's record breaks the protocol
        └── Interrupted                 130    somebody pressed Ctrl-C, or the controller was told to stop

`run()` raises a `UsageError` or `PluginError` at once: nothing was measured. Everything under `RunFailed` is
data first: it becomes the `failure` of a `Result`, and is raised only on request (`raise_on_failure=True`).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from attrs import define, field

if TYPE_CHECKING:
    from dlperf_sdk.results.records import Failure
    from dlperf_sdk.results.result import Result


class DlperfError(Exception):
    """The root: catch this to catch everything that dlperf-sdk raises on purpose."""

    exit_code: ClassVar[int] = 4


class UsageError(DlperfError):
    """Request that cannot be understood. Nothing was started."""

    exit_code = 2


class SpecError(UsageError, ValueError):
    """A field of a run spec has an impossible value."""


ALSO_CALLED = {"gpu": "cuda", "nvidia": "cuda", "amd": "rocm", "output": "store"}
"""Names that people use → names that look different but mean the same."""


_MAX_LISTED = 12
"""Names that are listed at most: among more, nobody looks for the one that was meant."""


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names))


@define(auto_exc=True)
class UnknownName(UsageError, LookupError):
    """A name that nothing answers to.

    Where the known names are many, the message lists those that look like it, or else the first.
    """

    kind: str
    """What was looked for: "framework", "option", …."""
    name: str
    known: tuple[str, ...] = field(converter=_sorted)
    """Names that would have worked."""
    hint: str = ""

    def __str__(self) -> str:
        close = [name for name in self.known if name == ALSO_CALLED.get(str(self.name).lower())]
        close = close or difflib.get_close_matches(str(self.name), self.known, n=3, cutoff=0.5)
        parts = [f"There is no {self.kind} named {self.name!r}."]
        if close:
            parts.append(f"Did you mean {close[0]!r}?")
        if not self.known:
            parts.append(f"There is no {self.kind} at all.")
        elif len(self.known) <= _MAX_LISTED:
            parts.append(f"Known: {', '.join(self.known)}.")
        elif not close:
            parts.append(
                f"Known: {', '.join(self.known[:_MAX_LISTED])}, and {len(self.known) - _MAX_LISTED} more."
            )
        elif close[1:]:
            parts.append(f"Also similar: {', '.join(close[1:])}.")
        if self.hint:
            parts.append(self.hint)
        return " ".join(parts)


class DocumentError(UsageError, ValueError):
    """A document (spec, request, record, result) does not follow its schema, or is of a newer version.

    `place` holds the keys that lead to what is wrong, where that is known.
    """

    def __init__(self, message: str, place: Iterable[str | int] = ()) -> None:
        super().__init__(message)
        self.place = tuple(place)


class CampaignError(UsageError, ValueError):
    """A campaign, or its file, asks for what cannot be done. The message names the file and the line."""


class StoreError(UsageError):
    """The result store's directory cannot be read or written. Once something has been started, it is `Unavailable`."""


class AnalysisError(UsageError, ValueError):
    """Question that the measurements cannot answer."""


class NotComparable(AnalysisError):
    """Two results do not measure the same thing. `reasons` has a sentence for each difference."""

    def __init__(self, message: str, reasons: Iterable[str]) -> None:
        super().__init__(message)
        self.reasons = tuple(reasons)


class PluginError(DlperfError):
    """A plugin is installed but cannot be used: it fails to import, or is not what its group asks for."""

    exit_code = 3


class DuplicatePlugin(PluginError):
    """Two distributions register the same name in the same group."""


class RunFailed(DlperfError):
    """A case was understood, tried, and failed. `kind` is the `status` of its `Result`.

    `failure` has node, rank and phase, where they are known.
    """

    kind: ClassVar[str] = "crashed"

    def __init__(self, message: str, result: Result | None = None, failure: Failure | None = None) -> None:
        super().__init__(message)
        self.result, self.failure = result, failure


class Unsupported(RunFailed):
    """The framework cannot do what was asked, or its plugin does not implement it."""

    kind = "unsupported"


class Unavailable(RunFailed):
    """Devices, ports or files that the case needs are not there, or somebody else holds them.

    Or the store that was there at its begin has failed in the middle.
    """

    kind = "unavailable"


class EnvironmentFailed(RunFailed):
    """The framework's environment could not be created, or does not satisfy the plugin."""

    kind = "environment"
    exit_code = 3


class OutOfMemory(RunFailed):
    """A worker ran out of host or device memory."""

    kind = "out-of-memory"


class TimedOut(RunFailed):
    """A phase passed its deadline; the workers were ended."""

    kind = "timeout"


class Crashed(RunFailed):
    """A worker raised an exception, or died."""

    kind = "crashed"


class LostNode(RunFailed):
    """The coordinator no longer hears a node's agent, or the controller no longer hears the coordinator."""

    kind = "lost-node"


class InvalidRecord(RunFailed):
    """A worker's record does not follow the protocol."""

    kind = "invalid-record"


class Interrupted(RunFailed):
    """The run was asked to stop before it was done."""

    kind = "interrupted"
    exit_code = 130


FAILURES: dict[str, type[RunFailed]] = {
    cls.kind: cls
    for cls in (
        Unsupported,
        Unavailable,
        EnvironmentFailed,
        OutOfMemory,
        TimedOut,
        Crashed,
        LostNode,
        InvalidRecord,
        Interrupted,
    )
}
"""Failure kind → the exception that stands for it."""
