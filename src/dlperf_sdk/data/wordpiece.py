"""WordPiece with the `tokenizers` library: vocabularies, and the conversion of text to token numbers.

Text is cleaned, lower-cased, stripped of accents and split as for BERT's uncased models. With a vocabulary that
contains upper-case words, case and accents are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlperf_sdk.documents.json_values import format_value
from dlperf_sdk.documents.reading import read_file
from dlperf_sdk.errors import DocumentError, SpecError, UsageError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PAD, UNKNOWN, CLS, SEP, MASK = SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

_ALPHABET = 1000
"""The most characters that a vocabulary made from the text can spell words with."""
_LEAST_COUNT = 2
"""A piece must occur this often to get into a vocabulary made from the text."""
_LARGEST = 4 * 1024 * 1024
"""Maximum size of the file of a vocabulary in bytes."""
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
    """Return the pieces of a vocabulary file in BERT's format: one piece per line, whose token number is its index.

    Args:
        path: The file.

    Raises:
        DocumentError: The file cannot be read, is larger than 4 MiB or not UTF-8, has an empty or duplicate line, lacks
            a special piece, or has no other pieces.
    """
    try:
        pieces = read_file(path, _LARGEST).decode("utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise DocumentError(f"The vocabulary {path} is not UTF-8 text, from byte {error.start}.") from error
    pieces = [piece.removesuffix("\r") for piece in pieces]
    lines: dict[str, int] = {}
    for number, piece in enumerate(pieces, start=1):
        if not piece or piece in lines:
            problem = f"doubles line {lines[piece]} ({format_value(piece)})" if piece else "is empty"
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
            f"The vocabulary {path} contains only special pieces. Add words, or remove the file."
        )
    return tuple(pieces)


def check_size(pieces: Sequence[str], limit: int, origin: str) -> None:
    """Check that the model has an embedding for each piece of a vocabulary.

    Args:
        pieces: The pieces of the vocabulary.
        limit: The model's number of embeddings.
        origin: The vocabulary's name in messages.

    Raises:
        SpecError: There are more than `limit` pieces.
    """
    if len(pieces) > limit:
        raise SpecError(
            f"The vocabulary {origin} has {len(pieces)} pieces, and the model has embeddings for {limit}. "
            f"Set vocabulary_size={len(pieces)} or more."
        )


def tokenizer(pieces: Sequence[str]) -> Tokenizer:
    """Return a WordPiece tokenizer that splits text into pieces and converts these to their indexes in `pieces`.

    A special piece within the text is treated as text: its brackets are split off.

    Args:
        pieces: The vocabulary, which contains `[UNK]`.

    Raises:
        UsageError: The package tokenizers is not installed.
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
    """Make a vocabulary of at most `limit` word pieces from texts.

    The same texts always give the same pieces. For this, all characters are numbered before the training: the library's
    trainer breaks ties by these numbers, and would assign them in the random order of a hash table.

    Args:
        texts: Function of no arguments that returns an iterable over the texts; called twice.
        limit: Largest number of pieces, special ones included.

    Returns:
        The pieces; their order gives the token numbers, special pieces first.

    Raises:
        UsageError: The package tokenizers is not installed.
        SpecError: `limit` is too small for the characters of the text.
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
    """Return the token numbers of each sentence's pieces, one list per sentence, without special pieces.

    Args:
        encoder: The tokenizer, as `tokenizer` returns it.
        sentences: The sentences.
    """
    return [encoding.ids for encoding in encoder.encode_batch(list(sentences), add_special_tokens=False)]
