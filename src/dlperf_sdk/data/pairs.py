"""Convert tokenized text to BERT's pre-training samples: pairs of spans, with some tokens masked.

J. Devlin, M.-W. Chang, K. Lee, K. Toutanova: BERT, NAACL 2019, section 3.1 and appendices A.1 and A.2: two spans of
text, of which the second follows the first half of the time and is from another document otherwise; `[CLS] A [SEP] B
[SEP]`; 15 % of the tokens are predicted, of which 80 % are masked, 10 % are another word, and 10 % stay. As in
google-research/bert, masking is done once, here, so every epoch and every framework trains on the same sequences.

Only `Random.random()` is drawn from: it alone is promised to give the same numbers in every version of Python.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple, Protocol

FRACTION = 0.15
"""Share of the tokens that are predicted."""
MASKED, REPLACED = 0.8, 0.1
"""Shares of the predicted tokens that are masked and replaced; the others stay."""

Sentence = Sequence[int]
"""Token numbers of a sentence."""
Document = Sequence[Sentence]
"""Sentences of a document, each of at least one token."""


class Source(Protocol):
    """A source of random numbers, such as `random.Random`."""

    def random(self) -> float:
        """Return a random number in [0, 1)."""
        ...


class Pair(NamedTuple):
    """Two spans of token numbers, not empty; together they leave room for the three special tokens."""

    first: list[int]
    second: list[int]
    label: int
    """Label of the next-sentence task: 0 if the second span follows the first, 1 if it is from another document."""


class Masked(NamedTuple):
    """A sequence with some tokens masked."""

    tokens: list[int]
    """The sequence, with the masked and replaced tokens in it."""
    positions: list[int]
    """Indexes of the tokens to predict, ascending."""
    originals: list[int]
    """The tokens that were at these positions before."""


def _draw_index(source: Source, limit: int) -> int:
    return int(source.random() * limit)


def _join_sentences(document: Document, begin: int, end: int) -> list[int]:
    """Return the tokens of some of a document's sentences, in order."""
    return [token for i in range(begin, end) for token in document[i]]


def _shorten(first: list[int], second: list[int], room: int, source: Source) -> None:
    """Take tokens off the longer span (of equals, the second), at either end by chance, until both fit."""
    while len(first) + len(second) > room:
        longer = first if len(first) > len(second) else second
        del longer[0 if source.random() < 0.5 else -1]


def _draw_other_span(documents: Sequence[Document], excluded: int, minimum: int, source: Source) -> list[int]:
    """Return a span of another document than `excluded`: from one of its sentences on, up to `minimum` tokens."""
    index = _draw_index(source, len(documents) - 1)
    document = documents[index + (index >= excluded)]
    begin = _draw_index(source, len(document))
    return _join_sentences(document, begin, _find_end(document, begin, minimum))


def _find_end(document: Document, begin: int, minimum: int) -> int:
    """Return the end of the smallest number of sentences from `begin` on, at least one, with `minimum` tokens."""
    end, total = begin + 1, len(document[begin])
    while end < len(document) and total < minimum:
        total += len(document[end])
        end += 1
    return end


def pairs(documents: Sequence[Document], length: int, source: Source) -> Iterator[Pair]:
    """Yield pairs of spans that fill a sequence of `length` tokens as far as their documents allow.

    Successive sentences of a document are collected until they fill a sequence. They are cut in two at a random
    sentence end, and the first part is the first span. In half of the pairs, at random, the second part is the second
    span. In the others, the second span comes from another document, and the second part goes into the next pair. A
    single collected sentence is cut in the middle; if it has one token only, it is left out.

    Args:
        documents: The documents, each a sequence of sentences, which are sequences of token numbers.
        length: Number of tokens of a sequence, including the three special ones, which the pairs do not contain.
        source: The generator of random numbers.

    Raises:
        IndexError: There is only one document, and a span of another one is needed.
    """
    room = length - 3
    for excluded, document in enumerate(documents):
        begin = 0
        while begin < len(document):
            end = _find_end(document, begin, room)
            is_single = end - begin == 1
            if is_single and len(document[begin]) == 1:
                begin = end
                continue
            cut = end if is_single else begin + 1 + _draw_index(source, end - begin - 1)
            first = _join_sentences(document, begin, cut)
            if source.random() < 0.5:
                second = _draw_other_span(documents, excluded, room - len(first), source)
                label, begin = 1, cut
            else:
                second = _join_sentences(document, cut, end)
                if is_single:
                    middle = len(first) // 2
                    first, second = first[:middle], first[middle:]
                label, begin = 0, end
            _shorten(first, second, room, source)
            yield Pair(first, second, label)


def mask(
    tokens: Sequence[int],
    *,
    fixed: Collection[int],
    mask_token: int,
    words: Sequence[int],
    maximum: int,
    source: Source,
) -> Masked:
    """Choose about 15 % of the tokens of a sequence at random, to be predicted, and hide most of them.

    Of the chosen tokens, 80 % are replaced by `mask_token`, 10 % by a random token of `words`, and 10 % stay.

    Args:
        tokens: Token numbers of the sequence, without padding; not changed.
        fixed: Tokens that are never chosen: `[CLS]` and `[SEP]`.
        mask_token: The number of `[MASK]`.
        words: The token numbers that may replace another one.
        maximum: The largest number of tokens to predict. At least one is predicted, if any can be chosen.
        source: The generator of random numbers. It is drawn from once per chosen token; then, for each chosen token
            in order, once for masking, replacing or keeping it, and once more for a replacement.
    """
    candidates = [i for i, token in enumerate(tokens) if token not in fixed]
    count = min(maximum, max(1, round(len(tokens) * FRACTION)), len(candidates))
    for i in range(count):
        j = i + _draw_index(source, len(candidates) - i)
        candidates[i], candidates[j] = candidates[j], candidates[i]
    positions = sorted(candidates[:count])
    hidden = list(tokens)
    for position in positions:
        fate = source.random()
        if fate < MASKED:
            hidden[position] = mask_token
        elif fate < MASKED + REPLACED:
            hidden[position] = words[_draw_index(source, len(words))]
    return Masked(hidden, positions, [tokens[position] for position in positions])
