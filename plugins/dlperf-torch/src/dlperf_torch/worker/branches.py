"""Results that two branches of a network read."""


def output_twice(y):
    """Return y and a second tensor in its memory, for an autograd function with two outputs.

    Its `backward` then receives the gradients of the two branches that read them, which autograd would otherwise add in
    a kernel of its own. autograd takes neither tensor for a view of the other, so nobody may change them in place. `y`
    is a tensor.
    """
    return y, y.new_empty(0).set_(y)


def sort_gradients(gradients):
    """Return the gradients of two outputs with the missing one last, which is None: only one output was used.

    `gradients` is a pair, as a `backward` gets it; at most one item is None.
    """
    first, second = gradients
    return (second, first) if first is None else (first, second)
