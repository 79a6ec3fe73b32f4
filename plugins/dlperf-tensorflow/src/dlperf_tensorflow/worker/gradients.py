"""Accumulation of micro-batches inside a graph, where a whole step is one function."""

import tensorflow as tf


def split(batch, count):
    """Return `batch`, a dict from input name to tensor (B, …), with all inputs split into `count` micro-batches.

    The result is a dict from input name to tensor (count, B / count, …). `count` must divide B.
    """
    return {
        name: tf.reshape(value, (count, value.shape[0] // count, *value.shape[1:]))
        for name, value in batch.items()
    }


def accumulate(gradients_of, batch, count, variables):
    """Compute the micro-batches of a batch one after the other; return their mean loss and mean gradients.

    Args:
        gradients_of: Function of a micro-batch that returns its loss and a list of gradients, one per variable.
        batch: Dict from input name to tensor (B, …).
        count: Number of micro-batches, which divides B.
        variables: List of the variables that the gradients are for.

    Returns:
        The loss, a scalar tensor, and the list of gradients.
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
