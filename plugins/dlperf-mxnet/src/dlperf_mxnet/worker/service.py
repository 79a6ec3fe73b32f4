"""The scheduler and the servers of MXNet's distributed kvstore: processes that trainers need."""


def serve() -> None:
    """Run the role that `DMLC_ROLE` names until the last trainer has left.

    MXNet does so while it is imported, and then ends the process.
    """
    import mxnet  # noqa: F401
