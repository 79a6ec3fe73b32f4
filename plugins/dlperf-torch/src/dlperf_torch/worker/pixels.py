"""Images in channels_last as matrices of pixels."""


def to_matrix(images):
    """Reshape (B, C, H, W) → (B·H·W, C), contiguous: a view of images in channels_last, a copy of others."""
    return images.permute(0, 2, 3, 1).contiguous().view(-1, images.shape[1])


def to_images(matrix, shape):
    """Reshape (B·H·W, C) → `shape` (B, C, H, W), a view in channels_last."""
    return matrix.view(shape[0], shape[2], shape[3], shape[1]).permute(0, 3, 1, 2)
