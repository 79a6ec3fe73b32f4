"""BERT-Base pre-training in MindSpore: Devlin et al. 2019, masked language model and next sentence prediction.

What is computed is laid down in `dlperf_sdk.models.bert_base`; `state.name_in_manifest` has the manifest's names.
Letters in shapes: B sequences, S tokens, P predictions, H the hidden size, V word pieces.
"""

import mindspore as ms
from mindspore import nn, ops

from dlperf_mindspore.worker.training import MindSporeTrainer
from dlperf_sdk.worker.architectures import LAYER_NORM_EPSILON, POSITIONS, SEGMENTS

NO_ATTENTION = -1e30
"""Addend of the score of a key that gets no attention; the exponential of such a score is 0."""


def layer_norm(hidden):
    """Return an `nn.LayerNorm` over the last axis, which has `hidden` elements."""
    return nn.LayerNorm((hidden,), epsilon=LAYER_NORM_EPSILON)


class Embeddings(nn.Cell):
    """The sum of the embeddings of words, positions and segments, then layer norm and dropout.

    Args:
        words: Number of word pieces.
        hidden: Number of features.
        dropout: Rate of dropout.
    """

    def __init__(self, words, hidden, dropout):
        super().__init__()
        self.word = nn.Embedding(words, hidden)
        self.position = nn.Embedding(POSITIONS, hidden)
        self.segment = nn.Embedding(SEGMENTS, hidden)
        self.norm = layer_norm(hidden)
        self.dropout = nn.Dropout(p=dropout)

    def construct(self, input_ids, segment_ids):
        """Return the embeddings, (B, S, H), of the word pieces `input_ids` and the segments `segment_ids`, both (B, S).

        There are B sequences of S tokens, and H features.
        """
        position = self.position.embedding_table[: input_ids.shape[1]]
        return self.dropout(self.norm(self.word(input_ids) + position + self.segment(segment_ids)))


class Attention(nn.Cell):
    """Self-attention with several heads, then dropout, the residual sum and layer norm.

    Args:
        hidden: Number of features.
        heads: Number of heads, which divides `hidden`.
        dropout: Rate of dropout.
    """

    def __init__(self, hidden, heads, dropout):
        super().__init__()
        self.heads, self.scale = heads, (hidden // heads) ** -0.5
        self.query = nn.Dense(hidden, hidden)
        self.key = nn.Dense(hidden, hidden)
        self.value = nn.Dense(hidden, hidden)
        self.output = nn.Dense(hidden, hidden)
        self.norm = layer_norm(hidden)
        self.attention_dropout = nn.Dropout(p=dropout)
        self.dropout = nn.Dropout(p=dropout)

    def construct(self, x, mask):
        """Return the block's output, (B, S, H), for x, (B, S, H): B sequences of S tokens with H features.

        `mask`, (B, 1, 1, S), is added to the scores: 0 for keys that get attention, -1e30 for the others.
        """
        query = self.split_heads(self.query(x)) * self.scale
        key, value = self.split_heads(self.key(x)), self.split_heads(self.value(x))
        scores = ops.matmul(query, key.transpose(0, 1, 3, 2)) + mask
        context = ops.matmul(self.attention_dropout(ops.softmax(scores, -1)), value)
        context = context.transpose(0, 2, 1, 3).reshape(x.shape)
        return self.norm(x + self.dropout(self.output(context)))

    def split_heads(self, x):
        """Return x, (B, S, H), as (B, heads, S, H / heads): B sequences of S tokens with H features."""
        return x.reshape(x.shape[0], x.shape[1], self.heads, -1).transpose(0, 2, 1, 3)


class Layer(nn.Cell):
    """One layer of the encoder: attention, then the feed-forward block with its residual sum and layer norm.

    Args:
        hidden: Number of features.
        heads: Number of heads, which divides `hidden`.
        intermediate: Number of features between the two linear layers of the feed-forward block.
        dropout: Rate of dropout.
    """

    def __init__(self, hidden, heads, intermediate, dropout):
        super().__init__()
        self.attention = Attention(hidden, heads, dropout)
        self.intermediate = nn.Dense(hidden, intermediate)
        self.output = nn.Dense(intermediate, hidden)
        self.norm = layer_norm(hidden)
        self.dropout = nn.Dropout(p=dropout)

    def construct(self, x, mask):
        """Return the layer's output, (B, S, H), for x, (B, S, H): B sequences of S tokens with H features.

        `mask`, (B, 1, 1, S), is added to the scores: 0 for keys that get attention, -1e30 for the others.
        """
        x = self.attention(x, mask)
        return self.norm(x + self.dropout(self.output(gelu(self.intermediate(x)))))


def gelu(x):
    """Return x · Φ(x) for each element of the tensor x, computed with the error function, not approximated by tanh."""
    return ops.gelu(x, approximate="none")


class MaskedLM(nn.Cell):
    """The head for masked language modelling: a linear layer, GELU, layer norm, and the decoder.

    The decoder's weight is that of the word embeddings.

    Args:
        words: Number of word pieces.
        hidden: Number of features.
    """

    def __init__(self, words, hidden):
        super().__init__()
        self.transform = nn.Dense(hidden, hidden)
        self.norm = layer_norm(hidden)
        self.bias = ms.Parameter(ops.zeros(words, ms.float32), name="bias")

    def construct(self, x, word_embeddings):
        """Return the logits of words, (B · P, V), for x, (B · P, H), the encoder's output at the masked positions.

        There are B sequences with P predictions each, H features, and V word pieces. `word_embeddings` is (V, H).
        """
        return ops.matmul(self.norm(gelu(self.transform(x))), word_embeddings.T) + self.bias


class Bert(nn.Cell):
    """BERT: the embeddings, the encoder, and the two heads of pre-training.

    Args:
        words: Number of word pieces.
        hidden: Number of features.
        heads: Number of heads, which divides `hidden`.
        intermediate: Number of features between the two linear layers of the feed-forward block.
        layers: Number of layers of the encoder.
        dropout: Rate of dropout.
    """

    def __init__(self, words, hidden, heads, intermediate, layers, dropout):
        super().__init__()
        self.embeddings = Embeddings(words, hidden, dropout)
        self.encoder = nn.CellList([Layer(hidden, heads, intermediate, dropout) for _ in range(layers)])
        self.pooler = nn.Dense(hidden, hidden)
        self.next_sentence = nn.Dense(hidden, 2)
        self.masked_lm = MaskedLM(words, hidden)

    def construct(self, input_ids, segment_ids, attention_mask, masked_positions):
        """Return a pair of logits: of words, (B · P, V), and of the next sentence, (B, 2).

        There are B sequences of S tokens with P predictions each, and V word pieces. `input_ids`, `segment_ids` and
        `attention_mask` (1 for tokens, 0 for padding) are (B, S). `masked_positions`, (B, P), has the positions of the
        masked words in the sequence.
        """
        x = self.embeddings(input_ids, segment_ids)
        mask = additive(attention_mask)
        for layer in self.encoder:
            x = layer(x, mask)
        predicted = self.masked_lm(
            gather_positions(x, masked_positions), self.embeddings.word.embedding_table
        )
        return predicted, self.next_sentence(ops.tanh(self.pooler(x[:, 0])))


def additive(attention_mask):
    """Return the mask to add to attention scores, (B, 1, 1, S): 0 for tokens, -1e30 for padding.

    `attention_mask`, (B, S), is 1 for tokens and 0 for padding, in B sequences of S tokens.
    """
    mask = (1 - attention_mask).astype("float32") * NO_ATTENTION
    return mask.reshape(mask.shape[0], 1, 1, mask.shape[1])


def gather_positions(x, positions):
    """Return the vectors of x, (B, S, H), at `positions`, (B, P), as rows of a matrix, (B · P, H).

    There are B sequences of S tokens with H features; each row of `positions` has P indices of tokens.
    """
    first = ops.arange(0, x.shape[0] * x.shape[1], x.shape[1]).reshape(-1, 1)
    return x.reshape(-1, x.shape[2])[(positions + first).reshape(-1)]


class BertBaseTrainer(MindSporeTrainer):
    """The trainer of BERT-Base: predicts masked words, and whether a sequence's second part follows the first."""

    def build(self, options):
        """Return a new `Bert`, an `nn.Cell`; its weights are not the canonical ones yet.

        `options` is a dict of the model's options, of which the sizes and `dropout` are read.
        """
        return Bert(
            words=options["vocabulary_size"],
            hidden=options["hidden_size"],
            heads=options["heads"],
            intermediate=options["intermediate_size"],
            layers=options["layers"],
            dropout=options["dropout"],
        )

    def outputs(self, network, batch):
        """Return the network's logits for a micro-batch: a pair, of words (B · P, V), and of the next sentence (B, 2).

        There are B sequences with P predictions each, and V word pieces. `network` is what `build` returned. `batch` is
        a dict from input name to tensor, on the device.
        """
        return network(
            batch["input_ids"], batch["segment_ids"], batch["attention_mask"], batch["masked_positions"]
        )

    def loss(self, outputs, batch):
        """Return the sum of the losses of both heads for a micro-batch: a float32 scalar.

        The words' loss is the mean of -log p[`masked_ids`], weighted by `masked_weights`, which is 0 for unused
        predictions; both are (B, P). The next sentence's loss is the mean of -log p[`next_sentence_label`], (B,).
        `outputs` is the pair of logits, (B · P, V) and (B, 2), for B sequences with P predictions each and V word
        pieces. `batch` is a dict from input name to tensor, on the device.
        """
        words, follows = outputs
        weights = batch["masked_weights"].reshape(-1)
        labels = batch["masked_ids"].reshape(-1).astype("int32")
        per_word = ops.cross_entropy(words, labels, reduction="none")
        masked = (weights * per_word).sum() / weights.sum()
        return masked + ops.cross_entropy(follows, batch["next_sentence_label"].astype("int32"))
