"""The scheduler and the servers of MXNet's distributed kvstore: processes that trainers need."""


def serve() -> None:
    """Run as the scheduler or server that DMLC_ROLE names until the last trainer has left, then end the process.

    This function does not return: its import of MXNet serves, and ends the process. DMLC_ROLE is an environment
    variable of ps-lite.
    """
    import mxnet  # noqa: F401
