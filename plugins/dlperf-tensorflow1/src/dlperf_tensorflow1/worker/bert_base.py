"""BERT-Base pre-training in TensorFlow 1: Devlin et al. 2019, masked language model and next sentence prediction.

What is computed is laid down in `dlperf_sdk.models.bert_base`; the names are the manifest's. Every layer computes in
the type of what it is given, but norms and softmax in float32. Letters in shapes: B sequences, S tokens, P predictions,
H the hidden size, V word pieces.
"""

import tensorflow.compat.v1 as tf

from dlperf_sdk.worker.architectures import LAYER_NORM_EPSILON
from dlperf_tensorflow1.worker.training import TensorFlow1Trainer


class Bert:
    """BERT: the embeddings, the encoder, and the two heads of pre-training.

    Args:
        weights: The `Weights`, which give all sizes except those in `options`.
        options: Dict with the values of the model's options; `heads` and `layers` are read.
        drop: Function of a tensor and the number of a dropout layer, from 1, that returns the tensor with dropout.
    """

    def __init__(self, weights, options, drop):
        self.weights, self.heads, self.layers = weights, options["heads"], options["layers"]
        self._drop = drop
        self._dropouts = 0

    def __call__(self, input_ids, segment_ids, attention_mask, masked_positions, dtype):
        """Return the logits of words, (B · P, V), and of the next sentence, (B, 2).

        There are B sequences of S tokens with P predictions each, and V word pieces. `input_ids`, `segment_ids` and
        `attention_mask` (1 for tokens, 0 for padding) are (B, S). `masked_positions`, (B, P), has the positions of the
        masked words in the sequence. `dtype` is the type to compute in.

        Raises:
            ManifestError: The manifest lacks a parameter of the network.
        """
        self._dropouts = 0
        x = self.embed(input_ids, segment_ids, dtype)
        mask = tf.where(
            tf.equal(attention_mask, 0),
            tf.fill(attention_mask.shape, -float("inf")),
            tf.zeros(attention_mask.shape),
        )[:, None, None, :]
        for i in range(self.layers):
            x = self.encode("encoder.%d" % i, x, mask)
        gathered = tf.reshape(tf.gather(x, masked_positions, batch_dims=1), (-1, int(x.shape[-1])))
        return self.predict_words(gathered), self.linear(
            "next_sentence", tf.tanh(self.linear("pooler", x[:, 0]))
        )

    def embed(self, input_ids, segment_ids, dtype):
        """Return the embeddings, (B, S, H), of `input_ids` and `segment_ids`, integers (B, S), in the type `dtype`.

        They are the sums of the embeddings of words, positions and segments, after layer norm and dropout. There are B
        sequences of S tokens, and H features.

        Raises:
            ManifestError: The manifest lacks a parameter of the embeddings.
        """
        position = self.weights("embeddings.position.weight")[: int(input_ids.shape[1])]
        word = tf.gather(self.weights("embeddings.word.weight"), input_ids)
        segment = tf.gather(self.weights("embeddings.segment.weight"), segment_ids)
        return self.drop(tf.cast(self.norm("embeddings.norm", word + position + segment), dtype))

    def attend(self, name, x, mask):
        """Return the output, (B, S, H), of a block of self-attention for x, (B, S, H).

        There are B sequences of S tokens with H features. After the attention come dropout, the residual sum and layer
        norm. `mask`, (B, 1, 1, S), is added to the scores: 0 for keys that get attention, -∞ for the others. `name` is
        the block's name in the manifest, such as `encoder.0.attention`.

        Raises:
            ManifestError: The manifest lacks a parameter of the block.
        """
        sequences, tokens, hidden = map(int, x.shape)
        width = hidden // self.heads
        query, key, value = (
            tf.transpose(
                tf.reshape(self.linear(name + projection, x), (sequences, tokens, self.heads, width)),
                (0, 2, 1, 3),
            )
            for projection in (".query", ".key", ".value")
        )
        scores = tf.cast(tf.matmul(query * width**-0.5, key, transpose_b=True), tf.float32)
        context = tf.matmul(self.drop(tf.cast(tf.nn.softmax(scores + mask), x.dtype)), value)
        context = tf.reshape(tf.transpose(context, (0, 2, 1, 3)), (sequences, tokens, hidden))
        return self.norm(name + ".norm", x + self.drop(self.linear(name + ".output", context)))

    def encode(self, name, x, mask):
        """Return the output, (B, S, H), of an encoder layer for x, (B, S, H): B sequences, S tokens, H features.

        The layer is attention, then the feed-forward block with its residual sum and layer norm. `name` is the layer's
        name in the manifest, such as `encoder.0`. `mask`, (B, 1, 1, S), is added to the scores: 0 for keys that get
        attention, -∞ for the others.

        Raises:
            ManifestError: The manifest lacks a parameter of the layer.
        """
        x = self.attend(name + ".attention", x, mask)
        wide = gelu(self.linear(name + ".intermediate", x))
        return self.norm(name + ".norm", x + self.drop(self.linear(name + ".output", wide)))

    def predict_words(self, x):
        """Return the logits of words, (B · P, V), for x, (B · P, H), the encoder's output at the predicted positions.

        There are B sequences with P predictions each, H features, and V word pieces. The layers are a linear layer,
        GELU, layer norm, and the decoder, whose weight is that of the word embeddings.

        Raises:
            ManifestError: The manifest lacks a parameter of the layers.
        """
        x = self.norm("masked_lm.norm", gelu(self.linear("masked_lm.transform", x)))
        words = tf.cast(self.weights("embeddings.word.weight"), x.dtype)
        return tf.matmul(x, words, transpose_b=True) + tf.cast(self.weights("masked_lm.bias"), x.dtype)

    def linear(self, name, x):
        """Return x · W + b over the last axis of x, in x's type: the linear layer with the name `name` in the manifest.

        W is (in, out).

        Raises:
            ManifestError: The manifest has no such layer.
        """
        # All rows in one product: the gradient of matmul's would be a W for each sequence, and then their sum.
        weight, bias = self.weights(name + ".weight", (1, 0)), self.weights(name + ".bias")
        return tf.tensordot(x, tf.cast(weight, x.dtype), 1) + tf.cast(bias, x.dtype)

    def norm(self, name, x):
        """Return the layer norm of x over the last axis, computed in float32, in x's type.

        `name` is the layer's name in the manifest.

        Raises:
            ManifestError: The manifest has no such layer.
        """
        gamma, beta, values = (
            self.weights(name + ".weight"),
            self.weights(name + ".bias"),
            tf.cast(x, tf.float32),
        )
        mean, variance = tf.nn.moments(values, -1, keep_dims=True)
        y = tf.nn.batch_normalization(values, mean, variance, beta, gamma, LAYER_NORM_EPSILON)
        return tf.cast(y, x.dtype)

    def drop(self, x):
        """Return the tensor x with dropout; each call in a forward pass is another dropout layer, with its own mask."""
        self._dropouts += 1
        return self._drop(x, self._dropouts)


def gelu(x):
    """Return x · Φ(x) for each element of the tensor x, computed with the error function, not approximated by tanh."""
    return 0.5 * x * (1.0 + tf.erf(x * 0.5**0.5))


class BertBaseTrainer(TensorFlow1Trainer):
    """The trainer of BERT-Base: predicts masked words, and whether a sequence's second part follows the first."""

    def build(self, options):
        """Return a `Bert` of the trainer's `weights`: a callable that adds the network to the graph.

        `options` is a dict of the model's options, of which `heads` and `layers` are read. The shapes in the manifest
        give all other sizes.
        """
        return Bert(self.weights, options, self.drop)

    def outputs(self, network, batch):
        """Return the network's logits for a micro-batch: a pair, of words (B · P, V), and of the next sentence (B, 2).

        There are B sequences with P predictions each, and V word pieces. `network` is what `build` returned. `batch` is
        a dict from input name to tensor of the graph.
        """
        return network(
            batch["input_ids"],
            batch["segment_ids"],
            batch["attention_mask"],
            batch["masked_positions"],
            self.dtype,
        )

    def loss(self, outputs, batch):
        """Return the sum of the losses of both heads for a micro-batch: a float32 scalar.

        The words' loss is the mean of -log p[`masked_ids`], weighted by `masked_weights`, which is 0 for unused
        predictions; both are (B, P). The next sentence's loss is the mean of -log p[`next_sentence_label`], (B,).
        `outputs` is the pair of logits, (B · P, V) and (B, 2), for B sequences with P predictions each and V word
        pieces. `batch` is a dict from input name to tensor of the graph.
        """
        words, follows = outputs
        weights = tf.reshape(batch["masked_weights"], (-1,))
        per_token = cross_entropy(tf.reshape(batch["masked_ids"], (-1,)), words)
        masked = tf.reduce_sum(weights * per_token) / tf.reduce_sum(weights)
        return masked + tf.reduce_mean(cross_entropy(batch["next_sentence_label"], follows))


def cross_entropy(labels, logits):
    """Return -log p[label] for each of N rows: a tensor (N,), from `labels` (N,) and `logits` (N, K).

    Labels are indices from 0 to K - 1.
    """
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
