"""Types of the fields of the worker's request.

The worker sees plain values; the schema is made from the core's classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from dlperf_sdk.documents.field_types import (
    Name,
    Schema,
    SystemText,
    VariableName,
    WrittenAs,
    keywords_of_type,
)
from dlperf_sdk.interfaces.model import Input, Parameter
from dlperf_sdk.spec.checks import deadlines
from dlperf_sdk.spec.fields import keywords_of
from dlperf_sdk.spec.part import PARTS
from dlperf_sdk.spec.protocol import Protocol
from dlperf_sdk.spec.values import PHASES


def _object_with(key: str, description: str) -> Schema:
    """Return the keywords of an object that has a name under `key`, and may have any other keys."""
    name = {"description": description, "type": "string", **keywords_of_type(Name)}
    return Schema(type="object", properties={key: name}, required=[key], additionalProperties=True)


DataRequest = Annotated[dict[str, Any], _object_with("source", "The data source.")]
OptimizerRequest = Annotated[dict[str, Any], _object_with("kind", "The optimizer.")]
ParameterManifest = Annotated[list[dict[str, Any]], WrittenAs(tuple[Parameter, ...])]
InputManifest = Annotated[list[dict[str, Any]], WrittenAs(tuple[Input, ...])]
ProtocolRequest = Annotated[dict[str, Any], WrittenAs(Protocol)]
PhaseDeadlines = Annotated[dict[str, float], Schema(**keywords_of(deadlines), required=list(PHASES))]
Command = Annotated[list[str], WrittenAs(tuple[SystemText, ...]), Schema(minItems=1)]
Variables = dict[VariableName, SystemText | None]
SecretNames = Annotated[Sequence[str], WrittenAs(tuple[VariableName, ...])]
ProgramNames = Annotated[Sequence[str], WrittenAs(tuple[SystemText, ...])]
MemoryLimit = Annotated[int, Schema(minimum=1, maximum=2**60)] | None
LossScale = Annotated[float, Schema(exclusiveMinimum=0, maximum=2**24)]
AttemptNumber = Annotated[int, Schema(minimum=1, maximum=10**12)]
Program = Annotated[str, Schema(enum=["measure", "parity", "trace"])]
PartName = Annotated[str, Schema(enum=[part.name for part in PARTS])]
BusyAction = Annotated[str, Schema(enum=["wait", "note", "refuse"])]
