"""BERT-Base pre-training in OneFlow: Devlin et al. 2019, masked language model and next sentence prediction.

What is computed is laid down in `dlperf_sdk.models.bert_base`; the names are the manifest's. Letters in
shapes: B sequences, S tokens, P predictions, H the hidden size, V word pieces.
"""

import oneflow as flow
import oneflow.nn.functional as F
from oneflow import nn

from dlperf_oneflow.worker.arithmetic import negative_log_likelihood
from dlperf_oneflow.worker.training import OneFlowTrainer
from dlperf_sdk.worker.architectures import LAYER_NORM_EPSILON, POSITIONS, SEGMENTS

NO_ATTENTION = -1e30
"""Addend of the score of a key that gets no attention; the exponential of such a score is 0."""


class Embeddings(nn.Module):
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
        self.norm = nn.LayerNorm(hidden, eps=LAYER_NORM_EPSILON)
        self.dropout = nn.Dropout(dropout)

    def forward(self, input_ids, segment_ids):
        """Return the embeddings, (B, S, H), of the word pieces `input_ids` and the segments `segment_ids`, both (B, S).

        There are B sequences of S tokens, and H features.
        """
        position = self.position.weight[: input_ids.shape[1]]
        return self.dropout(self.norm(self.word(input_ids) + position + self.segment(segment_ids)))


class Attention(nn.Module):
    """Self-attention with several heads, then dropout, the residual sum and layer norm.

    Args:
        hidden: Number of features.
        heads: Number of heads, which divides `hidden`.
        dropout: Rate of dropout.
    """

    def __init__(self, hidden, heads, dropout):
        super().__init__()
        self.heads, self.scale = heads, (hidden // heads) ** -0.5
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, hidden)
        self.output = nn.Linear(hidden, hidden)
        self.norm = nn.LayerNorm(hidden, eps=LAYER_NORM_EPSILON)
        self.attention_dropout = nn.Dropout(dropout)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask):
        """Return the block's output, (B, S, H), for x, (B, S, H): B sequences of S tokens with H features.

        `mask`, (B, 1, 1, S), is added to the scores: 0 for keys that get attention, -1e30 for the others.
        """
        query, key, value = (
            projection(x).reshape(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)
            for projection in (self.query, self.key, self.value)
        )
        scores = flow.matmul(query * self.scale, key.transpose(-2, -1)) + mask
        context = flow.matmul(self.attention_dropout(F.softmax(scores, dim=-1)), value)
        context = context.transpose(1, 2).flatten(-2)
        return self.norm(x + self.dropout(self.output(context)))


class Layer(nn.Module):
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
        self.intermediate = nn.Linear(hidden, intermediate)
        self.output = nn.Linear(intermediate, hidden)
        self.norm = nn.LayerNorm(hidden, eps=LAYER_NORM_EPSILON)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask):
        """Return the layer's output, (B, S, H), for x, (B, S, H): B sequences of S tokens with H features.

        `mask`, (B, 1, 1, S), is added to the scores: 0 for keys that get attention, -1e30 for the others.
        """
        x = self.attention(x, mask)
        return self.norm(x + self.dropout(self.output(F.gelu(self.intermediate(x)))))


class MaskedLM(nn.Module):
    """The head for masked language modelling: a linear layer, GELU, layer norm, and the decoder.

    The decoder's weight is that of the word embeddings.

    Args:
        words: Number of word pieces.
        hidden: Number of features.
    """

    def __init__(self, words, hidden):
        super().__init__()
        self.transform = nn.Linear(hidden, hidden)
        self.norm = nn.LayerNorm(hidden, eps=LAYER_NORM_EPSILON)
        self.bias = nn.Parameter(flow.zeros(words))

    def forward(self, x, word_embeddings):
        """Return the logits of words, (B · P, V), for x, (B · P, H), the encoder's output at the masked positions.

        There are B sequences with P predictions each, H features, and V word pieces. `word_embeddings` is (V, H).
        """
        return F.linear(self.norm(F.gelu(self.transform(x))), word_embeddings, self.bias)


class Bert(nn.Module):
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
        self.encoder = nn.ModuleList(Layer(hidden, heads, intermediate, dropout) for _ in range(layers))
        self.pooler = nn.Linear(hidden, hidden)
        self.next_sentence = nn.Linear(hidden, 2)
        self.masked_lm = MaskedLM(words, hidden)

    def forward(self, input_ids, segment_ids, attention_mask, masked_positions):
        """Return a pair of logits: of words, (B · P, V), and of the next sentence, (B, 2).

        There are B sequences of S tokens with P predictions each, and V word pieces. `input_ids`, `segment_ids` and
        `attention_mask` (1 for tokens, 0 for padding) are (B, S). `masked_positions`, (B, P), has the positions of the
        masked words in the sequence.
        """
        x = self.embeddings(input_ids, segment_ids)
        mask = additive(attention_mask)
        for layer in self.encoder:
            x = layer(x, mask)
        predicted = self.masked_lm(gather_positions(x, masked_positions), self.embeddings.word.weight)
        return predicted, self.next_sentence(flow.tanh(self.pooler(x[:, 0])))


def additive(attention_mask):
    """Return the mask to add to attention scores, (B, 1, 1, S): 0 for tokens, -1e30 for padding.

    `attention_mask`, (B, S), is 1 for tokens and 0 for padding, in B sequences of S tokens.
    """
    return ((1 - attention_mask) * NO_ATTENTION)[:, None, None, :]


def gather_positions(x, positions):
    """Return the vectors of x, (B, S, H), at `positions`, (B, P), as rows of a matrix, (B · P, H).

    There are B sequences of S tokens with H features; each row of `positions` has P indices of tokens.
    """
    index = positions.unsqueeze(-1).expand(-1, -1, x.shape[-1])
    return flow.gather(x, 1, index).flatten(0, 1)


class BertBaseTrainer(OneFlowTrainer):
    """The trainer of BERT-Base: predicts masked words, and whether a sequence's second part follows the first."""

    def build(self, options):
        """Return a new `Bert`, an `nn.Module`; its weights are not the canonical ones yet.

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

        There are B sequences with P predictions each, and V word pieces. `network` is what `build` returned, or what
        DistributedDataParallel made of it. `batch` is a dict from input name to tensor, on the device.
        """
        return network(
            batch["input_ids"], batch["segment_ids"], batch["attention_mask"], batch["masked_positions"]
        )

    def loss(self, outputs, batch):
        """Return the sum of the losses of both heads for a micro-batch: a float32 scalar.

        The words' loss is the mean of -log p[`masked_ids`], weighted by `masked_weights`, which is 0 for unused
        predictions; both are (B, P). The next sentence's loss is the mean of -log p[`next_sentence_label`], (B,).
        `outputs` is the pair of logits, (B · P, V) and (B, 2), for B sequences with P predictions each and V word
        pieces. `batch` is a dict from input name to tensor, on the device. If the batch holds the samples of several
        replicas (`self.replicas` > 1), the result is the mean of the replicas' losses.
        """
        words, follows = outputs
        # A row for each replica whose predictions are in this batch: they are not all in use on each as often.
        weights = batch["masked_weights"].reshape(self.replicas, -1)
        per_word = negative_log_likelihood(words, batch["masked_ids"].flatten()).reshape(self.replicas, -1)
        masked = ((weights * per_word).sum(dim=1) / weights.sum(dim=1)).mean()
        return masked + negative_log_likelihood(follows, batch["next_sentence_label"]).mean()
