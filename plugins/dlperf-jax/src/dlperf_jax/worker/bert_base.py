"""BERT-Base pre-training in JAX: Devlin et al. 2019, masked language model and next sentence prediction.

What is computed is laid down in `dlperf_sdk.models.bert_base`; the names are the manifest's. Every layer computes in
the type of what it is given, but norms and softmax in float32. Letters in shapes: B sequences, S tokens, P
predictions, H the hidden size, V word pieces.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from dlperf_jax.worker.scope import linear
from dlperf_jax.worker.training import JaxTrainer
from dlperf_sdk.worker.architectures import LAYER_NORM_EPSILON

gelu = partial(jax.nn.gelu, approximate=False)


def layer_norm(scope, name, x):
    """Compute the layer norm of x over its last axis in float32, and return it in the type of x.

    `name` is the layer's name in the manifest; `scope`, a `Scope`, holds its weights.

    Raises:
        ManifestError: The manifest has no such layer.
    """
    values = x.astype(jnp.float32)
    centered = values - values.mean(-1, keepdims=True)
    normal = centered * lax.rsqrt(jnp.square(centered).mean(-1, keepdims=True) + LAYER_NORM_EPSILON)
    gamma, beta = (scope[name + end].astype(jnp.float32) for end in (".weight", ".bias"))
    return (normal * gamma + beta).astype(x.dtype)


def embed(scope, input_ids, segment_ids):
    """Return the embeddings, (B, S, H), of `input_ids` and `segment_ids`, integers (B, S).

    For each token, the embeddings of its word, position and segment are added; layer norm and dropout follow. There are
    B sequences of S tokens, and H features. `scope`, a `Scope`, holds the network's weights; the result has the type
    `scope.dtype`.

    Raises:
        ManifestError: The manifest lacks a parameter of the embeddings.
    """
    words, positions, segments = (
        scope["embeddings.%s.weight" % kind] for kind in ("word", "position", "segment")
    )
    x = words[input_ids] + positions[: input_ids.shape[1]] + segments[segment_ids]
    return scope.dropout(layer_norm(scope, "embeddings.norm", x).astype(scope.dtype))


def attention(scope, name, x, mask, heads):
    """Return the output, (B, S, H), of a block of self-attention for x, (B, S, H): B sequences, S tokens, H features.

    After the attention come dropout, the residual sum and layer norm.

    Args:
        scope: The network's weights and its dropout, a `Scope`.
        name: The block's name in the manifest, such as `encoder.0.attention`.
        x: The input.
        mask: Added to the scores, (B, 1, 1, S): 0 for keys that get attention, -∞ for the others.
        heads: Number of heads, which divides H.

    Raises:
        ManifestError: The manifest lacks a parameter of the block.
    """
    query, key, value = (
        linear(scope, "%s.%s" % (name, part), x).reshape(*x.shape[:2], heads, -1)
        for part in ("query", "key", "value")
    )
    scores = jnp.einsum("bqhd,bkhd->bhqk", query * query.shape[-1] ** -0.5, key).astype(jnp.float32)
    shares = scope.dropout(jax.nn.softmax(scores + mask).astype(x.dtype))
    context = jnp.einsum("bhqk,bkhd->bqhd", shares, value).reshape(x.shape)
    return layer_norm(scope, name + ".norm", x + scope.dropout(linear(scope, name + ".output", context)))


def layer(scope, name, x, mask, heads):
    """Return the output, (B, S, H), of an encoder layer for x, (B, S, H): B sequences, S tokens, H features.

    The layer is attention, then the feed-forward block with its residual sum and layer norm.

    Args:
        scope: The network's weights and its dropout, a `Scope`.
        name: The layer's name in the manifest, such as `encoder.0`.
        x: The input.
        mask: Added to the scores, (B, 1, 1, S): 0 for keys that get attention, -∞ for the others.
        heads: Number of heads, which divides H.

    Raises:
        ManifestError: The manifest lacks a parameter of the layer.
    """
    x = attention(scope, name + ".attention", x, mask, heads)
    hidden = gelu(linear(scope, name + ".intermediate", x))
    return layer_norm(scope, name + ".norm", x + scope.dropout(linear(scope, name + ".output", hidden)))


def masked_lm(scope, x):
    """Return the logits of words, (B · P, V), for x, (B · P, H), the encoder's output at the predicted positions.

    The head is a linear layer, GELU, layer norm, and a decoder whose weight is that of the word embeddings. There are B
    sequences with P predictions each, H features, and V word pieces. `scope`, a `Scope`, holds the network's weights.

    Raises:
        ManifestError: The manifest lacks a parameter of the head.
    """
    x = layer_norm(scope, "masked_lm.norm", gelu(linear(scope, "masked_lm.transform", x)))
    words = scope["embeddings.word.weight"].astype(x.dtype)
    return jnp.einsum("ph,vh->pv", x, words) + scope["masked_lm.bias"].astype(x.dtype)


def bert(scope, input_ids, segment_ids, attention_mask, masked_positions, heads, layers):
    """Return a pair of logits: of words, (B · P, V), and of the next sentence, (B, 2).

    There are B sequences of S tokens with P predictions each, and V word pieces.

    Args:
        scope: The network's weights and its dropout, a `Scope`.
        input_ids: Word pieces, (B, S).
        segment_ids: Segments, (B, S).
        attention_mask: 1 for tokens, 0 for padding, (B, S).
        masked_positions: Positions of the masked words in the sequence, (B, P).
        heads: Number of attention heads.
        layers: Number of layers of the encoder.

    Raises:
        ManifestError: The manifest lacks a parameter of the network.
    """
    x = embed(scope, input_ids, segment_ids)
    mask = jnp.where(attention_mask == 0, -jnp.inf, 0.0)[:, None, None, :]
    for i in range(layers):
        x = layer(scope, "encoder.%d" % i, x, mask, heads)
    predicted = jnp.take_along_axis(x, masked_positions[:, :, None], axis=1).reshape(-1, x.shape[-1])
    follows = linear(scope, "next_sentence", jnp.tanh(linear(scope, "pooler", x[:, 0])))
    return masked_lm(scope, predicted), follows


class BertBaseTrainer(JaxTrainer):
    """The trainer of BERT-Base: predicts masked words, and whether a sequence's second part follows the first."""

    def build(self, options):
        """Return the network: the function `bert` with the numbers of heads and layers that `options` gives.

        The network takes a `Scope`, `input_ids`, `segment_ids`, `attention_mask` and `masked_positions`, and returns a
        pair of logits. `options` is a dict of the model's options, of which `heads` and `layers` are read. The weights
        in the scope determine all other sizes.
        """
        return partial(bert, heads=options["heads"], layers=options["layers"])

    def outputs(self, network, batch):
        """Return the network's logits for a micro-batch: a pair, of words (B · P, V), and of the next sentence (B, 2).

        There are B sequences with P predictions each, and V word pieces. `network` is what `build` returned, with the
        first argument, the `Scope`, already bound. `batch` is a dict from input name to array.
        """
        names = ("input_ids", "segment_ids", "attention_mask", "masked_positions")
        return network(*(batch[name] for name in names))

    def loss(self, outputs, batch):
        """Return the sum of the losses of both heads for a micro-batch: a float32 scalar.

        The words' loss is the mean of -log p[`masked_ids`], weighted by `masked_weights`, which is 0 for unused
        predictions; both are (B, P). The next sentence's loss is the mean of -log p[`next_sentence_label`], (B,).
        `outputs` is the pair of logits, (B · P, V) and (B, 2), for B sequences with P predictions each and V word
        pieces. `batch` is a dict from input name to array.
        """
        words, follows = outputs
        weights = batch["masked_weights"].reshape(-1)
        masked = (weights * cross_entropy(words, batch["masked_ids"].reshape(-1))).sum() / weights.sum()
        return masked + cross_entropy(follows, batch["next_sentence_label"]).mean()


def cross_entropy(logits, labels):
    """Return -log p[label] in float32 for each of N rows: an array (N,), from `logits` (N, K) and `labels` (N,).

    Labels are indices from 0 to K - 1.
    """
    log_p = jax.nn.log_softmax(logits.astype(jnp.float32))
    return -jnp.take_along_axis(log_p, labels[:, None], axis=-1)[:, 0]
