"""Results that two branches of a network read."""


def output_twice(y):
    """Return the tensor y and a second tensor in the same memory: the two outputs of an autograd function.

    The function's `backward` then receives the gradients of the two branches that read the outputs, which autograd
    would otherwise add in a kernel of its own. autograd does not know that the tensors share memory, so neither may be
    changed in place.
    """
    return y, y.new_empty(0).set_(y)


def sort_gradients(gradients):
    """Return the pair `gradients` in an order in which a missing gradient, None, is the second item.

    `gradients` is what the `backward` of an autograd function with two outputs receives: a tensor for each output, or
    None for one that was not used. At most one item is None.
    """
    first, second = gradients
    return (second, first) if first is None else (first, second)
