"""Stand-ins for names in text, in whatever case the names are written."""

from __future__ import annotations

import re
from bisect import insort
from collections import defaultdict
from collections.abc import Callable

_WORD = re.compile(r"[^\W_]+")
_WORD_OR_SIGN = re.compile(r"[^\W_]+|[\W_]")
_FEW = 50
"""First words that are searched as one pattern, which is faster than looking up every word of a text."""


class StandIns:
    """Names and the stand-ins that replace them. Spellings that differ only in case are the same name."""

    def __init__(self) -> None:
        self._stand_ins: dict[str, str] = {}
        """Each name in lower case → its stand-in."""
        self._lengths: defaultdict[str, list[int]] = defaultdict(list)
        """The first word of a name, empty before a sign → the lengths of such names in characters, ascending."""
        self._distinct: set[str] = set()

    def add(self, name: str, stand_in: str) -> None:
        """Record the stand-in of a name; a name that already has one keeps it.

        Names that differ only in case are the same name. An empty name is ignored.
        """
        folded = _fold(name)
        if not folded or folded in self._stand_ins:
            return
        self._stand_ins[folded] = stand_in
        self._distinct.add(stand_in)
        lengths = self._lengths[_first_word(folded)]
        if len(folded) not in lengths:
            insort(lengths, len(folded))

    def get(self, name: str) -> str | None:
        """Return the stand-in of a name, in upper or lower case; None if it has none."""
        return self._stand_ins.get(_fold(name))

    def count(self) -> int:
        """Return the number of different stand-ins."""
        return len(self._distinct)

    def make_replacer(self, is_kept: Callable[[str, int, int], bool]) -> Callable[[str], str]:
        """Return a function that takes a text, and returns it with the stand-in in place of each recorded name.

        A name is replaced only where no letter or digit is next to it, and whatever its case. Of several names that
        begin at one place, the longest counts: `gpu1.example.org` before `gpu1`.

        Args:
            is_kept: Called with a text and the start and end of a name in it; if it returns True, the name is not
                replaced there.
        """
        beginnings = self._beginnings()

        def replace(text: str) -> str:
            folded = _fold(text)
            parts, done = [], 0
            for beginning in beginnings.finditer(folded):
                start = beginning.start()
                end = start + self._match(folded, start, beginning[0]) if start >= done else start
                if end > start:
                    parts += [
                        text[done:start],
                        text[start:end] if is_kept(text, start, end) else self._stand_ins[folded[start:end]],
                    ]
                    done = end
            return "".join((*parts, text[done:]))

        return replace

    def _beginnings(self) -> re.Pattern[str]:
        """Return the pattern of the words and signs with which a name may begin."""
        if "" in self._lengths:
            return _WORD_OR_SIGN
        if len(self._lengths) > _FEW:
            return _WORD
        return re.compile(rf"(?<![^\W_])(?:{'|'.join(map(re.escape, self._lengths)) or '(?!)'})(?![^\W_])")

    def _match(self, folded: str, start: int, word: str) -> int:
        """Return the length of the longest name that begins there with this word or sign; 0 if there is none."""
        lengths = self._lengths.get(word if word[0].isalnum() else "", ())
        if not word[0].isalnum() and start and folded[start - 1].isalnum():
            return 0
        for length in reversed(lengths):
            end = start + length
            if folded[start:end] in self._stand_ins and not folded[end : end + 1].isalnum():
                return length
        return 0


def _first_word(folded: str) -> str:
    word = _WORD.match(folded)
    return word[0] if word else ""


def _fold(text: str) -> str:
    """Return a text in lower case, of the same length: letters of one capital, such as `s` and `ſ`, become the same."""
    return text.lower() if text.isascii() else "".join(map(_fold_letter, text))


def _fold_letter(letter: str) -> str:
    folded = letter.upper().lower()
    return folded if len(folded) == 1 else letter.lower()[:1]
