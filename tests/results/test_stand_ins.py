"""The stand-ins of names: what they replace is what a regular expression of all names would."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from dlperf_sdk.results.stand_ins import StandIns

LETTERS = "aA1-_.: "


def replaced(names, text):
    stand_ins = StandIns()
    for number, name in enumerate(names):
        stand_ins.add(name, f"<{number}>")
    return stand_ins.make_replacer(lambda text, start, end: False)(text)


def expected(names, text):
    numbers = {}
    for number, name in enumerate(names):
        numbers.setdefault(name.lower(), number)
    longest = "|".join(map(re.escape, sorted(numbers, key=len, reverse=True)))
    pattern = re.compile(rf"(?<![^\W_])(?:{longest})(?![^\W_])", re.IGNORECASE)
    return pattern.sub(lambda match: f"<{numbers[match[0].lower()]}>", text)


@given(
    names=st.lists(st.text(LETTERS, min_size=1, max_size=6), min_size=1, max_size=6),
    text=st.text(LETTERS, max_size=40),
)
def test_names_are_replaced_as_one_pattern_would(names, text):
    assert replaced(names, text) == expected(names, text)


def test_many_names_with_many_first_words():
    names = [f"n{i}x.example.org" for i in range(500)]
    assert (
        replaced(names, "n7x.example.org N499X.example.org xn7x.example.org") == "<7> <499> xn7x.example.org"
    )


def test_a_letter_that_has_the_capital_of_another_is_the_same():
    assert replaced(["zzuser", "İqq", "weis"], "zzuſer iqq weiß") == "<0> <1> weiß"
