"""Stand-ins for names in text, in whatever case the names are written."""

from __future__ import annotations

import re
from collections.abc import Callable


class StandIns:
    """Names and the stand-ins that replace them. Spellings that differ only in case are the same name."""

    def __init__(self) -> None:
        self._stand_ins: dict[str, str] = {}
        """Each name in lower case → its stand-in."""
        self._spellings: set[str] = set()
        self._distinct: set[str] = set()

    def add(self, name: str, stand_in: str) -> None:
        """Record the stand-in of a name; a name that already has one keeps it.

        Names that differ only in case are the same name. An empty name is ignored.
        """
        if name:
            self._spellings.add(name)
            self._distinct.add(self._stand_ins.setdefault(name.lower(), stand_in))

    def get(self, name: str) -> str | None:
        """Return the stand-in of a name, in upper or lower case; None if it has none."""
        return self._stand_ins.get(name.lower())

    def count(self) -> int:
        """Return the number of different stand-ins."""
        return len(self._distinct)

    def make_replacer(self, is_kept: Callable[[re.Match[str]], bool]) -> Callable[[str], str]:
        """Return a function that takes a text, and returns it with the stand-in in place of each recorded name.

        A name is replaced only where no letter or digit is next to it, and whatever its case.

        Args:
            is_kept: Called with the match of a name in the text; if it returns True, the name is not replaced there.
        """
        if not self._spellings:
            return str
        # The longest first: `gpu1.example.org` goes before `gpu1`.
        longest = sorted(self._spellings, key=lambda name: (-len(name), name))
        names = "|".join(map(re.escape, longest))
        pattern = re.compile(rf"(?<![^\W_])(?:{names})(?![^\W_])", re.IGNORECASE)

        def replace(match: re.Match[str]) -> str:
            return match[0] if is_kept(match) else self.get(match[0]) or self._find(match[0])

        return lambda text: pattern.sub(replace, text)

    def _find(self, text: str) -> str:
        """Return the stand-in of a text whose lower case differs from that of its name, such as `ſ` from `s`."""
        return next(
            self._stand_ins[name.lower()]
            for name in sorted(self._spellings)
            if re.fullmatch(re.escape(name), text, re.IGNORECASE)
        )
