"""The limit of file descriptors of this process."""

import resource


def raise_descriptor_limit(descriptors: int) -> bool:
    """Raise this process's soft limit of open descriptors to a number, or to the hard limit if that is less.

    A soft limit that is high enough stays.

    Args:
        descriptors: Number of descriptors that are needed.

    Returns:
        True if the hard limit allows as many descriptors as needed.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = descriptors if hard == resource.RLIM_INFINITY else min(descriptors, hard)
    if soft != resource.RLIM_INFINITY and soft < target:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
    return target >= descriptors
