"""Convert exceptions that show a lack of a resource of this machine to failures that name the remedy."""

from __future__ import annotations

import errno
import os
import tempfile

from dlperf_sdk.results.records import Failure
from dlperf_sdk.worker.exhaustion import describe_exhaustion


def resource_failure(error: BaseException) -> Failure | None:
    """Return the failure for an exception that shows that a resource of this machine ran out; None for any other.

    Such resources are memory, disk, file descriptors, processes, and a usable directory for temporary files. The
    failure has the kind `unavailable`.
    """
    message = describe_exhaustion(error, "The controller")
    if message is None and isinstance(error, OSError) and _is_temporary(error):
        reason = f"{error.strerror or error}" + (
            f" ({os.fsdecode(error.filename)})" if error.filename else ""
        )
        message = (
            f"The folder for temporary files cannot be used: {reason}. Make it again, or set TMPDIR to a folder "
            "that you can write to."
        )
    return None if message is None else Failure("unavailable", message)


def _is_temporary(error: OSError) -> bool:
    """Return True if an error is about the folder for temporary files, or none of them can be used."""
    if error.errno not in (errno.EROFS, errno.EACCES, errno.ENOENT, errno.ENOTDIR):
        return False
    folder = tempfile.tempdir
    if folder is None:
        return error.errno == errno.ENOENT and "No usable temporary directory" in str(error)
    return isinstance(error.filename, str | bytes) and os.fsdecode(error.filename).startswith(folder)
