"""Prepare `text:FOLDER`: text files, tokenized and masked once into a cache of arrays.

All `*.txt` files of the folder are read as UTF-8, in the order of their names. A blank line or the end of a file
ends a document. A line break, or a full stop, question or exclamation mark before white space, ends a sentence. A
file `vocab.txt` in BERT's format is the vocabulary; without it, one is made from the text. All text must fit into
memory.

A cache entry is a directory: `index.json`, its SHA-256 in `index.sha256`, one file for each input of the model
(`dlperf_sdk.data.arrays`), and the vocabulary. The index has `format`, `version`, what the entry was made from, and
`arrays`: `name`, `file`, `dtype`, `shape` and `sha256` of each.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dlperf_sdk import private_files
from dlperf_sdk.data import cache, folder, wordpiece
from dlperf_sdk.data.arrays import Writer
from dlperf_sdk.data.pairs import Document, mask, pairs
from dlperf_sdk.errors import DocumentError, Unavailable
from dlperf_sdk.worker.data import INDEX_VERSION, TEXT, DataError, checksum, read_arrays

_RECIPE = 1
"""Raised whenever the same text would give other sequences than before."""
_VOCABULARY = "vocab.txt"
_COUNTS = ("samples", "documents", "tokens", "vocabulary_size")
"""Fields of an index that become facts of the data."""
_BLANK_LINES = re.compile(r"\n\s*\n")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_BATCH = 4096
"""Sentences that are tokenized, or sequences that are written, between two reports of progress."""


def split(text: str) -> Iterator[list[str]]:
    """Yield the documents of a text, each as the list of its sentences, without white space around them.

    Blank lines separate documents. A sentence ends at the end of a line, and at white space after `.`, `!` or `?`.
    Empty documents and sentences are left out.
    """
    for document in _BLANK_LINES.split(text.replace("\r\n", "\n").replace("\r", "\n")):
        sentences = [stripped for part in _SENTENCE_END.split(document) if (stripped := part.strip())]
        if sentences:
            yield sentences


def _read(root: Path, name: str, expected: str) -> str:
    path = root / name
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != expected:
        raise DocumentError(f"{path} changed while it was read. Run again when it is complete.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DocumentError(
            f"{path} is not UTF-8 text, from byte {error.start}. Convert it, or remove it from the folder."
        ) from error


def _checksums(root: Path, on_progress: cache.Progress) -> dict[str, str]:
    """Return the text files and their checksums, by name."""
    names = [file.name for file in folder.files(root, root, (".txt",)) if file.name != _VOCABULARY]
    if not names:
        raise Unavailable(f"There is no text in {root}. It must be in UTF-8 files whose names end in .txt.")
    checksums = {}
    for done, name in enumerate(names):
        on_progress("reading text", done, len(names))
        try:
            checksums[name] = checksum(os.fspath(root / name))
        except OSError as error:
            raise Unavailable(
                f"{root / name} cannot be read: {error.strerror}. Check its permissions."
            ) from error
    return checksums


def _read_own_vocabulary(root: Path, limit: int) -> tuple[str, ...] | None:
    """Return the folder's vocabulary, or None if it has none."""
    if not any(file.name == _VOCABULARY for file in folder.files(root, root, (_VOCABULARY,))):
        return None
    pieces = wordpiece.read_vocabulary(root / _VOCABULARY)
    wordpiece.check_size(pieces, limit, os.fspath(root / _VOCABULARY))
    return pieces


def tokenize(
    texts: Sequence[Sequence[str]], pieces: Sequence[str], longest: int, on_progress: cache.Progress
) -> list[Document]:
    """Convert documents to token numbers.

    A sentence of more than `longest` tokens is split into sentences of at most that length. Empty sentences, and
    documents that have no other sentence, are left out.

    Args:
        texts: The documents, each a sequence of sentences.
        pieces: The vocabulary: a piece's token number is its index.
        longest: Largest number of tokens of a sentence.
        on_progress: Called with the stage as text, the number of sentences done, and the number of all sentences.

    Returns:
        A list of documents, each a list of sentences, each an array of token numbers without special pieces.

    Raises:
        UsageError: The package tokenizers is not installed.
    """
    tokenizer = wordpiece.tokenizer(pieces)
    flat = [(number, sentence) for number, sentences in enumerate(texts) for sentence in sentences]
    documents: list[list[array[int]]] = [[] for _ in texts]
    for begin in range(0, len(flat), _BATCH):
        on_progress("tokenizing text", begin, len(flat))
        part = flat[begin : begin + _BATCH]
        encoded = wordpiece.encode(tokenizer, [sentence for _, sentence in part])
        for (number, _), tokens in zip(part, encoded, strict=True):
            for start in range(0, len(tokens), longest):
                documents[number].append(array("i", tokens[start : start + longest]))
    return [document for document in documents if document]


def sequences(
    documents: Sequence[Document], pieces: Sequence[str], length: int, predictions: int, seed: int
) -> Iterator[dict[str, Sequence[float]]]:
    """Yield samples of BERT's inputs, in one pass over the documents.

    A sample is a dict: input name → flat sequence of numbers, padded to its full length.
    The names are `input_ids`, `segment_ids`, `attention_mask`, `masked_positions`, `masked_ids`, `masked_weights` and
    `next_sentence_label`. `input_ids` is padded with the number of `[PAD]`, all others with 0. A
    random piece that replaces a masked token is never a special one.

    Args:
        documents: At least two documents, each a list of sentences, each an array of token numbers.
        pieces: The vocabulary, special pieces included: a piece's token number is its index.
        length: Tokens of a sequence.
        predictions: Largest number of predicted tokens of a sequence.
        seed: Seed of the sentence pairs and the masking.
    """
    numbers = {piece: number for number, piece in enumerate(pieces)}
    cls, sep, hidden = (numbers[piece] for piece in (wordpiece.CLS, wordpiece.SEP, wordpiece.MASK))
    words = [number for piece, number in numbers.items() if piece not in wordpiece.SPECIAL]
    source = random.Random(f"text/{seed}")  # noqa: S311 (no secret)
    for first, second, label in pairs(documents, length, source):
        tokens = [cls, *first, sep, *second, sep]
        segments = [0] * (len(first) + 2) + [1] * (len(second) + 1)
        masked = mask(
            tokens, fixed=(cls, sep), mask_token=hidden, words=words, maximum=predictions, source=source
        )
        padding, unused = [0] * (length - len(tokens)), [0] * (predictions - len(masked.positions))
        yield {
            "input_ids": [*masked.tokens, *([numbers[wordpiece.PAD]] * len(padding))],
            "segment_ids": [*segments, *padding],
            "attention_mask": [1] * len(tokens) + padding,
            "masked_positions": [*masked.positions, *unused],
            "masked_ids": [*masked.originals, *unused],
            "masked_weights": [1.0] * len(masked.positions) + [0.0] * len(unused),
            "next_sentence_label": [label],
        }


def _make(
    directory: Path,
    *,
    root: Path,
    made_from: Mapping[str, Any],
    pieces: tuple[str, ...] | None,
    limit: int,
    inputs: Sequence[Mapping[str, Any]],
    on_progress: cache.Progress,
) -> None:
    """Fill an empty directory with a cache entry."""
    contents = [_read(root, name, digest) for name, digest in made_from["files"]]
    texts = [sentences for content in contents for sentences in split(content)]
    if pieces is None:
        on_progress("making a vocabulary", 0, 1)
        pieces = wordpiece.train(lambda: (sentence for sentences in texts for sentence in sentences), limit)
    length, predictions = made_from["sequence_length"], made_from["predictions_per_sequence"]
    documents = tokenize(texts, pieces, length - 3, on_progress)
    if len(documents) < 2:
        raise DocumentError(
            f"The text in {root} is one document, and half of the sentence pairs need two. Part documents "
            "with blank lines, or add files."
        )
    tokens = sum(len(sentence) for document in documents for sentence in document)
    with Writer(directory, inputs) as writer:
        used = 0
        for count, sample in enumerate(sequences(documents, pieces, length, predictions, made_from["seed"])):
            writer.add(sample)
            used += sum(map(int, sample["attention_mask"])) - 3
            if count % _BATCH == 0:
                on_progress("masking sequences", min(used, tokens), tokens)
        arrays = writer.entries()
    header = {
        **made_from,
        "samples": arrays[0]["shape"][0],
        "documents": len(documents),
        "tokens": tokens,
        "vocabulary_size": len(pieces),
        "arrays": arrays,
    }
    index = json.dumps(header, indent=1).encode("ascii")
    private_files.write(directory / _VOCABULARY, "".join(f"{piece}\n" for piece in pieces).encode("utf-8"))
    private_files.write(directory / "index.json", index)
    private_files.write(directory / "index.sha256", hashlib.sha256(index).hexdigest().encode("ascii"))


def _read_valid_index(entry: Path) -> dict[str, Any] | None:
    """Return the index of a cache entry with its own checksum; None if it is missing or corrupt."""
    try:
        digest = (entry / "index.sha256").read_text(encoding="ascii")
        read_arrays({"index": os.fspath(entry / "index.json"), "checksum": digest})
        index: dict[str, Any] = json.loads((entry / "index.json").read_bytes())
    except (OSError, ValueError, DataError):
        return None
    return {**index, "checksum": digest} if all(type(index.get(name)) is int for name in _COUNTS) else None


def prepare_text(
    path: str,
    model_options: Mapping[str, Any],
    inputs: Sequence[Mapping[str, Any]],
    seed: int,
    on_progress: cache.Progress,
) -> dict[str, Any]:
    """Tokenize and mask a folder's text, unless the cache holds the result; return the data's facts for the request.

    The function waits while another process prepares the same data.

    Args:
        path: Path of the folder, in which `~` is expanded. It contains the text in files `*.txt`, and may contain a
            vocabulary in the file `vocab.txt`.
        model_options: The model's options by name; `vocabulary_size` is the largest size of the vocabulary.
        inputs: BERT's inputs, as in the request: dicts with `name`, `shape` of one sample, and `dtype`.
        seed: The seed of the sentence pairs and the masking.
        on_progress: Called with a stage as text, the amount done, and the total amount.

    Returns:
        A dict: `path`, the folder; `index`, the path of the index; `checksum`, the index's SHA-256 in hexadecimal; the
        numbers of `samples`, `files`, `documents` and `tokens`; `vocabulary_size`, the number of the vocabulary's
        pieces; and `vocabulary`, which is `vocab.txt` or `made from the text`.

    Raises:
        SpecError: The vocabulary has more pieces than the model, or the text has too many characters for it.
        Unavailable: The folder does not exist, cannot be read, or contains no text; or there is no cache directory.
        DocumentError: A file is not UTF-8 or changes meanwhile, the vocabulary is malformed, a link leads out of the
            folder, or the text is a single document.
        UsageError: The package tokenizers is not installed.
        OSError: The prepared data cannot be written.
    """
    shapes = {entry["name"]: tuple(entry["shape"]) for entry in inputs}
    root = folder.resolve_folder(path, "text")
    limit = int(model_options["vocabulary_size"])
    files = _checksums(root, on_progress)
    pieces = _read_own_vocabulary(root, limit)
    made_from = {
        "format": TEXT,
        "version": INDEX_VERSION,
        "recipe": _RECIPE,
        "files": list(files.items()),
        "vocabulary": {"made_from_text": limit}
        if pieces is None
        else {"sha256": hashlib.sha256("\n".join(pieces).encode()).hexdigest()},
        "sequence_length": shapes["input_ids"][0],
        "predictions_per_sequence": shapes["masked_positions"][0],
        "inputs": [[entry["name"], list(entry["shape"]), entry["dtype"]] for entry in inputs],
        "seed": seed,
    }
    key = hashlib.sha256(json.dumps(made_from).encode("ascii")).hexdigest()
    entry = cache.directory() / f"text-{key[:32]}"

    def waiting() -> None:
        on_progress("waiting for another preparation", 0, 1)

    with private_files.hold_lock(entry.with_name(f".{entry.name}.lock"), shared=False, waiting=waiting):
        index = _read_valid_index(entry)
        if index is None:
            partial = entry.with_name(f".{entry.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(mode=0o700)
            try:
                _make(
                    partial,
                    root=root,
                    made_from=made_from,
                    pieces=pieces,
                    limit=limit,
                    inputs=inputs,
                    on_progress=on_progress,
                )
                # A reader that has the old files open can continue to read them.
                shutil.rmtree(entry, ignore_errors=True)
                partial.rename(entry)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
            index = _read_valid_index(entry)
            assert index is not None
    return {
        "path": os.fspath(root),
        "index": os.fspath(entry / "index.json"),
        "checksum": index["checksum"],
        "samples": index["samples"],
        "files": len(files),
        "documents": index["documents"],
        "tokens": index["tokens"],
        "vocabulary_size": index["vocabulary_size"],
        "vocabulary": _VOCABULARY if pieces is not None else "made from the text",
    }
