"""The subset of YAML that has the values of JSON, and that takes no more time and memory than JSON."""

from __future__ import annotations

import re
from typing import Any

import yaml
from yaml.composer import ComposerError
from yaml.constructor import ConstructorError

from dlperf_sdk.documents.json_values import DEEPEST

_MOST_NODES = 20_000
"""Maximum number of keys and values of a document; more take seconds to read."""


class PlainLoader(yaml.SafeLoader):
    """A YAML loader that refuses tags, anchors, aliases, keys that are no text or occur twice, and deep nesting.

    Plain scalars are those of JSON: `true`, `false`, `null`, decimal numbers. Everything else is text: `no` is
    not false, `010` is not 8, `1:30` is not 90, and a date stays as it was written.

    Args:
        stream: The text of the document.
    """

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own protocol

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = self._nodes = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Check the next value of the document, and return its node. PyYAML calls this before any value is constructed.

        Args:
            parent: The node that contains the value; passed on to PyYAML's own method.
            index: The place of the value in `parent`; passed on to PyYAML's own method.

        Raises:
            ComposerError: The value has an anchor or a tag, or is an alias; or the document has too many nodes or too
                many levels.
        """
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise ComposerError(
                None, None, "anchors and aliases are refused: write the value out", event.start_mark
            )
        if getattr(event, "tag", None) is not None:
            raise ComposerError(None, None, "tags are refused: a document is data", event.start_mark)
        self._nodes += 1
        if self._nodes > _MOST_NODES:
            reason = f"it has more than {_MOST_NODES} keys and values: write it as JSON"
            raise ComposerError(None, None, reason, event.start_mark)
        self._depth += 1
        if self._depth > DEEPEST:
            raise ComposerError(None, None, f"it is nested more than {DEEPEST} deep", event.start_mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """Return a mapping whose keys are distinct texts. PyYAML's own method takes the last of equal keys.

        Args:
            node: The mapping's node.
            deep: True if values inside the values are constructed at once, too, rather than later.

        Raises:
            ConstructorError: A key is not a text, or occurs twice.
        """
        value: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag != "tag:yaml.org,2002:str":
                raise ConstructorError(
                    None, None, "a key must be text: put it in quotes", key_node.start_mark
                )
            if key_node.value in value:
                raise ConstructorError(
                    None, None, f"the key {key_node.value!r} is there twice", key_node.start_mark
                )
            value[key_node.value] = self.construct_object(value_node, deep=deep)
        return value

    def construct_yaml_int(self, node: Any) -> int:
        """Return the decimal number of a scalar's node. PyYAML's own method reads octal and base 60 as well.

        Raises:
            ConstructorError: The number has thousands of digits.
        """
        try:
            return int(node.value)
        except ValueError as error:  # Python refuses numbers with thousands of digits
            raise ConstructorError(None, None, "the number is too long", node.start_mark) from error


PlainLoader.add_constructor("tag:yaml.org,2002:int", PlainLoader.construct_yaml_int)
for _tag, _pattern, _first in (
    ("null", r"~|null|", "~n"),
    ("bool", r"true|false", "tf"),
    ("int", r"[-+]?(0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
):
    PlainLoader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}",
        re.compile(rf"(?:{_pattern})\Z"),
        list(_first) + ([""] if _tag == "null" else []),
    )
