"""The error for requests that a plugin or a node does not support, and the table lookup that raises it."""

from typing import Mapping, TypeVar

Entry = TypeVar("Entry")


class Unsupported(Exception):
    """A request that this plugin or this node does not support. The message is a sentence for the user.

    It becomes the record's failure of kind `unsupported`.
    """


def look_up(kind: str, name: str, table: Mapping[str, Entry]) -> Entry:
    """Return the entry of a plugin's table for a name in the request.

    Args:
        kind: Kind of the name in the message: `strategy`, `precision`, ….
        name: The name to look up.
        table: Name → entry, for everything that the plugin supports.

    Raises:
        Unsupported: The table has no such name. The message lists its names and suggests the most similar.
    """
    if name not in table:
        import difflib  # late: many workers start at once, and few need it

        close = difflib.get_close_matches(str(name), table, n=1, cutoff=0.5)
        hint = " (did you mean %r?)" % close[0] if close else ""
        raise Unsupported(
            "the plugin has no %s %r%s; choose one of %s" % (kind, name, hint, ", ".join(sorted(table)))
        )
    return table[name]
