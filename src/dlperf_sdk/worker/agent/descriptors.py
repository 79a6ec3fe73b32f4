"""The limit of file descriptors of this process."""

import resource


def raise_descriptor_limit(descriptors: int) -> bool:
    """Raise the soft limit to this number of descriptors if it is lower; return False if the hard limit is, too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = descriptors if hard == resource.RLIM_INFINITY else min(descriptors, hard)
    if soft != resource.RLIM_INFINITY and soft < target:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
    return target >= descriptors
