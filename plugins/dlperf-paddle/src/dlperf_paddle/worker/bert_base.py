"""BERT-Base pre-training in Paddle: Devlin et al. 2019, masked language model and next sentence prediction.

What is computed is laid down in `dlperf_sdk.models.bert_base`; the names are the manifest's. Letters in
shapes: B sequences, S tokens, P predictions, H the hidden size, V word pieces.
"""

import paddle
import paddle.nn.functional as F
from paddle import nn

from dlperf_paddle.worker.training import PaddleTrainer
from dlperf_sdk.worker.architectures import LAYER_NORM_EPSILON, POSITIONS, SEGMENTS


class Embeddings(nn.Layer):
    """The sum of the embeddings of words, positions and segments, then layer norm and dropout.

    Args:
        words: Number of word pieces.
        hidden: Number of features.
    """

    def __init__(self, words, hidden):
        super().__init__()
        self.word = nn.Embedding(words, hidden)
        self.position = nn.Embedding(POSITIONS, hidden)
        self.segment = nn.Embedding(SEGMENTS, hidden)
        self.norm = nn.LayerNorm(hidden, epsilon=LAYER_NORM_EPSILON)

    def forward(self, input_ids, segment_ids, dropout):
        """Return the embeddings, (B, S, H), of the word pieces `input_ids` and the segments `segment_ids`, both (B, S).

        There are B sequences of S tokens, and H features. `dropout` is the rate of dropout.
        """
        position = self.position.weight[: input_ids.shape[1]]
        x = self.norm(self.word(input_ids) + position + self.segment(segment_ids))
        return F.dropout(x, dropout)


class Attention(nn.Layer):
    """Self-attention with several heads, then dropout, the residual sum and layer norm.

    Args:
        hidden: Number of features.
        heads: Number of heads, which divides `hidden`.
    """

    def __init__(self, hidden, heads):
        super().__init__()
        self.heads, self.width = heads, hidden // heads
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, hidden)
        self.output = nn.Linear(hidden, hidden)
        self.norm = nn.LayerNorm(hidden, epsilon=LAYER_NORM_EPSILON)

    def forward(self, x, mask, dropout):
        """Return the block's output, (B, S, H), for x, (B, S, H): B sequences of S tokens with H features.

        `mask`, (B, 1, 1, S), is added to the scores: 0 for keys that get attention, -∞ for the others. `dropout` is the
        rate of dropout.
        """
        query, key, value = (
            projection(x).reshape([0, 0, self.heads, self.width]).transpose([0, 2, 1, 3])
            for projection in (self.query, self.key, self.value)
        )
        scores = paddle.matmul(query * self.width**-0.5, key, transpose_y=True)
        context = paddle.matmul(F.dropout(F.softmax(scores + mask), dropout), value)
        context = context.transpose([0, 2, 1, 3]).flatten(2)
        return self.norm(x + F.dropout(self.output(context), dropout))


class Layer(nn.Layer):
    """One layer of the encoder: attention, then the feed-forward block with its residual sum and layer norm.

    Args:
        hidden: Number of features.
        heads: Number of heads, which divides `hidden`.
        intermediate: Number of features between the two linear layers of the feed-forward block.
    """

    def __init__(self, hidden, heads, intermediate):
        super().__init__()
        self.attention = Attention(hidden, heads)
        self.intermediate = nn.Linear(hidden, intermediate)
        self.output = nn.Linear(intermediate, hidden)
        self.norm = nn.LayerNorm(hidden, epsilon=LAYER_NORM_EPSILON)

    def forward(self, x, mask, dropout):
        """Return the layer's output, (B, S, H), for x, (B, S, H): B sequences of S tokens with H features.

        `mask`, (B, 1, 1, S), is added to the scores: 0 for keys that get attention, -∞ for the others. `dropout` is the
        rate of dropout.
        """
        x = self.attention(x, mask, dropout)
        return self.norm(x + F.dropout(self.output(F.gelu(self.intermediate(x))), dropout))


class MaskedLM(nn.Layer):
    """The head for masked language modelling: a linear layer, GELU, layer norm, and the decoder.

    The decoder's weight is that of the word embeddings.

    Args:
        words: Number of word pieces.
        hidden: Number of features.
    """

    def __init__(self, words, hidden):
        super().__init__()
        self.transform = nn.Linear(hidden, hidden)
        self.norm = nn.LayerNorm(hidden, epsilon=LAYER_NORM_EPSILON)
        self.bias = self.create_parameter([words], is_bias=True)

    def forward(self, x, word_embeddings):
        """Return the logits of words, (B · P, V), for x, (B · P, H), the encoder's output at the masked positions.

        There are B sequences with P predictions each, H features, and V word pieces. `word_embeddings` is (V, H).
        """
        x = self.norm(F.gelu(self.transform(x)))
        return paddle.matmul(x, word_embeddings, transpose_y=True) + self.bias


class Bert(nn.Layer):
    """BERT: the embeddings, the encoder, and the two heads of pre-training.

    Args:
        words: Number of word pieces.
        hidden: Number of features.
        heads: Number of heads, which divides `hidden`.
        intermediate: Number of features between the two linear layers of the feed-forward block.
        layers: Number of layers of the encoder.
    """

    def __init__(self, words, hidden, heads, intermediate, layers):
        super().__init__()
        self.embeddings = Embeddings(words, hidden)
        self.encoder = nn.LayerList([Layer(hidden, heads, intermediate) for _ in range(layers)])
        self.pooler = nn.Linear(hidden, hidden)
        self.next_sentence = nn.Linear(hidden, 2)
        self.masked_lm = MaskedLM(words, hidden)

    def forward(self, input_ids, segment_ids, attention_mask, masked_positions, dropout):
        """Return a pair of logits: of words, (B · P, V), and of the next sentence, (B, 2).

        There are B sequences of S tokens with P predictions each, and V word pieces. `input_ids`, `segment_ids` and
        `attention_mask` (1 for tokens, 0 for padding) are (B, S). `masked_positions`, (B, P), has the positions of the
        masked words in the sequence. `dropout` is the rate of dropout.
        """
        x = self.embeddings(input_ids, segment_ids, dropout)
        mask = paddle.where(attention_mask == 0, float("-inf"), 0.0).unsqueeze([1, 2])
        for layer in self.encoder:
            x = layer(x, mask, dropout)
        predicted = self.masked_lm(gather_positions(x, masked_positions), self.embeddings.word.weight)
        return predicted, self.next_sentence(paddle.tanh(self.pooler(x[:, 0])))


def gather_positions(x, positions):
    """Return the vectors of x, (B, S, H), at `positions`, (B, P), as rows of a matrix, (B · P, H).

    There are B sequences of S tokens with H features; each row of `positions` has P indices of tokens.
    """
    sequences, tokens, _ = x.shape
    first = paddle.arange(0, sequences * tokens, tokens).unsqueeze(1)
    return paddle.index_select(x.flatten(0, 1), (first + positions).flatten())


class BertBaseTrainer(PaddleTrainer):
    """The trainer of BERT-Base: predicts masked words, and whether a sequence's second part follows the first."""

    def build(self, options):
        """Return a new `Bert`, an `nn.Layer`; its weights are not the canonical ones yet.

        `options` is a dict of the model's options, of which the sizes are read; the rate of dropout is an argument of a
        call.
        """
        return Bert(
            words=options["vocabulary_size"],
            hidden=options["hidden_size"],
            heads=options["heads"],
            intermediate=options["intermediate_size"],
            layers=options["layers"],
        )

    def outputs(self, network, batch):
        """Return the network's logits for a micro-batch: a pair, of words (B · P, V), and of the next sentence (B, 2).

        There are B sequences with P predictions each, and V word pieces. `network` is what `build` returned, or what
        DataParallel or the compiler made of it. `batch` is a dict from input name to tensor, on the device.
        """
        return network(
            batch["input_ids"],
            batch["segment_ids"],
            batch["attention_mask"],
            batch["masked_positions"],
            self.dropout,
        )

    def loss(self, outputs, batch):
        """Return the sum of the losses of both heads for a micro-batch: a float32 scalar.

        The words' loss is the mean of -log p[`masked_ids`], weighted by `masked_weights`, which is 0 for unused
        predictions; both are (B, P). The next sentence's loss is the mean of -log p[`next_sentence_label`], (B,).
        `outputs` is the pair of logits, (B · P, V) and (B, 2), for B sequences with P predictions each and V word
        pieces. `batch` is a dict from input name to tensor, on the device.
        """
        words, follows = (logits.astype("float32") for logits in outputs)
        weights = batch["masked_weights"].flatten()
        per_token = F.cross_entropy(words, batch["masked_ids"].flatten(), reduction="none").flatten()
        masked = (weights * per_token).sum() / weights.sum()
        return masked + F.cross_entropy(follows, batch["next_sentence_label"])
