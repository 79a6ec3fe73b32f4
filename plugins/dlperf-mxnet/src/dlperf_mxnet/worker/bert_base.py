"""BERT-Base pre-training in MXNet: Devlin et al. 2019, masked language model and next sentence prediction.

What is computed is laid down in `dlperf_sdk.models.bert_base`; the names are the manifest's. Letters in
shapes: B sequences, S tokens, P predictions, H the hidden size, D the size of a head, V word pieces.
"""

from mxnet.gluon import HybridBlock, nn

from dlperf_mxnet.worker.arithmetic import negative_log_likelihood
from dlperf_mxnet.worker.training import MXNetTrainer
from dlperf_sdk.worker.architectures import LAYER_NORM_EPSILON, POSITIONS, SEGMENTS

NO_ATTENTION = -1e30
"""Added to a score whose key gets no attention: its exponential is zero."""


def linear(inputs, outputs):
    """Return a layer from `inputs` to `outputs` features, for x·Wᵀ + b over the last axis."""
    return nn.Dense(outputs, in_units=inputs, flatten=False)


def norm(hidden):
    """Return a layer norm over the last axis, of `hidden` features."""
    return nn.LayerNorm(epsilon=LAYER_NORM_EPSILON, in_channels=hidden)


class Embeddings(HybridBlock):
    """Words, positions and segments, summed."""

    def __init__(self, words, hidden, dropout):
        super().__init__()
        self.word = nn.Embedding(words, hidden)
        self.position = nn.Embedding(POSITIONS, hidden)
        self.segment = nn.Embedding(SEGMENTS, hidden)
        self.norm = norm(hidden)
        self.dropout = nn.Dropout(dropout)

    def hybrid_forward(self, F, input_ids, segment_ids):
        """Embed token and segment ids: (B, S), (B, S) → (B, S, H)."""
        position = self.position(F.contrib.arange_like(input_ids, axis=1)).expand_dims(0)
        x = F.broadcast_add(self.word(input_ids) + self.segment(segment_ids), position)
        return self.dropout(self.norm(x))


class Attention(HybridBlock):
    """Every token looks at every token, in several heads; then the residual sum and its norm."""

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
        """Apply self-attention to x, (B, S, H), with the mask (B, 1, 1, S) added to the scores: → (B, S, H)."""
        query, key, value = (self.split(projection(x)) for projection in (self.query, self.key, self.value))
        scores = F.batch_dot(query * self.scale, key, transpose_b=True)
        scores = F.broadcast_add(F.reshape(scores, (-4, -1, self.heads, -2)), mask)
        attention = F.reshape(self.attention_dropout(F.softmax(scores)), (-3, -2))
        context = F.batch_dot(attention, value)
        context = F.reshape(context, (-4, -1, self.heads, -2)).transpose((0, 2, 1, 3)).reshape((0, 0, -3))
        return self.norm(x + self.dropout(self.output(context)))

    def split(self, x):
        """Split the heads of x: (B, S, H) → (B · heads, S, D)."""
        return x.reshape((0, 0, self.heads, -1)).transpose((0, 2, 1, 3)).reshape((-3, -2))


class Layer(HybridBlock):
    """Attention, then the feed-forward block."""

    def __init__(self, hidden, heads, intermediate, dropout):
        super().__init__()
        self.attention = Attention(hidden, heads, dropout)
        self.intermediate = linear(hidden, intermediate)
        self.gelu = nn.GELU()
        self.output = linear(intermediate, hidden)
        self.norm = norm(hidden)
        self.dropout = nn.Dropout(dropout)

    def hybrid_forward(self, F, x, mask):
        """Apply attention and feed-forward to x, with the mask of the scores: (B, S, H) → (B, S, H)."""
        x = self.attention(x, mask)
        return self.norm(x + self.dropout(self.output(self.gelu(self.intermediate(x)))))


class MaskedLM(HybridBlock):
    """Head for masked language modelling; the decoder's weight is the word embeddings'."""

    def __init__(self, words, hidden, word_embeddings):
        super().__init__()
        self.words = words
        self.transform = linear(hidden, hidden)
        self.gelu = nn.GELU()
        self.norm = norm(hidden)
        self.decoder = word_embeddings
        self.bias = self.params.get("bias", shape=(words,), init="zeros")

    def hybrid_forward(self, F, x, decoder, bias):
        """Return the logits of masked words: (B · P, H) → (B · P, V), with a decoder of (V, H) and a bias of (V,)."""
        return F.FullyConnected(self.norm(self.gelu(self.transform(x))), decoder, bias, num_hidden=self.words)


class Bert(HybridBlock):
    """Embeddings, the encoder, and the two heads of pre-training."""

    def __init__(self, words, hidden, heads, intermediate, layers, dropout, tokens):
        super().__init__()
        self.tokens = tokens
        self.embeddings = Embeddings(words, hidden, dropout)
        self.encoder = nn.HybridSequential()
        for _ in range(layers):
            self.encoder.add(Layer(hidden, heads, intermediate, dropout))
        self.pooler = nn.Dense(hidden, activation="tanh", in_units=hidden)
        self.next_sentence = nn.Dense(2, in_units=hidden)
        self.masked_lm = MaskedLM(words, hidden, self.embeddings.word.weight)

    def hybrid_forward(self, F, input_ids, segment_ids, attention_mask, masked_positions):
        """Return the logits of words, (B · P, V), and of the next sentence, (B, 2).

        The first three inputs are (B, S); `masked_positions` is (B, P).
        """
        x = self.embeddings(input_ids, segment_ids)
        mask = ((1 - attention_mask) * NO_ATTENTION).expand_dims(1).expand_dims(1)
        for layer in self.encoder:
            x = layer(x, mask)
        predicted = self.masked_lm(self.gather_positions(F, x, masked_positions))
        first = F.slice_axis(x, axis=1, begin=0, end=1).reshape((0, -1))
        return predicted, self.next_sentence(self.pooler(first))

    def gather_positions(self, F, x, positions):
        """Gather the tokens at these positions of each sequence: (B, S, H), (B, P) → (B · P, H)."""
        first = F.contrib.arange_like(positions, axis=0, step=self.tokens).expand_dims(1)
        return F.take(x.reshape((-3, 0)), F.broadcast_add(positions, first).reshape((-1,)))


class Loss(HybridBlock):
    """Return the mean of -log p over the predictions in use, plus its mean over the next-sentence labels."""

    def hybrid_forward(self, F, words, follows, masked_ids, masked_weights, next_sentence_label):
        """Return the sum of both heads' losses, (1,).

        The logits are (B · P, V) and (B, 2); the labels (B, P), their weights (B, P), and (B,).
        """
        weights = masked_weights.reshape((-1,))
        per_token = F.pick(negative_log_likelihood(F, words), masked_ids.reshape((-1,)))
        masked = (weights * per_token).sum() / weights.sum()
        return masked + F.pick(negative_log_likelihood(F, follows), next_sentence_label).mean()


class BertBaseTrainer(MXNetTrainer):
    """Sequences to the words that were masked, and whether their second part follows the first."""

    def build(self, options):
        """Return the BERT network with the sizes of the model's options."""
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
        """Return the sum of both heads' losses."""
        return Loss()

    def outputs(self, network, batch):
        """Return the network's logits of words, (B · P, V), and of the next sentence, (B, 2), for a micro-batch."""
        return network(
            batch["input_ids"], batch["segment_ids"], batch["attention_mask"], batch["masked_positions"]
        )

    def loss(self, outputs, batch):
        """Return the mean loss of the predictions in use plus that of the next-sentence labels, (1,)."""
        return self.criterion(
            *outputs, batch["masked_ids"], batch["masked_weights"], batch["next_sentence_label"]
        )
