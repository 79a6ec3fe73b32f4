"""Read the contents of the bundle from which this process runs: an archive, or the directory of an unpacked one."""

import os
import zipfile

from dlperf_sdk.worker.request import Request


class DamagedBundle(ValueError):
    """A bundle without one of its documents, or with one that cannot be read.

    Args:
        reason: What is wrong with which file.
    """

    def __init__(self, reason: str) -> None:
        super().__init__("The bundle is damaged: %s; make it again with `dlperf bundle`" % reason)


def read_request(bundle: str, name: str) -> Request:
    """Return the request in a file of the bundle.

    Args:
        bundle: Path of the archive or directory.
        name: Path of the file within the bundle.

    Raises:
        DamagedBundle: The bundle has no such file, or it is not a request.
        OSError: The bundle does not exist, or cannot be read.
        zipfile.BadZipFile: The bundle is neither a directory nor a zip archive.
    """
    try:
        return Request.from_json(member(bundle, name))
    except KeyError:
        raise DamagedBundle("it has no %s" % name) from None
    except ValueError as error:
        raise DamagedBundle("%s: %s" % (name, error)) from None


def member(bundle: str, name: str) -> str:
    """Return the text of a file in the bundle. The file is UTF-8.

    Args:
        bundle: Path of the archive or directory.
        name: Path of the file within the bundle.

    Raises:
        KeyError: The bundle has no such file.
        OSError: The bundle does not exist, or cannot be read.
        zipfile.BadZipFile: The bundle is neither a directory nor a zip archive.
        UnicodeDecodeError: The file is not UTF-8.
    """
    if os.path.isdir(bundle):
        try:
            with open(os.path.join(bundle, name), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            raise KeyError(name) from None
    with zipfile.ZipFile(bundle) as archive:
        return archive.read(name).decode()


def contains(bundle: str, name: str) -> bool:
    """Return True if the bundle contains a file.

    Args:
        bundle: Path of the archive or directory.
        name: Path of the file within the bundle.

    Raises:
        OSError: The bundle does not exist, or cannot be read.
        zipfile.BadZipFile: The bundle is neither a directory nor a zip archive.
    """
    if os.path.isdir(bundle):
        return os.path.exists(os.path.join(bundle, name))
    with zipfile.ZipFile(bundle) as archive:
        return name in archive.namelist()


def unpack(bundle: str, scratch: str) -> str:
    """Unpack a bundle, a zip archive, into a subdirectory of `scratch`, and return the subdirectory's path.

    If the bundle is a directory, nothing is unpacked, and its own path is returned.

    Args:
        bundle: Path of the archive or directory.
        scratch: Path of the directory whose subdirectory is named `bundle`. Both are created if they are missing; files
            in the subdirectory are overwritten.

    Raises:
        OSError: The bundle does not exist or cannot be read, or a file cannot be written.
        zipfile.BadZipFile: The bundle is neither a directory nor a zip archive.
    """
    if os.path.isdir(bundle):
        return bundle
    directory = os.path.join(scratch, "bundle")
    with zipfile.ZipFile(bundle) as archive:
        archive.extractall(directory)
    return directory
