"""Images in channels_last as matrices of pixels, and results that two branches of a network read."""


def to_matrix(images):
    """Reshape (B, C, H, W) → (B·H·W, C), contiguous: a view of images in channels_last, a copy of others."""
    return images.permute(0, 2, 3, 1).contiguous().view(-1, images.shape[1])


def to_images(matrix, shape):
    """Reshape (B·H·W, C) → `shape` (B, C, H, W), a view in channels_last."""
    return matrix.view(shape[0], shape[2], shape[3], shape[1]).permute(0, 3, 1, 2)


def output_twice(images):
    """Return two tensors in the same memory, for an autograd function with two outputs.

    Its `backward` then receives the gradients of the two branches that read them, which autograd would otherwise add
    in a kernel of its own. autograd takes neither tensor for a view of the other, so nobody may change them in place.
    """
    return images, images.new_empty(0).set_(images)


def sort_gradients(gradients):
    """Return the gradients of two outputs with the missing one last, which is None: only one output was used."""
    first, second = gradients
    return (second, first) if first is None else (first, second)
