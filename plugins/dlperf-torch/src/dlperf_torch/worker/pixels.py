"""Images in channels_last as matrices of pixels."""


def to_matrix(images):
    """Return the tensor `images`, (B, C, H, W), as a contiguous matrix of pixels, (B·H·W, C).

    It is a view if the images are in channels_last, and a copy otherwise.
    """
    return images.permute(0, 2, 3, 1).contiguous().view(-1, images.shape[1])


def to_images(matrix, shape):
    """Return a view of `matrix`, (B·H·W, C), as images in channels_last; `shape` is their shape, (B, C, H, W)."""
    return matrix.view(shape[0], shape[2], shape[3], shape[1]).permute(0, 3, 1, 2)
