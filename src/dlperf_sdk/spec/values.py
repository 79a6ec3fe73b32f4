"""Values of a spec's fields with their own textual form: a topology and a data source."""

from __future__ import annotations

import re
from typing import Annotated, Any

import attrs
from attrs import frozen

from dlperf_sdk.documents.field_types import Finite, Schema, keywords_of_type
from dlperf_sdk.documents.json_values import format_value
from dlperf_sdk.errors import SpecError
from dlperf_sdk.spec.data_source import DATA_SOURCES
from dlperf_sdk.spec.fields import NAME, check_name, check_text, optional, whole_number
from dlperf_sdk.spec.table import alternatives

Scalar = str | int | float | bool | None
"""Type of an option's value."""
FiniteScalar = Annotated[Scalar, Schema(**keywords_of_type(Finite))]


def format_scalar(value: object) -> str:
    """Format a value as a user types it after `--set NAME=`: `true`, `false` and `null`, else its `str`."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


MAX_BATCH: Any = "max"
"""Batch size that requests the maximum batch size."""

LOCAL = "local"
"""Launcher of a topology that names none: this machine."""

PHASES = ("start", "compile", "warmup", "step", "teardown")
"""Phases with a deadline. `step` is the longest silence between two steps of the measured window."""

_TOPOLOGY = re.compile(rf"([1-9][0-9]{{0,5}})n([1-9][0-9]{{0,5}})d(?:@({NAME.pattern}))?")

# Far above any real case: it keeps a mistyped or hostile number from overflowing. The schemas have it, too.
_MOST_NODES = 999_999


def launcher_suffix(launcher: str) -> str:
    """Return a launcher as it is written after the numbers of a topology: `@slurm`, or empty for `local`."""
    return "" if launcher == LOCAL else f"@{launcher}"


@frozen(order=True)
class TopologySpec:
    """Nodes × devices per node, and the launcher that places them; written `2n8d` or `2n8d@slurm`.

    Raises:
        SpecError: A number is not from 1 to 999999, or the launcher is not a name.
    """

    nodes: int = attrs.field(validator=whole_number(1, _MOST_NODES))
    """Number of nodes."""
    devices_per_node: int = attrs.field(validator=whole_number(1, _MOST_NODES))
    """Number of devices on each node."""
    launcher: str = attrs.field(default=LOCAL, validator=check_name)
    """Name of the launcher. Whether it exists is not checked here."""

    @property
    def devices(self) -> int:
        """Number of devices on all nodes, which is the number of replicas."""
        return self.nodes * self.devices_per_node

    @classmethod
    def parse(cls, text: str | TopologySpec) -> TopologySpec:
        """Return the topology of a text, `2n8d` or `2n8d@LAUNCHER`. A topology is returned unchanged.

        The launcher is `local` if the text has none. Whether the launcher exists is not checked here.

        Raises:
            SpecError: The value is neither a topology nor such a text, or a number is not from 1 to 999999.
        """
        if isinstance(text, cls):
            return text
        match = isinstance(text, str) and _TOPOLOGY.fullmatch(text)
        if not match:
            raise SpecError(
                f"topology is {format_value(text)}; write NODESnDEVICESd, both from 1 to 999999, with the "
                "launcher behind an '@' if it is not the local machine: 1n1d, 1n8d, 4n8d@slurm."
            )
        return cls(int(match[1]), int(match[2]), match[3] or LOCAL)

    def __str__(self) -> str:
        return f"{self.nodes}n{self.devices_per_node}d{launcher_suffix(self.launcher)}"


Topology = Annotated[
    TopologySpec,
    Schema(
        type="string",
        pattern=f"^{_TOPOLOGY.pattern}$",
        expected="NODESnDEVICESd, both from 1 to 999999, such as 1n1d or 2n8d, and @LAUNCHER behind it if it is not "
        "this machine",
    ),
]


@frozen
class DataSpec:
    """A data source, and its folder if it takes one; written `synthetic` or `images:FOLDER`.

    Raises:
        SpecError: The source is not a name, or the folder is an empty text or has a null character.
    """

    source: str = attrs.field(validator=check_name)
    """Name of the data source."""
    path: str | None = attrs.field(default=None, validator=optional(check_text))
    """Path of the folder; None without one."""

    @classmethod
    def parse(cls, text: str | DataSpec) -> DataSpec:
        """Return the data source of a text, `SOURCE` or `SOURCE:FOLDER`. A data source is returned unchanged.

        Whether the source exists and takes a folder is not checked here.

        Raises:
            SpecError: The value is neither a data source nor such a text.
        """
        if isinstance(text, cls):
            return text
        source, colon, path = text.partition(":") if isinstance(text, str) else ("", "", "")
        if colon and not path and source in DATA_SOURCES:
            raise SpecError(
                f"data is {format_value(text)}, without a folder; write '{DATA_SOURCES[source].usage}'."
            )
        if not NAME.fullmatch(source) or (colon and not path) or "\0" in path:
            raise SpecError(
                f"data is {format_value(text)}; write "
                f"{alternatives(repr(declared.usage) for declared in DATA_SOURCES)}."
            )
        return cls(source, path or None)

    def __str__(self) -> str:
        return self.source if self.path is None else f"{self.source}:{self.path}"


Data = Annotated[
    DataSpec,
    Schema(
        type="string",
        pattern=rf"^{NAME.pattern}(:[^\u0000]+)?$",
        expected="SOURCE or SOURCE:FOLDER, such as synthetic or images:FOLDER",
    ),
]
