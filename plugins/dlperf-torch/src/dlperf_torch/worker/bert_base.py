"""BERT-Base pre-training in torch: Devlin et al. 2019, masked language model and next sentence prediction.

What is computed is laid down in `dlperf_sdk.models.bert_base`; the names are the manifest's. Letters in
shapes: B sequences, S tokens, P predictions, H the hidden size, V word pieces.
"""

import torch
import torch.nn.functional as F
from torch import nn

from dlperf_sdk.worker.architectures import LAYER_NORM_EPSILON, POSITIONS, SEGMENTS
from dlperf_torch.worker import levers
from dlperf_torch.worker.training import TorchTrainer


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

    def __init__(self, hidden, heads, dropout, packed):
        super().__init__()
        self.heads, self.packed = heads, packed
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, hidden)
        self.output = nn.Linear(hidden, hidden)
        self.norm = nn.LayerNorm(hidden, eps=LAYER_NORM_EPSILON)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask):
        """Apply self-attention to x, (B, S, H), with the mask (B, 1, 1, S) added to the scores: → (B, S, H)."""
        layers = (self.query, self.key, self.value)
        projected = levers.apply_packed(x, layers) if self.packed else [layer(x) for layer in layers]
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in projected)
        dropout = self.dropout.p if self.training else 0.0
        context = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)
        context = context.transpose(1, 2).flatten(-2)
        return self.norm(x + self.dropout(self.output(context)))


class Layer(nn.Module):
    """Attention, then the feed-forward block."""

    def __init__(self, hidden, heads, intermediate, dropout, packed):
        super().__init__()
        self.attention = Attention(hidden, heads, dropout, packed)
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

    def __init__(self, words, hidden, multiple):
        super().__init__()
        self.multiple = multiple
        self.transform = nn.Linear(hidden, hidden)
        self.norm = nn.LayerNorm(hidden, eps=LAYER_NORM_EPSILON)
        self.bias = nn.Parameter(torch.zeros(words))

    def forward(self, x, word_embeddings):
        """Return the logits of masked words: x (B · P, H), embeddings (V, H) → (B · P, V)."""
        x = self.norm(F.gelu(self.transform(x)))
        return levers.apply_padded_linear(x, word_embeddings, self.bias, self.multiple)


class Bert(nn.Module):
    """Embeddings, the encoder, and the two heads of pre-training."""

    def __init__(self, words, hidden, heads, intermediate, layers, dropout, packed_qkv=False, multiple=1):
        super().__init__()
        self.embeddings = Embeddings(words, hidden, dropout)
        self.encoder = nn.ModuleList(
            Layer(hidden, heads, intermediate, dropout, packed_qkv) for _ in range(layers)
        )
        self.pooler = nn.Linear(hidden, hidden)
        self.next_sentence = nn.Linear(hidden, 2)
        self.masked_lm = MaskedLM(words, hidden, multiple)

    def forward(self, input_ids, segment_ids, attention_mask, masked_positions):
        """Return the logits of words, (B · P, V), and of the next sentence, (B, 2).

        The first three inputs are (B, S); `masked_positions` is (B, P).
        """
        x = self.embeddings(input_ids, segment_ids)
        mask = additive(attention_mask, x)
        for layer in self.encoder:
            x = layer(x, mask)
        predicted = self.masked_lm(gather_positions(x, masked_positions), self.embeddings.word.weight)
        return predicted, self.next_sentence(torch.tanh(self.pooler(x[:, 0])))


def additive(attention_mask, x):
    """Return 0 for keys that get attention, -∞ for the others: (B, S) → (B, 1, 1, S), in the scores' type.

    Made once: given as whole numbers, or in another type than the queries, every layer would convert them.
    """
    device = x.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype
    mask = torch.zeros(attention_mask.shape, dtype=dtype, device=x.device)
    return mask.masked_fill(attention_mask == 0, float("-inf"))[:, None, None, :]


def gather_positions(x, positions):
    """Gather the tokens at these positions of each sequence: (B, S, H), (B, P) → (B · P, H)."""
    sequences, tokens, _ = x.shape
    first = torch.arange(0, sequences * tokens, tokens, device=x.device)[:, None]
    return x.flatten(0, 1).index_select(0, (first + positions).flatten())


class BertBaseTrainer(TorchTrainer):
    """Sequences to the words that were masked, and whether their second part follows the first."""

    def build(self, options):
        """Return the BERT network with the sizes of the model's options, after a trial of the chosen attention.

        Raises:
            Unsupported: The attention does not run on the device with these sizes.
        """
        chosen = self.request.framework_options
        levers.probe_attention(
            chosen["attention"],
            self.device,
            self.precision.products,
            options["heads"],
            options["sequence_length"],
            options["hidden_size"] // options["heads"],
            options["dropout"],
        )
        return Bert(
            words=options["vocabulary_size"],
            hidden=options["hidden_size"],
            heads=options["heads"],
            intermediate=options["intermediate_size"],
            layers=options["layers"],
            dropout=options["dropout"],
            packed_qkv=chosen["packed_qkv"],
            multiple=chosen["vocabulary_multiple"],
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
        weights = batch["masked_weights"].flatten()
        per_token = F.cross_entropy(words, batch["masked_ids"].flatten(), reduction="none")
        masked = (weights * per_token).sum() / weights.sum()
        return masked + F.cross_entropy(follows, batch["next_sentence_label"])
