"""Types of fields in documents: Python types with JSON Schema keywords that bound their values.

`make schemas` reads the keywords from the annotations of the documents' classes. At run time the types are the plain
ones: a document is checked against its schema once, before it becomes values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, get_args

from dlperf_sdk.documents.json_values import LARGEST_FLOAT

_LARGEST_INT64 = 2**63 - 1


class Schema:
    """JSON Schema keywords of a type, attached to it with `typing.Annotated`.

    Args:
        name: Name in `$defs`, for a type that is defined once and referred to; None: it is defined where it is used.
        keywords: Keyword → value, added to the keywords that follow from the type. If `type` or `anyOf` is among them,
            the keywords that follow from the type are left out. The annotation `expected` says in words what a
            `pattern` allows; error messages show it.
    """

    def __init__(self, name: str | None = None, **keywords: Any) -> None:
        self.name = name
        self.keywords = keywords


class WrittenAs:
    """Type of a field's value in documents, attached with `typing.Annotated` if it has another type in Python.

    Args:
        type: The type in documents, from which the schema is made.
    """

    def __init__(self, type: Any) -> None:
        self.type = type


def text(pattern: str, expected: str) -> Schema:
    """Return the annotation of a field whose value is a text that matches a pattern, for `Annotated[str, …]`.

    Args:
        pattern: Regular expression of ECMA 262, with `^` and `$` for a match of the whole text.
        expected: Description of the pattern in words, for error messages.
    """
    return Schema(pattern=pattern, expected=expected)


def keywords_of_type(annotated: Any) -> dict[str, Any]:
    """Return the JSON Schema keywords that `Annotated` and `Schema` attach to a type, as a new dictionary.

    The keywords that follow from the type itself, such as its `type`, are not included. Of several `Schema`, the first
    counts.

    Args:
        annotated: The annotated type, such as `Annotated[int, Schema(minimum=0)]`.

    Raises:
        StopIteration: No `Schema` is attached to the type.
    """
    return next(
        dict(annotation.keywords) for annotation in get_args(annotated)[1:] if isinstance(annotation, Schema)
    )


_NAME = (
    "a name (lower-case letters and digits, and '.', '_' and '-' behind the first) of at most 128 characters"
)
Name = Annotated[str, text("^[a-z0-9][a-z0-9._-]{0,127}$", _NAME)]
"""Name of a plugin, a precision, a data source and the like."""
RunId = Annotated[
    str,
    text(
        "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$",
        "a name (at most 128 letters and digits, and '.', '_' and '-' behind the first)",
    ),
]
Version = Annotated[str, text(r"^1\.[0-9]+$", 'a version such as "1.0"')]
ModuleAttribute = Annotated[
    str, text("^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_.]*$", "module:attribute")
]
VariableName = Annotated[
    str, text("^[A-Za-z_][A-Za-z0-9_]*$", "a variable's name (letters, digits and '_', no digit first)")
]
OptionName = Annotated[
    str,
    text(
        "^[A-Za-z_][A-Za-z0-9_.-]*$",
        "an option's name (letters, digits, '_', '.' and '-', a letter or '_' first)",
    ),
]
ParameterName = Annotated[
    str, text(r"^[^\u0000]{1,256}$", "a text without null characters, of 1 to 256 characters")
]
SystemText = Annotated[str, text(r"^[^\u0000]*$", "a text without null characters")]
"""Text that an operating system accepts as an argument or as the value of a variable."""
LabelText = Annotated[
    str, text("^[^\\u0000-\\u001f]{1,200}$", "a text of 1 to 200 characters without control characters")
]
"""Value of a label."""
LONGEST_NOTE = 4_000
"""Maximum length of a note that is written, in characters; a longer one is cut."""
NoteText = Annotated[str, Schema(maxLength=4 * LONGEST_NOTE)]
"""A remark in a result; redaction may lengthen it, because stand-ins can be longer than names."""
PathText = Annotated[str, text(r"^[^\u0000]+$", "a text without null characters, not empty")]
Timestamp = Annotated[
    str,
    text(
        r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|\+00:00)$",
        "a time in UTC such as 2026-01-31T12:00:00Z",
    ),
]
Sha256 = Annotated[str, text("^[0-9a-f]{64}$", "64 hexadecimal digits")]

Count = Annotated[int, Schema(minimum=0, maximum=_LARGEST_INT64)]
PositiveCount = Annotated[int, Schema(minimum=1, maximum=_LARGEST_INT64)]
Index = Annotated[int, Schema(minimum=0, maximum=10**12)]
"""Number of an attempt, a rank or a replica."""
NodeIndex = Annotated[int, Schema(minimum=0, maximum=999_998)]
NodeCount = Annotated[int, Schema(minimum=1, maximum=999_999)]
SampleCount = Annotated[int, Schema(minimum=1, maximum=2**31 - 1)]
Seed = Annotated[int, Schema(minimum=0, maximum=2**32 - 1)]
Seconds = Annotated[float, Schema(minimum=0, maximum=1_000_000_000)]
Deadline = Annotated[float, Schema(exclusiveMinimum=0, maximum=1_000_000_000)]
Finite = Annotated[float, Schema(minimum=-LARGEST_FLOAT, maximum=LARGEST_FLOAT)]
Deviation = Annotated[float, Schema(minimum=0, maximum=LARGEST_FLOAT)]
Real = Annotated[
    float,
    Schema(
        name="real",
        description="A number; JSON has none for the three that are not finite, so they are text.",
        anyOf=[
            {"type": "number", "minimum": -LARGEST_FLOAT, "maximum": LARGEST_FLOAT},
            {"enum": ["nan", "inf", "-inf"]},
        ],
    ),
]

StepLosses = Annotated[tuple[Real, ...], Schema(maxItems=10_000_000)]
StepSeconds = Annotated[tuple[Seconds, ...], Schema(maxItems=10_000_000)]
Fingerprint = Annotated[tuple[Real, ...], Schema(minItems=9, maxItems=9)]
"""The 2-norm, then eight products (`dlperf_sdk.worker.canonical.fingerprint`)."""
Fingerprints = Annotated[
    Mapping[ParameterName, Fingerprint],
    Schema(
        name="fingerprints",
        description="Name → 2-norm, then the products with the eight canonical vectors of signs.",
    ),
]
