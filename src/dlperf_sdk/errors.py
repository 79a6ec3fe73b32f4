"""Every exception that dlperf-sdk raises on purpose.

::

    DlperfError                      exit code
    ├── UsageError                       2     the request cannot be understood
    │   ├── SpecError                    2     a field of the run spec is wrong
    │   ├── UnknownName                  2     no plugin, option or key has that name
    │   ├── DocumentError                2     a file is corrupt, of another kind, or of another version
    │   ├── CampaignError                2     a campaign has mistakes; the message names the line of its file
    │   ├── StoreError                   2     the result store cannot be read or written
    │   └── AnalysisError                2     the measurements cannot answer the question
    │       └── NotComparable            2     two results do not measure the same; `.reasons` says why
    ├── PluginError                      3     a plugin is installed, but does not work
    │   └── DuplicatePlugin              3     two distributions claim one name
    └── RunFailed                       3/4    a case failed; see `.result` and `.failure`
        ├── Unsupported                  4     the framework, or its plugin, cannot do this
        ├── Unavailable                  4     devices, ports or files are missing or in use; or the store failed
        │                                      during the run
        ├── EnvironmentFailed            3     the framework's environment could not be made or used
        ├── OutOfMemory                  4
        ├── TimedOut                     4     a phase passed its deadline
        ├── Crashed                      4     a worker raised, or died
        ├── LostNode                     4     a node's agent no longer responds
        ├── InvalidRecord                4     a worker's record breaks the protocol
        └── Interrupted                 130    Ctrl-C, or the controller was told to stop

`run()` raises a `UsageError` or `PluginError` at once: nothing was measured. Every error under `RunFailed`
becomes the `failure` of a `Result`, and is raised only on request (`raise_on_failure=True`).
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
    """Base class of every exception that dlperf-sdk raises on purpose."""

    exit_code: ClassVar[int] = 4
    """Exit code of the command line for this exception."""


class UsageError(DlperfError):
    """A request that cannot be understood. Nothing was started."""

    exit_code = 2


class SpecError(UsageError, ValueError):
    """An impossible value of a field of a run spec, or of an option."""


ALSO_CALLED = {
    "gpu": "cuda",
    "nvidia": "cuda",
    "amd": "rocm",
    "bf16": "amp-bf16",
    "output": "store",
    "replicated": "all_reduce",
}
"""Other names of something → its name, where the two do not look alike."""


_MAX_LISTED = 12
"""Maximum number of known names in a message."""
_MOST_CHARACTERS = 100
"""Maximum length of the unknown name in a message."""


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names))


@define(auto_exc=True)
class UnknownName(UsageError, LookupError):
    """A name that does not exist.

    The message suggests similar names. It lists the known names, if there are not too many.
    """

    kind: str
    """Kind of the name in messages: `framework`, `option`, …."""
    name: str
    """The unknown name."""
    known: tuple[str, ...] = field(converter=_sorted)
    """Names that exist, sorted."""
    hint: str = ""
    """Sentence at the end of the message; may be empty."""
    replacement: str = ""
    """Sentence that says what to use, in place of similar and known names; may be empty."""

    def __str__(self) -> str:
        short = str(self.name)[:_MOST_CHARACTERS]
        close = [name for name in self.known if name == ALSO_CALLED.get(short.lower())]
        close = close or difflib.get_close_matches(short, self.known, n=3, cutoff=0.5)
        cut = "…" if len(str(self.name)) > _MOST_CHARACTERS else ""
        parts = [f"There is no {self.kind} named {short!r}{cut}."]
        if self.replacement:
            return " ".join([*parts, self.replacement])
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
    """A document (spec, request, record, result) that does not follow its schema, or is of another version.

    `place` holds the keys and indexes that lead to the mistake, from the top of the document; empty if unknown.
    """

    def __init__(self, message: str, place: Iterable[str | int] = ()) -> None:
        super().__init__(message)
        self.place = tuple(place)


class CampaignError(UsageError, ValueError):
    """A campaign, or its file, with mistakes. The message names the file and the line."""


class StoreError(UsageError):
    """A result store whose directory cannot be read or written. During a run, `Unavailable` is raised instead."""


class AnalysisError(UsageError, ValueError):
    """A question that the measurements cannot answer."""


class NotComparable(AnalysisError):
    """Two results that cannot be compared. `reasons` has a phrase for each difference that prevents it."""

    def __init__(self, message: str, reasons: Iterable[str]) -> None:
        super().__init__(message)
        self.reasons = tuple(reasons)


class PluginError(DlperfError):
    """A plugin that is installed but cannot be used: it cannot be imported, raises, or lacks its interface."""

    exit_code = 3


class DuplicatePlugin(PluginError):
    """Two distributions that register the same name in the same group."""


class RunFailed(DlperfError):
    """A case that was understood and tried, and that failed.

    `result` is the case's result and `failure` has node, rank and phase; both are None if unknown.
    """

    kind: ClassVar[str] = "crashed"
    """Kind of the failure, which is the `status` of the result."""

    def __init__(self, message: str, result: Result | None = None, failure: Failure | None = None) -> None:
        super().__init__(message)
        self.result, self.failure = result, failure


class Unsupported(RunFailed):
    """A case that the framework cannot run, or that its plugin does not implement."""

    kind = "unsupported"


class Unavailable(RunFailed):
    """Devices, ports or files of a case that are missing or in use; or a store that failed during the run."""

    kind = "unavailable"


class EnvironmentFailed(RunFailed):
    """An environment that could not be created, or that does not satisfy the plugin."""

    kind = "environment"
    exit_code = 3


class OutOfMemory(RunFailed):
    """A worker that ran out of host or device memory."""

    kind = "out-of-memory"


class TimedOut(RunFailed):
    """A phase that passed its deadline. The workers were ended."""

    kind = "timeout"


class Crashed(RunFailed):
    """A worker that raised an exception, or died."""

    kind = "crashed"


class LostNode(RunFailed):
    """A node whose agent no longer responds, or a coordinator that no longer responds to the controller."""

    kind = "lost-node"


class InvalidRecord(RunFailed):
    """A worker's record that does not follow the protocol."""

    kind = "invalid-record"


class Interrupted(RunFailed):
    """A run that was stopped before its end."""

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
"""Kind of failure → its exception."""
