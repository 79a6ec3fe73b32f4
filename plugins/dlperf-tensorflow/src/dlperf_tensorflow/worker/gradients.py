"""Micro-batches inside a graph, one after another: XLA and servers take a whole step as one function."""

import tensorflow as tf


def split(batch, count):
    """Return every input of a batch, (B, …), split into micro-batches: (count, B / count, …)."""
    return {
        name: tf.reshape(value, (count, value.shape[0] // count, *value.shape[1:]))
        for name, value in batch.items()
    }


def accumulate(gradients_of, batch, count, variables):
    """Return the mean loss and gradients over `count` micro-batches of a batch.

    `gradients_of(micro_batch)` returns the loss and the gradients of one, in the order of `variables`.
    """
    if count == 1:
        return gradients_of(batch)
    pieces = split(batch, count)

    def add(i, loss, gradients):
        addend, piece_gradients = gradients_of({name: value[i] for name, value in pieces.items()})
        return i + 1, loss + addend, [a + b for a, b in zip(gradients, piece_gradients)]

    zeros = [tf.zeros(variable.shape, variable.dtype) for variable in variables]
    _, loss, gradients = tf.while_loop(
        lambda i, *_: i < count,
        add,
        (tf.constant(0), tf.constant(0.0), zeros),
        parallel_iterations=1,
        maximum_iterations=count,
    )
    return loss / count, [gradient / count for gradient in gradients]
