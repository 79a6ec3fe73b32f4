"""Preparing `text:FOLDER`: the vocabulary, the sentence pairs, the masking, the arrays on disk."""

import json
import os
import random
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import attrs
import data_samples
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlperf_sdk.data import prepare, text, wordpiece
from dlperf_sdk.data.arrays import Writer
from dlperf_sdk.data.pairs import mask, pairs
from dlperf_sdk.errors import DocumentError, SpecError, Unavailable, UsageError
from dlperf_sdk.interfaces.model import entry_to_dict
from dlperf_sdk.models.bert_base import BertBase
from dlperf_sdk.models.resnet50 import ResNet50
from dlperf_sdk.spec.values import DataSpec
from dlperf_sdk.worker import data as worker

BERT = BertBase()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DLPERF_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "data"


def prepared(folder, seed=0, on_progress=lambda what, done, total: None, **options):
    chosen = BERT.Options(**{"sequence_length": 64, "predictions_per_sequence": 10, **options})
    inputs = [entry_to_dict(entry) for entry in BERT.inputs(chosen)]
    source = DataSpec("text", str(folder))
    return prepare(source, attrs.asdict(chosen), inputs, seed=seed, on_progress=on_progress)


def load(data):
    arrays = worker.read_arrays(data)
    return {
        name: np.memmap(entry.path, entry.dtype, "r", shape=entry.shape) for name, entry in arrays.items()
    }


def vocabulary(data):
    return (Path(data["index"]).parent / "vocab.txt").read_text(encoding="utf-8").splitlines()


class Script:
    """Chance, written down."""

    def __init__(self, *draws):
        self.draws = list(draws)

    def random(self):
        return self.draws.pop(0)


# The arithmetic of pairs and masks, by hand.


def test_masking_by_hand():
    tokens = [2, 10, 11, 12, 13, 3, 14, 15, 16, 3]
    # 15 % of 10 tokens is 2 (1.5, rounded to even). The 7 candidates are positions 1 2 3 4 6 7 8. The
    # draw 0.5 of 7 takes the fourth, 4, and leaves 4|2 3 1 6 7 8; 0.9 of 6 takes the last, 8. In order: 4
    # is masked (0.79 < 0.8), 8 is replaced (0.85 < 0.9) by word 0.25 of 8, the third.
    chance = Script(0.5, 0.9, 0.79, 0.85, 0.25)
    masked = mask(tokens, fixed=(2, 3), mask_token=4, words=range(10, 18), maximum=20, source=chance)
    assert masked.tokens == [2, 10, 11, 12, 4, 3, 14, 15, 12, 3]
    assert masked.positions == [4, 8] and masked.originals == [13, 16]
    assert chance.draws == []
    # The same choice, but only one may be predicted, and it stays as it is.
    masked = mask(tokens, fixed=(2, 3), mask_token=4, words=range(10, 18), maximum=1, source=Script(0.5, 0.9))
    assert masked.tokens == tokens and masked.positions == [4] and masked.originals == [13]


def test_pairs_by_hand():
    documents = [[[1, 2], [3, 4]], [[5, 6, 7]]]
    # Room for 6. Document 0: cut behind sentence 0 (the only place), 0.7: followed by its own. Document 1
    # has one sentence; 0.2: from elsewhere, which can only be document 0, from sentence 0.6 of 2 on.
    chance = Script(0.0, 0.7, 0.2, 0.0, 0.6)
    assert list(pairs(documents, 9, chance)) == [([1, 2], [3, 4], 0), ([5, 6, 7], [3, 4], 1)]
    assert chance.draws == []
    # A pair from elsewhere leaves its second sentence to the next pair: here, cut in the middle.
    chance = Script(0.0, 0.2, 0.0, 0.0, 0.9, 0.9)
    assert list(pairs(documents, 9, chance)) == [([1, 2], [5, 6, 7], 1), ([3], [4], 0), ([5], [6, 7], 0)]
    # Room for 3: [5 6 7] with [3 4] is two too many. The longer span gives up its front (0.4); then they
    # are equally long, and the second gives up its back (0.5).
    chance = Script(0.0, 0.7, 0.9, 0.2, 0.0, 0.6, 0.4, 0.5)
    assert list(pairs(documents, 6, chance)) == [([1, 2], [3], 0), ([6, 7], [3], 1)]


@given(
    st.lists(st.lists(st.integers(1, 12), min_size=1, max_size=6), min_size=2, max_size=6),
    st.integers(5, 40),
    st.integers(0, 1000),
)
def test_pairs_fit_and_their_labels_are_true(sizes, length, seed):
    # Every token is a number of its own, so it tells where it comes from.
    documents, owner, token = [], {}, 0
    for number, sentences in enumerate(sizes):
        documents.append([])
        for size in sentences:
            documents[-1].append(list(range(token, token + size)))
            owner.update(dict.fromkeys(range(token, token + size), number))
            token += size
    for first, second, label in pairs(documents, length, random.Random(seed)):
        assert first and second and len(first) + len(second) + 3 <= length
        for span in (first, second):
            assert span == list(range(span[0], span[0] + len(span)))
            assert len({owner[token] for token in span}) == 1
        if label:
            assert owner[first[0]] != owner[second[0]]
        else:
            assert owner[first[0]] == owner[second[0]] and second[0] > first[-1]


@given(st.integers(1, 60), st.integers(1, 30), st.integers(0, 1000))
def test_masks_exclude_special_tokens_and_keep_labels(size, most, seed):
    tokens = [2, *range(100, 100 + size), 3, 200, 3]
    masked = mask(
        tokens, fixed=(2, 3), mask_token=4, words=range(300, 400), maximum=most, source=random.Random(seed)
    )
    count = min(most, max(1, round(0.15 * len(tokens))))
    assert len(masked.positions) == count and masked.positions == sorted(set(masked.positions))
    assert masked.originals == [tokens[i] for i in masked.positions]
    for i, token in enumerate(tokens):
        if i in masked.positions:
            assert token not in (2, 3)
            assert masked.tokens[i] in (4, token) or masked.tokens[i] >= 300
        else:
            assert masked.tokens[i] == token


# A folder, prepared.


def test_sequences_have_berts_format(tmp_path):
    data_samples.text_folder(tmp_path / "data", documents=60)
    observed = []
    data = prepared(tmp_path / "data", on_progress=lambda *report: observed.append(report))
    assert json.loads(json.dumps(data)) == data
    assert {what for what, _, _ in observed} == {
        "reading text",
        "making a vocabulary",
        "tokenizing text",
        "masking sequences",
    }
    assert all(0 <= done <= total for _, done, total in observed)

    arrays, pieces = load(data), vocabulary(data)
    assert (
        tuple(pieces[:5]) == wordpiece.SPECIAL and len(set(pieces)) == len(pieces) == data["vocabulary_size"]
    )
    pad, cls, sep, hidden = (pieces.index(piece) for piece in ("[PAD]", "[CLS]", "[SEP]", "[MASK]"))
    ids, attention, segments = arrays["input_ids"], arrays["attention_mask"], arrays["segment_ids"]
    positions, weights = arrays["masked_positions"], arrays["masked_weights"]
    assert ids.shape == (data["samples"], 64) and arrays["next_sentence_label"].shape == (data["samples"],)
    assert weights.dtype == np.float32 and ids.dtype == np.int32
    lengths = attention.sum(1)
    assert lengths.max() == 64 and lengths.min() >= 5
    for i in range(data["samples"]):
        n = lengths[i]
        assert attention[i, :n].all() and not attention[i, n:].any()
        assert (ids[i, n:] == pad).all() and not (ids[i, :n] == pad).any() and not segments[i, n:].any()
        # [CLS] A [SEP] B [SEP]
        cuts = np.flatnonzero(ids[i] == sep)
        assert ids[i, 0] == cls and (ids[i] == cls).sum() == 1 and len(cuts) == 2 and cuts[1] == n - 1
        assert cuts[0] >= 2 and cuts[1] - cuts[0] >= 2
        assert not segments[i, : cuts[0] + 1].any() and segments[i, cuts[0] + 1 : n].all()
        used = int(weights[i].sum())
        assert used == min(10, max(1, round(0.15 * int(n))))
        assert (weights[i, :used] == 1).all() and not weights[i, used:].any()
        assert not positions[i, used:].any() and not arrays["masked_ids"][i, used:].any()
        chosen = positions[i, :used]
        assert (np.diff(chosen) > 0).all() and chosen[0] > 0 and chosen[-1] < n
        assert not np.isin(chosen, cuts).any()
        originals = arrays["masked_ids"][i, :used]
        assert not np.isin(originals, (pad, cls, sep, hidden)).any()


def test_shares_of_masks_and_labels(tmp_path):
    data_samples.text_folder(tmp_path / "data", files=4, documents=400)
    data = prepared(tmp_path / "data")
    arrays, pieces = load(data), vocabulary(data)
    used = arrays["masked_weights"] == 1
    rows = np.nonzero(used)[0]
    now = arrays["input_ids"][rows, arrays["masked_positions"][used]]
    before = arrays["masked_ids"][used]
    count, words = len(now), data["vocabulary_size"] - 5
    assert count > 3000
    # A tenth is replaced, and one replacement in `words` is the very word that stood there.
    assert data_samples.close((now == pieces.index("[MASK]")).mean(), 0.8, count)
    assert data_samples.close((now == before).mean(), 0.1 + 0.1 / words, count)
    assert data_samples.close(((now != before) & (now != pieces.index("[MASK]"))).mean(), 0.1, count)
    assert data_samples.close(arrays["next_sentence_label"].mean(), 0.5, data["samples"])


def test_the_original_text_can_be_read_back(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text(
        "The cat sat. The dog ran!\n\nA naïve Bird flew\nover [MASK] here?"
    )
    data = prepared(tmp_path / "data")
    arrays, pieces = load(data), vocabulary(data)
    read = set()
    for i in range(data["samples"]):
        tokens = list(arrays["input_ids"][i][: int(arrays["attention_mask"][i].sum())])
        used = int(arrays["masked_weights"][i].sum())
        originals = arrays["masked_ids"][i, :used]
        for position, original in zip(arrays["masked_positions"][i, :used], originals, strict=True):
            tokens[position] = original
        words = " ".join(pieces[token] for token in tokens).replace(" ##", "")
        read.update(part.strip() for part in words.removeprefix("[CLS]").split("[SEP]") if part.strip())
    # Lower case, no accents; a special piece that stands in the text is taken apart.
    sentences = ("the cat sat .", "the dog ran !", "a naive bird flew", "over [ mask ] here ?")
    assert any(sentence in span for span in read for sentence in sentences)
    assert all(any(span in " ".join(sentences) or span in part for part in sentences) for span in read)


def test_documents_and_sentences():
    assert list(text.split("One. Two! Three\nfour.\r\n \t\r\nFive?\n\n\n\n")) == [
        ["One.", "Two!", "Three", "four."],
        ["Five?"],
    ]
    assert list(text.split(" \n\n ")) == []


_PREPARE = """
import json, sys
sys.path[:0] = sys.argv[1:3]
from test_text import prepared
print(json.dumps(prepared(sys.argv[3])))
"""


def test_preparers_at_once_and_apart_make_the_same(tmp_path):
    data_samples.text_folder(tmp_path / "data", documents=60)
    folders = [str(Path(path).parent) for path in (__file__, data_samples.__file__)]
    command = [sys.executable, "-c", _PREPARE, *folders, str(tmp_path / "data")]
    caches = ["one", "one", "two"]
    running = [
        subprocess.Popen(
            command, stdout=subprocess.PIPE, env={**os.environ, "DLPERF_CACHE_DIR": str(tmp_path / name)}
        )
        for name in caches
    ]
    created = [json.loads(process.communicate(timeout=60)[0]) for process in running]
    assert all(process.returncode == 0 for process in running)
    assert created[0] == created[1] and created[0]["checksum"] == created[2]["checksum"]
    assert len([path for path in (tmp_path / "one" / "data").iterdir() if path.is_dir()]) == 1


def test_second_preparation_needs_no_tokenizer_and_every_setting_makes_its_own(tmp_path, monkeypatch):
    data_samples.text_folder(tmp_path / "data")
    first = prepared(tmp_path / "data")
    others = [
        prepared(tmp_path / "data", seed=1),
        prepared(tmp_path / "data", sequence_length=32),
        prepared(tmp_path / "data", predictions_per_sequence=5),
        prepared(tmp_path / "data", vocabulary_size=300),
    ]
    assert others[3]["vocabulary_size"] == 300
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    assert prepared(tmp_path / "copy")["checksum"] == first["checksum"]
    with (tmp_path / "data" / "made-0.txt").open("a") as file:
        file.write("\n\nOne more.\n")
    others.append(prepared(tmp_path / "data"))
    assert len({first["checksum"], *(other["checksum"] for other in others)}) == 6

    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert prepared(tmp_path / "copy") == {**first, "path": str(tmp_path / "copy")}
    with pytest.raises(UsageError, match=r'pip install "dlperf-sdk\[text\]"'):
        prepared(tmp_path / "copy", seed=2)


@pytest.mark.parametrize("name", ["index.json", "index.sha256", "input_ids.bin", "next_sentence_label.bin"])
@pytest.mark.parametrize("damage", ["flip", "truncate", "remove"])
def test_a_corrupt_cache_is_made_again_by_preparers_and_refused_by_workers(tmp_path, cache, name, damage):
    data_samples.text_folder(tmp_path / "data", files=1, documents=4)
    data = prepared(tmp_path / "data")
    path = Path(data["index"]).parent / name
    content = path.read_bytes()
    if damage == "flip":
        path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    elif damage == "truncate":
        path.write_bytes(content[:-1])
    else:
        path.unlink()
    if name != "index.sha256":
        with pytest.raises(worker.DataError, match="run again"):
            worker.read_arrays(data)
    assert prepared(tmp_path / "data") == data
    assert path.read_bytes() == content
    worker.read_arrays(data)


def test_cache_is_private_and_a_broken_off_preparation_leaves_nothing_in_the_way(tmp_path, cache):
    data_samples.text_folder(tmp_path / "data", files=1)
    data = prepared(tmp_path / "data")
    entry = Path(data["index"]).parent
    assert stat.S_IMODE(entry.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in entry.iterdir()} == {0o600}
    entry.rename(entry.with_name(f".{entry.name}.partial"))
    assert prepared(tmp_path / "data") == data
    assert [path for path in cache.iterdir() if path.is_dir()] == [entry]


# Vocabularies.

_BERT_PIECES = [
    *("[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *("the", "cat", "dog", "sat", "ran", "##s", "un", "##able", "."),
]


def test_the_folders_own_vocabulary_is_used(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "vocab.txt").write_text("\n".join(_BERT_PIECES) + "\n")
    (tmp_path / "data" / "a.txt").write_text(
        "The cats sat. The dog ran.\n\nThe unable zebra sat. The cat ran."
    )
    data = prepared(tmp_path / "data")
    assert data["vocabulary"] == "vocab.txt" and data["vocabulary_size"] == 15 and data["files"] == 1
    assert vocabulary(data) == _BERT_PIECES
    tokenizer = wordpiece.tokenizer(_BERT_PIECES)
    # By longest match first, as in J. Devlin et al. and Y. Wu et al. 2016; what has no pieces is unknown.
    assert wordpiece.encode(tokenizer, ["The cats", "unable zebra", "[MASK]"]) == [
        [6, 7, 11],
        [12, 13, 2],
        [2, 2, 2],
    ]
    assert data["tokens"] == 5 + 4 + 6 + 4
    with pytest.raises(SpecError, match="has 15 pieces, and the model has embeddings for 14"):
        prepared(tmp_path / "data", vocabulary_size=14)


def test_case_is_kept_if_the_vocabulary_is_cased(tmp_path):
    cased = wordpiece.tokenizer([*_BERT_PIECES, "The", "é"])
    assert wordpiece.encode(cased, ["The the é e"]) == [[15, 6, 16, 2]]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["[PAD]", "a"], r"lacks \[UNK\], \[CLS\], \[SEP\], \[MASK\]"),
        ([*_BERT_PIECES, "cat"], r"Line 16 .* doubles line 8 \('cat'\)"),
        ([*_BERT_PIECES, "", "x"], "Line 16 .* is empty"),
        (list(wordpiece.SPECIAL), "contains only special pieces"),
    ],
)
def test_broken_vocabularies(tmp_path, lines, message):
    data_samples.text_folder(tmp_path / "data", files=1)
    (tmp_path / "data" / "vocab.txt").write_text("\n".join(lines) + "\n")
    with pytest.raises(DocumentError, match=message):
        prepared(tmp_path / "data")


def test_a_vocabulary_too_small_for_the_characters(tmp_path):
    data_samples.text_folder(tmp_path / "data")
    with pytest.raises(SpecError, match=r"vocabulary_size is 20\. Raise it"):
        prepared(tmp_path / "data", vocabulary_size=20)


# Folders that hold no text.


def test_bad_folders(tmp_path):
    folder = tmp_path / "data"
    with pytest.raises(Unavailable, match="does not exist"):
        prepared(folder)
    folder.mkdir()
    with pytest.raises(Unavailable, match="no text"):
        prepared(folder)
    (folder / "a.txt").write_bytes(b"fine\n\nnot \xff fine")
    with pytest.raises(DocumentError, match=r"a\.txt is not UTF-8 text, from byte 10"):
        prepared(folder)
    (folder / "a.txt").write_text("Only one document. It is short.")
    with pytest.raises(DocumentError, match="one document, and half of the sentence pairs need two"):
        prepared(folder)
    (folder / "b.txt").symlink_to("/usr/share/common-licenses/GPL-3")
    with pytest.raises(DocumentError, match="outside the data's folder"):
        prepared(folder)
    resnet = ResNet50()
    inputs = [entry_to_dict(entry) for entry in resnet.inputs(resnet.Options())]
    with pytest.raises(SpecError, match="inputs are image, label. Use another model"):
        prepare(DataSpec("text", str(folder)), {}, inputs)


def test_byte_order_marks_are_removed(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_bytes(b"\xef\xbb\xbfone two\r\n\r\nthree four\r\n")
    pieces = vocabulary(prepared(tmp_path / "data"))
    assert not any("\ufeff" in piece for piece in pieces)


# Arrays.


def test_arrays_are_little_endian_and_flat(tmp_path):
    inputs = [
        {"name": "a", "shape": [2], "dtype": "int64"},
        {"name": "b", "shape": [], "dtype": "float32"},
    ]
    with Writer(tmp_path, inputs) as writer:
        writer.add({"a": [1, 258], "b": [0.5]})
        writer.add({"a": [-1, 0], "b": [-2.0]})
        with pytest.raises(ValueError, match="a takes 2 numbers per sample, not 3"):
            writer.add({"a": [1, 2, 3], "b": [0.0]})
        entries = writer.entries()
    assert [(entry["dtype"], entry["shape"]) for entry in entries] == [("<i4", [2, 2]), ("<f4", [2])]
    assert (tmp_path / "a.bin").read_bytes() == bytes.fromhex("01000000 02010000 ffffffff 00000000")
    assert (tmp_path / "b.bin").read_bytes() == bytes.fromhex("0000003f 000000c0")
    assert entries[0]["sha256"] == worker.checksum(str(tmp_path / "a.bin"))


def test_a_huge_vocabulary_is_refused_before_it_is_read(tmp_path):
    with (tmp_path / "vocab.txt").open("wb") as file:
        file.truncate(10**11)
    with pytest.raises(DocumentError, match="larger than 4194304 bytes"):
        wordpiece.read_vocabulary(tmp_path / "vocab.txt")
    (tmp_path / "vocab.txt").write_text(f"{'a' * 10**6}\n" * 2)
    with pytest.raises(DocumentError, match="doubles line 1") as raised:
        wordpiece.read_vocabulary(tmp_path / "vocab.txt")
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize("field", ["samples", "documents", "tokens", "vocabulary_size"])
def test_an_index_without_its_counts_is_made_again(tmp_path, field):
    data_samples.text_folder(tmp_path / "data")
    first = prepared(tmp_path / "data")
    path = Path(first["index"])
    content = path.read_bytes()
    index = json.loads(content)
    del index[field]
    path.write_text(json.dumps(index))
    path.with_name("index.sha256").write_text(worker.checksum(str(path)))
    assert prepared(tmp_path / "data") == first and path.read_bytes() == content
