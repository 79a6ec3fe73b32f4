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
"""Added to a score whose key gets no attention: its exponential is zero."""


class Embeddings(nn.Module):
    """Words, positions and segments, summed."""

    def __init__(self, words, hidden, dropout):
        super().__init__()
        self.word = nn.Embedding(words, hidden)
        self.position = nn.Embedding(POSITIONS, hidden)
        self.segment = nn.Embedding(SEGMENTS, hidden)
        self.norm = nn.LayerNorm(hidden, eps=LAYER_NORM_EPSILON)
        self.dropout = nn.Dropout(dropout)

    def forward(self, input_ids, segment_ids):
        """Embed token and segment ids: (B, S), (B, S) → (B, S, H)."""
        position = self.position.weight[: input_ids.shape[1]]
        return self.dropout(self.norm(self.word(input_ids) + position + self.segment(segment_ids)))


class Attention(nn.Module):
    """Every token looks at every token, in several heads; then the residual sum and its norm."""

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
        """Apply self-attention to x, (B, S, H), with the mask (B, 1, 1, S) added to the scores: → (B, S, H)."""
        query, key, value = (
            projection(x).reshape(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)
            for projection in (self.query, self.key, self.value)
        )
        scores = flow.matmul(query * self.scale, key.transpose(-2, -1)) + mask
        context = flow.matmul(self.attention_dropout(F.softmax(scores, dim=-1)), value)
        context = context.transpose(1, 2).flatten(-2)
        return self.norm(x + self.dropout(self.output(context)))


class Layer(nn.Module):
    """Attention, then the feed-forward block."""

    def __init__(self, hidden, heads, intermediate, dropout):
        super().__init__()
        self.attention = Attention(hidden, heads, dropout)
        self.intermediate = nn.Linear(hidden, intermediate)
        self.output = nn.Linear(intermediate, hidden)
        self.norm = nn.LayerNorm(hidden, eps=LAYER_NORM_EPSILON)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask):
        """Apply attention and feed-forward to x, with the mask of the scores: (B, S, H) → (B, S, H)."""
        x = self.attention(x, mask)
        return self.norm(x + self.dropout(self.output(F.gelu(self.intermediate(x)))))


class MaskedLM(nn.Module):
    """Head for masked language modelling; the decoder's weight is the word embeddings'."""

    def __init__(self, words, hidden):
        super().__init__()
        self.transform = nn.Linear(hidden, hidden)
        self.norm = nn.LayerNorm(hidden, eps=LAYER_NORM_EPSILON)
        self.bias = nn.Parameter(flow.zeros(words))

    def forward(self, x, word_embeddings):
        """Return the logits of masked words: x (B · P, H), embeddings (V, H) → (B · P, V)."""
        return F.linear(self.norm(F.gelu(self.transform(x))), word_embeddings, self.bias)


class Bert(nn.Module):
    """Embeddings, the encoder, and the two heads of pre-training."""

    def __init__(self, words, hidden, heads, intermediate, layers, dropout):
        super().__init__()
        self.embeddings = Embeddings(words, hidden, dropout)
        self.encoder = nn.ModuleList(Layer(hidden, heads, intermediate, dropout) for _ in range(layers))
        self.pooler = nn.Linear(hidden, hidden)
        self.next_sentence = nn.Linear(hidden, 2)
        self.masked_lm = MaskedLM(words, hidden)

    def forward(self, input_ids, segment_ids, attention_mask, masked_positions):
        """Return the logits of words, (B · P, V), and of the next sentence, (B, 2).

        The first three inputs are (B, S); `masked_positions` is (B, P).
        """
        x = self.embeddings(input_ids, segment_ids)
        mask = additive(attention_mask)
        for layer in self.encoder:
            x = layer(x, mask)
        predicted = self.masked_lm(gather_positions(x, masked_positions), self.embeddings.word.weight)
        return predicted, self.next_sentence(flow.tanh(self.pooler(x[:, 0])))


def additive(attention_mask):
    """Return 0 for keys that get attention, NO_ATTENTION for the others: (B, S) → (B, 1, 1, S)."""
    return ((1 - attention_mask) * NO_ATTENTION)[:, None, None, :]


def gather_positions(x, positions):
    """Gather the tokens at these positions of each sequence: (B, S, H), (B, P) → (B · P, H)."""
    index = positions.unsqueeze(-1).expand(-1, -1, x.shape[-1])
    return flow.gather(x, 1, index).flatten(0, 1)


class BertBaseTrainer(OneFlowTrainer):
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
        )

    def outputs(self, network, batch):
        """Return the network's logits of words, (B · P, V), and of the next sentence, (B, 2), for a micro-batch."""
        return network(
            batch["input_ids"], batch["segment_ids"], batch["attention_mask"], batch["masked_positions"]
        )

    def loss(self, outputs, batch):
        """Return the mean of -log p over the predictions in use, plus that over the next-sentence labels: a scalar.

        `outputs` are the logits (B · P, V) and (B, 2); `batch` has the labels and weights.
        """
        words, follows = outputs
        # A row for each replica whose predictions are in this batch: they are not all in use on each as often.
        weights = batch["masked_weights"].reshape(self.replicas, -1)
        per_word = negative_log_likelihood(words, batch["masked_ids"].flatten()).reshape(self.replicas, -1)
        masked = ((weights * per_word).sum(dim=1) / weights.sum(dim=1)).mean()
        return masked + negative_log_likelihood(follows, batch["next_sentence_label"]).mean()
