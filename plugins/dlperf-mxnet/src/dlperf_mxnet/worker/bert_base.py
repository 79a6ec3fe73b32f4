"""BERT-Base pre-training in MXNet: Devlin et al. 2019, masked language model and next sentence prediction.

What is computed is laid down in `dlperf_sdk.models.bert_base`; the names are the manifest's. Letters in
shapes: B sequences, S tokens, P predictions, H the hidden size, D the size of a head, V word pieces.
"""

from mxnet.gluon import HybridBlock, nn

from dlperf_mxnet.worker.arithmetic import negative_log_softmax
from dlperf_mxnet.worker.training import MXNetTrainer
from dlperf_sdk.worker.architectures import LAYER_NORM_EPSILON, POSITIONS, SEGMENTS

NO_ATTENTION = -1e30
"""Addend of the score of a key that gets no attention; the exponential of such a score is 0."""


def linear(inputs, outputs):
    """Return gluon's block for a linear layer, x · Wᵀ + b over the last axis, from `inputs` to `outputs` features."""
    return nn.Dense(outputs, in_units=inputs, flatten=False)


def norm(hidden):
    """Return gluon's block for a layer norm of inputs with `hidden` features in the last axis."""
    return nn.LayerNorm(epsilon=LAYER_NORM_EPSILON, in_channels=hidden)


class Embeddings(HybridBlock):
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
        self.norm = norm(hidden)
        self.dropout = nn.Dropout(dropout)

    def hybrid_forward(self, F, input_ids, segment_ids):
        """Return the embeddings, (B, S, H), of the word pieces `input_ids` and the segments `segment_ids`, both (B, S).

        There are B sequences of S tokens, and H features. `F` is MXNet's module of operators: `mx.nd` for arrays,
        `mx.sym` for symbols.
        """
        position = self.position(F.contrib.arange_like(input_ids, axis=1)).expand_dims(0)
        x = F.broadcast_add(self.word(input_ids) + self.segment(segment_ids), position)
        return self.dropout(self.norm(x))


class Attention(HybridBlock):
    """Self-attention with several heads, then dropout, the residual sum and layer norm.

    Args:
        hidden: Number of features.
        heads: Number of heads, which divides `hidden`.
        dropout: Rate of dropout.
    """

    def __init__(self, hidden, heads, dropout):
        super().__init__()
        self.heads, self.scale = heads, (hidden // heads) ** -0.5
        self.query = linear(hidden, hidden)
        self.key = linear(hidden, hidden)
        self.value = linear(hidden, hidden)
        self.output = linear(hidden, hidden)
        self.norm = norm(hidden)
        self.attention_dropout = nn.Dropout(dropout)
        self.dropout = nn.Dropout(dropout)

    def hybrid_forward(self, F, x, mask):
        """Return the block's output, (B, S, H), for x, (B, S, H): B sequences of S tokens with H features.

        `mask`, (B, 1, 1, S), is added to the scores: 0 for keys that get attention, -1e30 for the others. `F` is
        MXNet's module of operators: `mx.nd` for arrays, `mx.sym` for symbols.
        """
        query, key, value = (self.split(projection(x)) for projection in (self.query, self.key, self.value))
        scores = F.batch_dot(query * self.scale, key, transpose_b=True)
        scores = F.broadcast_add(F.reshape(scores, (-4, -1, self.heads, -2)), mask)
        attention = F.reshape(self.attention_dropout(F.softmax(scores)), (-3, -2))
        context = F.batch_dot(attention, value)
        context = F.reshape(context, (-4, -1, self.heads, -2)).transpose((0, 2, 1, 3)).reshape((0, 0, -3))
        return self.norm(x + self.dropout(self.output(context)))

    def split(self, x):
        """Return x with its heads as separate sequences: (B, S, H) → (B · heads, S, H / heads).

        There are B sequences of S tokens with H features.
        """
        return x.reshape((0, 0, self.heads, -1)).transpose((0, 2, 1, 3)).reshape((-3, -2))


class Layer(HybridBlock):
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
        self.intermediate = linear(hidden, intermediate)
        self.gelu = nn.GELU()
        self.output = linear(intermediate, hidden)
        self.norm = norm(hidden)
        self.dropout = nn.Dropout(dropout)

    def hybrid_forward(self, F, x, mask):
        """Return the layer's output, (B, S, H), for x, (B, S, H): B sequences of S tokens with H features.

        `mask`, (B, 1, 1, S), is added to the scores: 0 for keys that get attention, -1e30 for the others. `F` is
        MXNet's module of operators: `mx.nd` for arrays, `mx.sym` for symbols.
        """
        x = self.attention(x, mask)
        return self.norm(x + self.dropout(self.output(self.gelu(self.intermediate(x)))))


class MaskedLM(HybridBlock):
    """The head for masked language modelling: a linear layer, GELU, layer norm, and the decoder.

    Args:
        words: Number of word pieces.
        hidden: Number of features.
        word_embeddings: gluon's parameter of the word embeddings, which is the decoder's weight.
    """

    def __init__(self, words, hidden, word_embeddings):
        super().__init__()
        self.words = words
        self.transform = linear(hidden, hidden)
        self.gelu = nn.GELU()
        self.norm = norm(hidden)
        self.decoder = word_embeddings
        self.bias = self.params.get("bias", shape=(words,), init="zeros")

    def hybrid_forward(self, F, x, decoder, bias):
        """Return the logits of words, (B · P, V), for x, (B · P, H), where H is the number of features.

        There are B sequences with P predictions each, and V word pieces. gluon passes `decoder`, the weight (V, H) of
        the last layer, and `bias`, (V,), the bias of that layer. `F` is MXNet's module of operators: `mx.nd` for
        arrays, `mx.sym` for symbols.
        """
        return F.FullyConnected(self.norm(self.gelu(self.transform(x))), decoder, bias, num_hidden=self.words)


class Bert(HybridBlock):
    """BERT: the embeddings, the encoder, and the two heads of pre-training.

    Args:
        words: Number of word pieces.
        hidden: Number of features.
        heads: Number of heads, which divides `hidden`.
        intermediate: Number of features between the two linear layers of the feed-forward block.
        layers: Number of layers of the encoder.
        dropout: Rate of dropout.
        tokens: Sequence length.
    """

    def __init__(self, words, hidden, heads, intermediate, layers, dropout, tokens):
        super().__init__()
        self.tokens, self.dtype = tokens, "float32"
        self.embeddings = Embeddings(words, hidden, dropout)
        self.encoder = nn.HybridSequential()
        for _ in range(layers):
            self.encoder.add(Layer(hidden, heads, intermediate, dropout))
        self.pooler = nn.Dense(hidden, activation="tanh", in_units=hidden)
        self.next_sentence = nn.Dense(2, in_units=hidden)
        self.masked_lm = MaskedLM(words, hidden, self.embeddings.word.weight)

    def hybrid_forward(self, F, input_ids, segment_ids, attention_mask, masked_positions):
        """Return a pair of logits: of words, (B · P, V), and of the next sentence, (B, 2).

        There are B sequences of S tokens with P predictions each, and V word pieces. `input_ids`, `segment_ids` and
        `attention_mask` (1 for tokens, 0 for padding) are (B, S). `masked_positions`, (B, P), has the positions of the
        masked words in the sequence. `F` is MXNet's module of operators: `mx.nd` for arrays, `mx.sym` for symbols.
        """
        x = self.embeddings(input_ids, segment_ids)
        mask = ((1 - attention_mask) * NO_ATTENTION).expand_dims(1).expand_dims(1)
        mask = mask if self.dtype == "float32" else F.cast(mask, dtype=self.dtype)
        for layer in self.encoder:
            x = layer(x, mask)
        predicted = self.masked_lm(self.gather_positions(F, x, masked_positions))
        first = F.slice_axis(x, axis=1, begin=0, end=1).reshape((0, -1))
        return predicted, self.next_sentence(self.pooler(first))

    def cast(self, dtype):
        """Set the type of all parameters, and of the activations, to `dtype`, the name of a type such as `float16`."""
        super().cast(dtype)
        self.dtype = dtype

    def gather_positions(self, F, x, positions):
        """Return the vectors of x, (B, S, H), at `positions`, (B, P), as rows of a matrix, (B · P, H).

        There are B sequences of S tokens with H features; each row of `positions` has P indices of tokens. `F` is
        MXNet's module of operators: `mx.nd` for arrays, `mx.sym` for symbols.
        """
        first = F.contrib.arange_like(positions, axis=0, step=self.tokens).expand_dims(1)
        return F.take(x.reshape((-3, 0)), F.broadcast_add(positions, first).reshape((-1,)))


class Loss(HybridBlock):
    """The sum of the losses of both heads, as a block."""

    def hybrid_forward(self, F, words, follows, masked_ids, masked_weights, next_sentence_label):
        """Return the sum of the losses of both heads for a micro-batch: an array or a symbol (1,).

        B is the number of sequences, P the number of masked positions per sequence, V the size of the vocabulary.
        `words`, (B · P, V), and `follows`, (B, 2), are the logits of masked words and of the next sentence.
        `masked_ids`, (B, P), are the indices of the words, and `masked_weights`, (B, P), their weights, 0 for unused
        predictions; `next_sentence_label`, (B,), is 0 or 1. `F` is MXNet's module of operators: `mx.nd` for arrays,
        `mx.sym` for symbols.
        """
        weights = masked_weights.reshape((-1,))
        per_token = F.pick(negative_log_softmax(F, words), masked_ids.reshape((-1,)))
        masked = (weights * per_token).sum() / weights.sum()
        return masked + F.pick(negative_log_softmax(F, follows), next_sentence_label).mean()


class BertBaseTrainer(MXNetTrainer):
    """The trainer of BERT-Base: predicts masked words, and whether a sequence's second part follows the first."""

    def build(self, options):
        """Return a `Bert`, a hybrid block of gluon that is not initialized yet.

        `options` is a dict of the model's options, of which the sizes and `dropout` are read.
        """
        return Bert(
            words=options["vocabulary_size"],
            hidden=options["hidden_size"],
            heads=options["heads"],
            intermediate=options["intermediate_size"],
            layers=options["layers"],
            dropout=options["dropout"],
            tokens=options["sequence_length"],
        )

    def build_criterion(self, options):
        """Return a `Loss`, a hybrid block that computes the sum of the losses of both heads; `options` is not used."""
        return Loss()

    def outputs(self, network, batch):
        """Return the network's logits for a micro-batch: a pair, of words (B · P, V), and of the next sentence (B, 2).

        There are B sequences with P predictions each, and V word pieces. `network` is what `build` returned. `batch` is
        a dict from input name to array, on the device.
        """
        return network(
            batch["input_ids"], batch["segment_ids"], batch["attention_mask"], batch["masked_positions"]
        )

    def loss(self, outputs, batch):
        """Return the sum of the losses of both heads: an array (1,).

        The words' loss is the mean of -log p[`masked_ids`], weighted by `masked_weights`, which is 0 for unused
        predictions; both are (B, P). The next sentence's loss is the mean of -log p[`next_sentence_label`], (B,).
        `outputs` is the pair of logits, (B · P, V) and (B, 2), for B sequences with P predictions each and V word
        pieces. `batch` is a dict from input name to array, on the device.
        """
        return self.criterion(
            *outputs, batch["masked_ids"], batch["masked_weights"], batch["next_sentence_label"]
        )
