"""BERT-Base pre-training in torch: Devlin et al. 2019, masked language model and next sentence prediction.

What is computed is laid down in `dlperf_sdk.models.bert_base`; the names are the manifest's. Letters in
shapes: B sequences, S tokens, P predictions, H the hidden size, V word pieces.
"""

import torch
import torch.nn.functional as F
from torch import nn

from dlperf_sdk.worker.architectures import LAYER_NORM_EPSILON, POSITIONS, SEGMENTS
from dlperf_sdk.worker.unsupported import Unsupported
from dlperf_torch.worker import levers
from dlperf_torch.worker.training import TorchTrainer


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
        packed: True to compute query, key and value by one matrix product.
    """

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
        """Return the block's output, (B, S, H), for x, (B, S, H): B sequences of S tokens with H features.

        `mask`, (B, 1, 1, S), is added to the scores: 0 for keys that get attention, -∞ for the others.
        """
        layers = (self.query, self.key, self.value)
        projected = levers.apply_packed(x, layers) if self.packed else [layer(x) for layer in layers]
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in projected)
        dropout = self.dropout.p if self.training else 0.0
        context = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)
        context = context.transpose(1, 2).flatten(-2)
        return self.norm(x + self.dropout(self.output(context)))


class Layer(nn.Module):
    """One layer of the encoder: attention, then the feed-forward block with its residual sum and layer norm.

    Args:
        hidden: Number of features.
        heads: Number of heads, which divides `hidden`.
        intermediate: Number of features between the two linear layers of the feed-forward block.
        dropout: Rate of dropout.
        packed: True to compute query, key and value by one matrix product.
    """

    def __init__(self, hidden, heads, intermediate, dropout, packed):
        super().__init__()
        self.attention = Attention(hidden, heads, dropout, packed)
        self.intermediate = nn.Linear(hidden, intermediate)
        self.output = nn.Linear(intermediate, hidden)
        self.norm = nn.LayerNorm(hidden, eps=LAYER_NORM_EPSILON)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask):
        """Return the layer's output, (B, S, H), for x, (B, S, H): B sequences of S tokens with H features.

        `mask`, (B, 1, 1, S), is added to the scores: 0 for keys that get attention, -∞ for the others.
        """
        x = self.attention(x, mask)
        return self.norm(x + self.dropout(self.output(F.gelu(self.intermediate(x)))))


class MaskedLM(nn.Module):
    """The head for masked language modelling: a linear layer, GELU, layer norm, and the decoder.

    The decoder's weight is that of the word embeddings.

    Args:
        words: Number of word pieces.
        hidden: Number of features.
        multiple: The number of logits is rounded up to a multiple of this for the computation; the extra ones are cut
            off.
    """

    def __init__(self, words, hidden, multiple):
        super().__init__()
        self.multiple = multiple
        self.transform = nn.Linear(hidden, hidden)
        self.norm = nn.LayerNorm(hidden, eps=LAYER_NORM_EPSILON)
        self.bias = nn.Parameter(torch.zeros(words))

    def forward(self, x, word_embeddings):
        """Return the logits of words, (B · P, V), for x, (B · P, H), the encoder's output at the masked positions.

        There are B sequences with P predictions each, H features, and V word pieces. `word_embeddings` is (V, H).
        """
        x = self.norm(F.gelu(self.transform(x)))
        return levers.apply_padded_linear(x, word_embeddings, self.bias, self.multiple)


class Bert(nn.Module):
    """BERT: the embeddings, the encoder, and the two heads of pre-training.

    Args:
        words: Number of word pieces.
        hidden: Number of features.
        heads: Number of heads, which divides `hidden`.
        intermediate: Number of features between the two linear layers of the feed-forward block.
        layers: Number of layers of the encoder.
        dropout: Rate of dropout.
        packed_qkv: True to compute query, key and value by one matrix product.
        multiple: The number of word logits is rounded up to a multiple of this for the computation.
    """

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
        """Return a pair of logits: of words, (B · P, V), and of the next sentence, (B, 2).

        There are B sequences of S tokens with P predictions each, and V word pieces. `input_ids`, `segment_ids` and
        `attention_mask` (1 for tokens, 0 for padding) are (B, S). `masked_positions`, (B, P), has the positions of the
        masked words in the sequence.
        """
        x = self.encode(self.embeddings(input_ids, segment_ids), attention_mask)
        predicted = self.masked_lm(gather_positions(x, masked_positions), self.embeddings.word.weight)
        return predicted, self.next_sentence(torch.tanh(self.pooler(x[:, 0])))

    def encode(self, x, attention_mask):
        """Return the encoder's output, (B, S, H), for the embeddings x, (B, S, H).

        There are B sequences of S tokens with H features. `attention_mask`, (B, S), is 1 for tokens and 0 for padding.
        """
        mask = additive(attention_mask, x)
        for layer in self.encoder:
            x = layer(x, mask)
        return x


def additive(attention_mask, x):
    """Return the mask to add to attention scores, (B, 1, 1, S): 0 where `attention_mask` is not 0, else -∞.

    `attention_mask` is (B, S), for B sequences of S tokens. `x` is the tensor that enters the encoder: the mask is on
    its device, in its `compute_type`, so that no layer has to convert the mask.
    """
    mask = torch.zeros(attention_mask.shape, dtype=compute_type(x), device=x.device)
    return mask.masked_fill(attention_mask == 0, float("-inf"))[:, None, None, :]


def compute_type(x):
    """Return the `torch.dtype` of matrix products of the tensor x: autocast's if that is active, else x's own."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


def gather_positions(x, positions):
    """Return the vectors of x, (B, S, H), at `positions`, (B, P), as rows of a matrix, (B · P, H).

    There are B sequences of S tokens with H features; each row of `positions` has P indices of tokens.
    """
    sequences, tokens, _ = x.shape
    first = torch.arange(0, sequences * tokens, tokens, device=x.device)[:, None]
    return x.flatten(0, 1).index_select(0, (first + positions).flatten())


def cross_entropy(logits, labels):
    """Return -log softmax(logits)[label] for each of R rows: a tensor (R,), from `logits` (R, V) and `labels` (R,).

    Labels are indices from 0 to V - 1.
    """
    return F.cross_entropy(logits, labels, reduction="none")


class BertBaseTrainer(TorchTrainer):
    """The trainer of BERT-Base: predicts masked words, and whether a sequence's second part follows the first."""

    cross_entropy = staticmethod(cross_entropy)

    def build(self, options):
        """Return a `Bert`, or a `FusedBert` if the plugin's option `fused_layers` is true: an `nn.Module` on the CPU.

        `options` is a dict of the model's options; its sizes and its `dropout` are read. The plugin's option
        `attention` names an implementation of attention. It is tried on the trainer's device, and all others are
        forbidden in this process from now on. For `auto`, `allow_attention` is called instead, and nothing is tried.

        Raises:
            Unsupported: The attention does not run with these sizes, in this precision, on the device; or
                `fused_layers` is true, and the fused kernels do not support the sizes.
        """
        chosen = self.request.framework_options
        levers.probe_attention(
            chosen["attention"],
            self.device,
            self.dtype,
            options["heads"],
            options["sequence_length"],
            options["hidden_size"] // options["heads"],
            options["dropout"],
        )
        return self._network(options)(
            words=options["vocabulary_size"],
            hidden=options["hidden_size"],
            heads=options["heads"],
            intermediate=options["intermediate_size"],
            layers=options["layers"],
            dropout=options["dropout"],
            packed_qkv=chosen["packed_qkv"],
            multiple=chosen["vocabulary_multiple"],
        )

    def _network(self, options):
        """Return the class of the network; for `fused_layers` also set the cross entropy of its logits."""
        if not self.request.framework_options["fused_layers"]:
            return Bert
        # Triton is where the GPUs are, and nowhere else.
        from dlperf_torch.worker.fused_bert import FusedBert
        from dlperf_torch.worker.fused_cross_entropy import cross_entropy

        if (misfit := levers.explain_misfit(options)) is not None:
            raise Unsupported(misfit)
        self.cross_entropy = cross_entropy
        return FusedBert

    def outputs(self, network, batch):
        """Return the network's logits for a micro-batch: a pair, of words (B · P, V), and of the next sentence (B, 2).

        There are B sequences with P predictions each, and V word pieces. `network` is what `build` returned, or what
        DistributedDataParallel or the compiler made of it. `batch` is a dict from input name to tensor, on the device.
        """
        return network(
            batch["input_ids"], batch["segment_ids"], batch["attention_mask"], batch["masked_positions"]
        )

    def widen_outputs(self, outputs):
        """Return the logits of words and of the next sentence, the pair `outputs`, as a list of two float32 tensors.

        With the option `fused_layers`, the logits of words stay as they are: the fused cross entropy accepts their
        type.
        """
        words, follows = outputs
        return [words.float() if self.cross_entropy is cross_entropy else words, follows.float()]

    def loss(self, outputs, batch):
        """Return the sum of the losses of both heads for a micro-batch: a float32 scalar.

        The words' loss is the mean of -log p[`masked_ids`], weighted by `masked_weights`, which is 0 for unused
        predictions; both are (B, P). The next sentence's loss is the mean of -log p[`next_sentence_label`], (B,).
        `outputs` is the pair of logits, (B · P, V) and (B, 2), for B sequences with P predictions each and V word
        pieces. `batch` is a dict from input name to tensor, on the device.
        """
        words, follows = outputs
        weights = batch["masked_weights"].flatten()
        per_token = self.cross_entropy(words, batch["masked_ids"].flatten())
        masked = (weights * per_token).sum() / weights.sum()
        return masked + F.cross_entropy(follows, batch["next_sentence_label"])
