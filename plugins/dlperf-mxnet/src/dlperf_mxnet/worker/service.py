"""The scheduler and the servers of MXNet's distributed kvstore: no trainers, but needed by them."""


def serve() -> None:
    """Run the role in `DMLC_ROLE` until the last trainer has left.

    MXNet does all of it while it is imported, and then ends the process.
    """
    import mxnet  # noqa: F401
