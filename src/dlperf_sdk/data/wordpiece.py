"""WordPiece with the `tokenizers` library: the vocabulary, and text to numbers.

Text is cleaned, lower-cased, stripped of accents and split as for BERT's uncased models; a vocabulary that
itself holds upper-case words keeps case and accents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlperf_sdk.errors import DocumentError, SpecError, Unavailable, UsageError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PAD, UNKNOWN, CLS, SEP, MASK = SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

_ALPHABET = 1000
"""The most characters that a vocabulary made from the text can spell words with."""
_LEAST_COUNT = 2
"""A piece must occur this often to get into a vocabulary made from the text."""
_LONGEST_WORD = 200
"""A longer word is unknown, as in google-research/bert's `tokenization.py`."""


def _library() -> Any:
    try:
        import tokenizers
        import tokenizers.models
        import tokenizers.normalizers
        import tokenizers.pre_tokenizers
        import tokenizers.trainers
    except ImportError as error:
        raise UsageError(
            "data=text:FOLDER turns words into numbers with the package 'tokenizers', which cannot be "
            f'imported ({error}). Install it beside dlperf-sdk: pip install "dlperf-sdk[text]".'
        ) from error
    return tokenizers


def read_vocabulary(path: Path) -> tuple[str, ...]:
    """Return a vocabulary in BERT's format: one piece per line, whose number is the line's, from 0.

    Raises:
        Unavailable: the file cannot be read.
        DocumentError: it is not UTF-8, has an empty or doubled line, or lacks a special piece.
    """
    try:
        pieces = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise DocumentError(f"The vocabulary {path} is not UTF-8 text, from byte {error.start}.") from error
    except OSError as error:
        raise Unavailable(f"The vocabulary {path} cannot be read: {error.strerror}.") from error
    pieces = [piece.removesuffix("\r") for piece in pieces]
    lines: dict[str, int] = {}
    for number, piece in enumerate(pieces, start=1):
        if not piece or piece in lines:
            problem = f"doubles line {lines[piece]} ({piece!r})" if piece else "is empty"
            raise DocumentError(
                f"Line {number} of the vocabulary {path} {problem}. It must have one piece per line, as BERT's "
                "vocab.txt; remove it to have a vocabulary made from the text."
            )
        lines[piece] = number
    if missing := [piece for piece in SPECIAL if piece not in lines]:
        raise DocumentError(
            f"The vocabulary {path} lacks {', '.join(missing)}. Add what is missing, or remove the file to "
            "have a vocabulary made from the text."
        )
    if len(lines) == len(SPECIAL):
        raise DocumentError(
            f"The vocabulary {path} holds nothing but special pieces. Add words, or remove it."
        )
    return tuple(pieces)


def check_size(pieces: Sequence[str], limit: int, origin: str) -> None:
    """Check that the model has embeddings for all pieces of a vocabulary: at most `limit`.

    Raises:
        SpecError: it has more; the message names the vocabulary by `origin`.
    """
    if len(pieces) > limit:
        raise SpecError(
            f"The vocabulary {origin} has {len(pieces)} pieces, and the model has embeddings for {limit}. "
            f"Set vocabulary_size={len(pieces)} or more."
        )


def tokenizer(pieces: Sequence[str]) -> Tokenizer:
    """Return a WordPiece tokenizer that maps text to the indices of these pieces.

    Special pieces that occur in the text are treated as text: their brackets are split off.

    Raises:
        UsageError: the package is not installed.
    """
    library = _library()
    cased = any(piece != piece.lower() for piece in pieces if piece not in SPECIAL and piece[0] != "[")
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    model = library.models.WordPiece(vocabulary, unk_token=UNKNOWN, max_input_chars_per_word=_LONGEST_WORD)
    encoder: Tokenizer = library.Tokenizer(model)
    encoder.normalizer = library.normalizers.BertNormalizer(lowercase=not cased)
    encoder.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
    return encoder


def train(texts: Callable[[], Iterable[str]], limit: int) -> tuple[str, ...]:
    """Make a vocabulary of at most `limit` pieces from texts, which are gone through twice.

    The same texts give the same pieces: the trainer numbers the characters in the order in which it meets
    them in a hash table, and breaks ties by these numbers, so all characters are numbered beforehand.

    Raises:
        UsageError: the package is not installed.
        SpecError: `limit` does not even hold the characters.
    """
    trained = tokenizer(SPECIAL)
    normalizer, splitter = trained.normalizer, trained.pre_tokenizer
    assert normalizer is not None and splitter is not None
    counts: Counter[str] = Counter()
    for text in texts():
        counts.update(normalizer.normalize_str(text))
    common = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_ALPHABET]
    alphabet = sorted(character for character, _ in common if not character.isspace())
    base = [*SPECIAL, *alphabet, *(f"##{character}" for character in alphabet)]
    if len(base) > limit:
        raise SpecError(
            f"The text is written in {len(alphabet)} characters, which takes {len(base)} pieces, "
            f"and vocabulary_size is {limit}. Raise it."
        )
    trainer = _library().trainers.WordPieceTrainer(
        vocab_size=limit,
        min_frequency=_LEAST_COUNT,
        show_progress=False,
        special_tokens=base,
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
    )
    trained.train_from_iterator(texts(), trainer)
    numbers = trained.get_vocab(with_added_tokens=False)
    return tuple(sorted(numbers, key=numbers.__getitem__))


def encode(encoder: Tokenizer, sentences: Sequence[str]) -> list[list[int]]:
    """Return the numbers of each sentence's pieces, without special ones."""
    return [encoding.ids for encoding in encoder.encode_batch(list(sentences), add_special_tokens=False)]
