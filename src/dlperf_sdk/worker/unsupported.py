"""Define the error for what a plugin or a node cannot do, and the lookup of the names in a request, which raises it."""

from typing import Mapping, TypeVar

Entry = TypeVar("Entry")


class Unsupported(Exception):
    """Raised if this plugin or this node cannot do what the request asks for. The message is a sentence for the user.

    It becomes the record's failure of kind `unsupported`.
    """


def look_up(kind: str, name: str, table: Mapping[str, Entry]) -> Entry:
    """Return the entry of a name of the request in a plugin's table.

    Args:
        kind: Kind of the name in the message: `strategy`, `precision`, ….
        name: The name.
        table: What the plugin supports, by name.

    Raises:
        Unsupported: The table has no such name. The message has the names that it has, and the nearest.
    """
    if name not in table:
        import difflib  # late: many workers start at once, and few need it

        close = difflib.get_close_matches(str(name), table, n=1, cutoff=0.5)
        hint = " (did you mean %r?)" % close[0] if close else ""
        raise Unsupported(
            "the plugin has no %s %r%s; choose one of %s" % (kind, name, hint, ", ".join(sorted(table)))
        )
    return table[name]
