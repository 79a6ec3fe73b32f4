"""The limit of file descriptors of this process."""

import resource


def raise_descriptor_limit(descriptors: int) -> bool:
    """Raise this process's soft limit of descriptors, if it is lower, as far as the hard limit allows.

    Args:
        descriptors: Number of descriptors that are needed.

    Returns:
        True if the hard limit allows that many.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = descriptors if hard == resource.RLIM_INFINITY else min(descriptors, hard)
    if soft != resource.RLIM_INFINITY and soft < target:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
    return target >= descriptors
