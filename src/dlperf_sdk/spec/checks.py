"""Checks on a run spec's own fields, besides those of `fields`, and the bounds of its numbers."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any

from dlperf_sdk.documents.json_values import format_value
from dlperf_sdk.errors import SpecError, UnknownName
from dlperf_sdk.spec.fields import NAME, is_positive, state_bounds, whole_number
from dlperf_sdk.spec.table import alternatives
from dlperf_sdk.spec.values import MAX_BATCH, PHASES

# Bounds far above any real case: they keep a mistyped or hostile number from overflowing or filling a disk.
# The schemas have the same bounds.
MOST_SAMPLES = 2**31 - 1
MOST_SEED = 2**32 - 1  # what NumPy's RandomState takes
MOST_SECONDS = 1e9
MOST_BYTES = 2**60

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""The name of an environment variable."""
_OPTION = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_LABEL = re.compile(r"[^\u0000-\u001f]{1,200}")
CONTAINER_RUNNERS = ("podman", "docker", "apptainer", "enroot")
"""Programs that run containers; `dlperf_sdk.environments.container` has the command of each."""
_IMAGE = re.compile(r"[A-Za-z0-9./][^\0\s]{0,500}")
_DEVICE_FILES = re.compile(r"/dev/[A-Za-z0-9._/-]{1,200}(,/dev/[A-Za-z0-9._/-]{1,200}){0,99}")

THREADS = "OMP_NUM_THREADS"
"""Variable whose value frameworks use unchecked: some crash on 0 or a word, others continue silently."""
_COUNT = re.compile("[1-9][0-9]{0,5}")


def copy_mapping(value: Any) -> Any:
    """Return a copy of a mapping as a dictionary, so that the caller cannot change the spec later.

    The values are not copied. A value that is not a mapping is returned unchanged; a validator refuses it.
    """
    return dict(value) if isinstance(value, Mapping) else value


def _items(attribute: Any, value: Any, names: re.Pattern[str], subject: str) -> list[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        raise SpecError(
            f"{attribute.name} is {format_value(value)}; it must be a mapping from names to values."
        )
    for name in value:
        if not isinstance(name, str) or not names.fullmatch(name):
            raise SpecError(f"{format_value(name)} is not a valid name for {subject}.")
    return list(value.items())


@state_bounds(
    type="object",
    properties={
        phase: {
            "description": f"Deadline of the phase {phase}.",
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": int(MOST_SECONDS),
        }
        for phase in PHASES
    },
    additionalProperties=False,
)
def deadlines(_: Any, attribute: Any, value: Any) -> None:
    """Validate a mapping from phases (`start`, `compile`, `warmup`, `step`, `teardown`) to seconds.

    `attribute` is the attrs field, named in the message about a value that is not a mapping; `value` is the value to
    check.

    Raises:
        UnknownName: There is no such phase.
        SpecError: The value is not a mapping, a key is not a name, or a deadline is not above 0 and at most
            `MOST_SECONDS` (10⁹).
    """
    for phase, seconds in _items(attribute, value, NAME, "a phase"):
        if phase not in PHASES:
            raise UnknownName("deadline", phase, PHASES)
        if not is_positive(seconds, MOST_SECONDS):
            raise SpecError(
                f"The deadline of phase {phase!r} is {format_value(seconds)}; it must be seconds, above 0 and at "
                f"most {MOST_SECONDS:.0e}."
            )


@state_bounds(
    pattern=rf"^({'|'.join(CONTAINER_RUNNERS)}):[A-Za-z0-9./][^\u0000\s]*$",
    expected=alternatives(f"{runner}:IMAGE" for runner in CONTAINER_RUNNERS),
)
def container(_: Any, attribute: Any, value: Any) -> None:
    """Validate a container: `RUNNER:IMAGE`, or `RUNNER:/FOLDER` for a root file system.

    `value` is the value to check. `attribute`, the attrs field, is not used.

    Raises:
        SpecError: The value has another form.
        UnknownName: The runner is none of `podman`, `docker`, `apptainer` and `enroot`.
    """
    runner, _, image = value.partition(":") if isinstance(value, str) else ("", "", "")
    if not _IMAGE.fullmatch(image):
        raise SpecError(
            f"container is {format_value(value)}; write RUNNER:IMAGE, or RUNNER:/FOLDER for a root file system, with "
            f"the runner {alternatives(CONTAINER_RUNNERS)}."
        )
    if runner not in CONTAINER_RUNNERS:
        raise UnknownName("container runner", runner, CONTAINER_RUNNERS)


@state_bounds(pattern=f"^{_DEVICE_FILES.pattern}$", expected="paths below /dev, with commas between them")
def device_files(_: Any, attribute: Any, value: Any) -> None:
    """Validate a text of 1 to 100 comma-separated paths below /dev.

    `value` is the value to check. `attribute`, the attrs field, is not used.

    Raises:
        SpecError: The value is not text, or a path is invalid.
    """
    if not isinstance(value, str) or not _DEVICE_FILES.fullmatch(value):
        raise SpecError(
            f"container_devices is {format_value(value)}; write paths below /dev, with commas: "
            "/dev/infiniband,/dev/kfd."
        )


def variables(_: Any, attribute: Any, value: Any) -> None:
    """Validate a mapping from environment variables to texts, or to None for the value in the user's shell.

    `attribute` is the attrs field, named in the message about a value that is not a mapping; `value` is the value to
    check.

    Raises:
        SpecError: The value is not a mapping, a name is invalid, a value is not text or has a null character, or
            `OMP_NUM_THREADS` is not a whole number from 1.
    """
    for name, content in _items(attribute, value, VARIABLE, "an environment variable"):
        if content is not None and (not isinstance(content, str) or "\0" in content):
            raise SpecError(
                f"The environment variable {name} must be text without null characters, got {type(content).__name__}."
            )
        if name == THREADS and content is not None and not _COUNT.fullmatch(content):
            raise SpecError(
                f"{THREADS} is {format_value(content)}, which is not a number of threads; give a whole number "
                "from 1, or leave it out: every worker has one thread for each of its cores then."
            )


def options(_: Any, attribute: Any, value: Any) -> None:
    """Validate a mapping from option names to texts, finite numbers, booleans or None.

    `attribute` is the attrs field, named in the message about a value that is not a mapping; `value` is the value to
    check. Whether the options exist is checked when the case is planned.

    Raises:
        SpecError: The value is not a mapping, a name has other characters than letters, digits, `_`, `.` and `-`
            or does not begin with a letter or `_`, or an option has a value of another type.
    """
    for name, content in _items(attribute, value, _OPTION, "an option"):
        if content is None or isinstance(content, str):
            continue
        # NaN and infinities are refused, too, because JSON has neither.
        if not isinstance(content, int | float) or not -sys.float_info.max <= content <= sys.float_info.max:
            raise SpecError(
                f"The option {name!r} is {format_value(content)}; it must be a finite number, a text, true or false."
            )


def labels(_: Any, attribute: Any, value: Any) -> None:
    """Validate a mapping from label names to texts of 1 to 200 characters without control characters.

    `attribute` is the attrs field, named in the message about a value that is not a mapping; `value` is the value to
    check.

    Raises:
        SpecError: The value is not a mapping, a name has other characters than letters, digits, `_`, `.` and `-`
            or does not begin with a letter or `_`, or a label's value is not such a text.
    """
    for name, content in _items(attribute, value, _OPTION, "a label"):
        if not isinstance(content, str) or not _LABEL.fullmatch(content):
            raise SpecError(
                f"The label {name!r} is {format_value(content)}; it must be a text of 1 to 200 characters without "
                "control characters."
            )


@state_bounds(
    type=["integer", "string"],
    minimum=1,
    maximum=MOST_SAMPLES,
    pattern=f"^{MAX_BATCH}$",
    expected=MAX_BATCH,
)
def batch_size(instance: Any, attribute: Any, value: Any) -> None:
    """Validate a batch size: a whole number from 1 to `MOST_SAMPLES` (2³¹ - 1), or the text `max`.

    `attribute` is the attrs field, which messages name; `value` is the value to check. `instance`, the object that has
    the field, is not used.

    Raises:
        SpecError: The value is neither such a number nor `max`.
    """
    if value == MAX_BATCH:
        return
    try:
        whole_number(1, MOST_SAMPLES)(instance, attribute, value)
    except SpecError as error:
        raise SpecError(f"{str(error).removesuffix('.')}, or {MAX_BATCH}.") from None
