"""The scheduler and the servers of MXNet's distributed kvstore: processes that trainers need."""


def serve() -> None:
    """Run as the scheduler or server that `DMLC_ROLE` names until the last trainer has left, then end the process.

    The import of MXNet does both.
    """
    import mxnet  # noqa: F401
