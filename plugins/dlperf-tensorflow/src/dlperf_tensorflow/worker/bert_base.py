"""BERT-Base pre-training in TensorFlow: Devlin et al. 2019, masked language model and next sentence prediction.

What is computed is laid down in `dlperf_sdk.models.bert_base`; the names are the manifest's. Every layer
computes in the type of what it is given, but norms and softmax in float32. Letters in shapes: B sequences,
S tokens, P predictions, H the hidden size, V word pieces.
"""

import tensorflow as tf

from dlperf_sdk.worker.architectures import LAYER_NORM_EPSILON
from dlperf_tensorflow.worker.training import TensorFlowTrainer


class Linear(tf.Module):
    """A linear layer, x · W + b over the last axis, in x's type; W is (in, out).

    `name` is the layer's name in the manifest. `weights` are the `Weights` of the network.
    """

    def __init__(self, weights, name):
        super().__init__()
        self.weight, self.bias = weights(name + ".weight", (1, 0)), weights(name + ".bias")

    def __call__(self, x):
        # All rows in one product: the gradient of matmul's would be a W for each sequence, and then their sum.
        return tf.tensordot(x, tf.cast(self.weight, x.dtype), 1) + tf.cast(self.bias, x.dtype)


class LayerNorm(tf.Module):
    """A layer norm over the last axis, computed in float32; the result has x's type.

    `name` is the layer's name in the manifest. `weights` are the `Weights` of the network.
    """

    def __init__(self, weights, name):
        super().__init__()
        self.gamma, self.beta = weights(name + ".weight"), weights(name + ".bias")

    def __call__(self, x):
        values = tf.cast(x, tf.float32)
        gamma, beta = tf.cast(self.gamma, tf.float32), tf.cast(self.beta, tf.float32)
        mean, variance = tf.nn.moments(values, -1, keepdims=True)
        return tf.cast(
            tf.nn.batch_normalization(values, mean, variance, beta, gamma, LAYER_NORM_EPSILON),
            x.dtype,
        )


class Embeddings(tf.Module):
    """The sum of the embeddings of words, positions and segments, then layer norm and dropout.

    `weights` are the `Weights` of the network, which give the sizes.
    """

    def __init__(self, weights):
        super().__init__()
        self.word = weights("embeddings.word.weight")
        self.position = weights("embeddings.position.weight")
        self.segment = weights("embeddings.segment.weight")
        self.norm = LayerNorm(weights, "embeddings.norm")

    def __call__(self, input_ids, segment_ids, dtype, dropout):
        """Return the embeddings, (B, S, H), of `input_ids` and `segment_ids`, each (B, S).

        There are B sequences of S tokens, and H features. `dtype` is the type of the result. `dropout` is the rate of
        dropout.
        """
        position = self.position[: input_ids.shape[1]]
        x = tf.gather(self.word, input_ids) + position + tf.gather(self.segment, segment_ids)
        return _apply_dropout(tf.cast(self.norm(x), dtype), dropout)


class Attention(tf.Module):
    """Self-attention with several heads, then dropout, the residual sum and layer norm.

    `name` is the block's name in the manifest, such as `encoder.0.attention`, and `heads` the number of heads.
    `weights` are the `Weights` of the network, which give the other sizes.
    """

    def __init__(self, weights, name, heads):
        super().__init__()
        self.heads = heads
        self.query = Linear(weights, name + ".query")
        self.key = Linear(weights, name + ".key")
        self.value = Linear(weights, name + ".value")
        self.output = Linear(weights, name + ".output")
        self.norm = LayerNorm(weights, name + ".norm")

    def __call__(self, x, mask, dropout):
        """Return the block's output, (B, S, H), for x, (B, S, H): B sequences of S tokens with H features.

        `mask`, (B, 1, 1, S), is added to the scores: 0 for keys that get attention, -∞ for the others. `dropout` is the
        rate of dropout.
        """
        sequences, tokens, hidden = x.shape
        width = hidden // self.heads
        query, key, value = (
            tf.transpose(tf.reshape(projection(x), (sequences, tokens, self.heads, width)), (0, 2, 1, 3))
            for projection in (self.query, self.key, self.value)
        )
        scores = tf.cast(tf.matmul(query * width**-0.5, key, transpose_b=True), tf.float32)
        context = tf.matmul(_apply_dropout(tf.cast(tf.nn.softmax(scores + mask), x.dtype), dropout), value)
        context = tf.reshape(tf.transpose(context, (0, 2, 1, 3)), (sequences, tokens, hidden))
        return self.norm(x + _apply_dropout(self.output(context), dropout))


class Layer(tf.Module):
    """One layer of the encoder: attention, then the feed-forward block with its residual sum and layer norm.

    `name` is the layer's name in the manifest, such as `encoder.0`, and `heads` the number of heads. `weights` are the
    `Weights` of the network, which give the other sizes.
    """

    def __init__(self, weights, name, heads):
        super().__init__()
        self.attention = Attention(weights, name + ".attention", heads)
        self.intermediate = Linear(weights, name + ".intermediate")
        self.output = Linear(weights, name + ".output")
        self.norm = LayerNorm(weights, name + ".norm")

    def __call__(self, x, mask, dropout):
        """Return the layer's output, (B, S, H), for x, (B, S, H): B sequences of S tokens with H features.

        `mask`, (B, 1, 1, S), is added to the scores: 0 for keys that get attention, -∞ for the others. `dropout` is the
        rate of dropout.
        """
        x = self.attention(x, mask, dropout)
        return self.norm(x + _apply_dropout(self.output(gelu(self.intermediate(x))), dropout))


class MaskedLM(tf.Module):
    """The head for masked language modelling: a linear layer, GELU, layer norm, and the decoder.

    The decoder's weight is that of the word embeddings. `weights` are the `Weights` of the network, which give the
    sizes.
    """

    def __init__(self, weights):
        super().__init__()
        self.transform = Linear(weights, "masked_lm.transform")
        self.norm = LayerNorm(weights, "masked_lm.norm")
        self.bias = weights("masked_lm.bias")

    def __call__(self, x, word_embeddings):
        """Return the logits of words, (B · P, V), for x, (B · P, H), and the word embeddings, (V, H).

        There are B sequences with P predictions each, H features, and V word pieces.
        """
        x = self.norm(gelu(self.transform(x)))
        return tf.matmul(x, tf.cast(word_embeddings, x.dtype), transpose_b=True) + tf.cast(self.bias, x.dtype)


class Bert(tf.Module):
    """BERT: the embeddings, the encoder, and the two heads of pre-training.

    Args:
        weights: The `Weights` of the network, which give the other sizes.
        heads: Number of attention heads.
        layers: Number of layers of the encoder.

    Raises:
        ManifestError: The manifest lacks a parameter of the network.
    """

    def __init__(self, weights, heads, layers):
        super().__init__()
        self.embeddings = Embeddings(weights)
        self.encoder = [Layer(weights, "encoder.%d" % i, heads) for i in range(layers)]
        self.pooler = Linear(weights, "pooler")
        self.next_sentence = Linear(weights, "next_sentence")
        self.masked_lm = MaskedLM(weights)

    def __call__(self, input_ids, segment_ids, attention_mask, masked_positions, dtype, dropout):
        """Return the logits of words, (B · P, V), and of the next sentence, (B, 2).

        There are B sequences of S tokens with P predictions each, and V word pieces. `input_ids`, `segment_ids` and
        `attention_mask` (1 for tokens, 0 for padding) are (B, S). `masked_positions`, (B, P), has the positions of the
        masked words in the sequence. `dtype` is the type to compute in. `dropout` is the rate of dropout.
        """
        x = self.embeddings(input_ids, segment_ids, dtype, dropout)
        mask = tf.where(attention_mask == 0, -float("inf"), 0.0)[:, None, None, :]
        for layer in self.encoder:
            x = layer(x, mask, dropout)
        gathered = tf.reshape(tf.gather(x, masked_positions, batch_dims=1), (-1, x.shape[-1]))
        predicted = self.masked_lm(gathered, self.embeddings.word)
        return predicted, self.next_sentence(tf.tanh(self.pooler(x[:, 0])))


def gelu(x):
    """Return x · Φ(x) for each element of the tensor x, computed with the error function, not approximated by tanh."""
    return tf.nn.gelu(x, approximate=False)


def _apply_dropout(x, rate):
    """Set elements of x to 0, each with the probability `rate`, and divide the others by 1 - rate; return the result.

    Return x itself if the rate is 0.
    """
    return tf.nn.dropout(x, rate) if rate else x


class BertBaseTrainer(TensorFlowTrainer):
    """The trainer of BERT-Base: predicts masked words, and whether a sequence's second part follows the first."""

    def build(self, options):
        """Return a `Bert`, a callable `tf.Module`, whose variables are those of the trainer's `weights`.

        `options` is a dict of the model's options, of which `heads` and `layers` are read. The shapes in the manifest
        give all other sizes.

        Raises:
            ManifestError: The manifest lacks a parameter of the network.
        """
        return Bert(self.weights, options["heads"], options["layers"])

    def outputs(self, network, batch):
        """Return the network's logits for a micro-batch: a pair, of words (B · P, V), and of the next sentence (B, 2).

        There are B sequences with P predictions each, and V word pieces. `network` is what `build` returned. `batch` is
        a dict from input name to tensor, on the device.
        """
        return network(
            batch["input_ids"],
            batch["segment_ids"],
            batch["attention_mask"],
            batch["masked_positions"],
            self.dtype,
            self.dropout,
        )

    def loss(self, outputs, batch):
        """Return the sum of the losses of both heads for a micro-batch: a float32 scalar.

        The words' loss is the mean of -log p[`masked_ids`], weighted by `masked_weights`, which is 0 for unused
        predictions; both are (B, P). The next sentence's loss is the mean of -log p[`next_sentence_label`], (B,).
        `outputs` is the pair of logits, (B · P, V) and (B, 2), for B sequences with P predictions each and V word
        pieces. `batch` is a dict from input name to tensor, on the device.
        """
        words, follows = (tf.cast(logits, tf.float32) for logits in outputs)
        weights = tf.reshape(batch["masked_weights"], (-1,))
        per_token = cross_entropy(tf.reshape(batch["masked_ids"], (-1,)), words)
        masked = tf.reduce_sum(weights * per_token) / tf.reduce_sum(weights)
        return masked + tf.reduce_mean(cross_entropy(batch["next_sentence_label"], follows))


def cross_entropy(labels, logits):
    """Return -log p[label] for each of N rows: a tensor (N,), from `labels` (N,) and `logits` (N, K).

    Labels are indices from 0 to K - 1.
    """
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
