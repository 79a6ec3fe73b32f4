"""Credentials in URLs, which no message may show."""

from __future__ import annotations

import re

from dlperf_sdk.errors import UsageError

_HOST = r"(?:\[[0-9A-Fa-f:.]+\]|[\w.%-]*)(?::[0-9]*)?"
_URL = re.compile(rf"(\w+://)(?:[^\s@/?]*@)?({_HOST}(?:,{_HOST})*(?:/[\w.%-]*)?)(?:\?[^\s@]*)?")
_HIDDEN = (
    (re.compile(r"(\w:/{1,2})[^\s'\"]*:[^\s'\"]*@"), r"\1…@"),
    (re.compile(r"(\w://[^\s'\":/@]+:)(?![0-9]+(?:[^\w@-]|$))[^\s'\"]*"), r"\1…"),
    (re.compile(r"(\w:/{1,2}[^\s'\"?]*\?)[^\s'\"]*"), r"\1…"),
)
"""User and password, a password without its host, and parameters of a URL, which `Path` may have normalized; with what
replaces them."""


def is_url(text: str) -> bool:
    """Return True if a text contains `://`, so that it is a URL, such as that of a database, rather than a path."""
    return "://" in text


def name_url(url: str) -> str:
    """Return scheme, hosts, ports and path of a URL, without user, password and parameters.

    Raises:
        UsageError: The URL is not valid, so that its password cannot be told apart from its other parts.
    """
    match = _URL.fullmatch(url)
    if match is None:
        raise UsageError(
            "The URL of the database is not valid; write SCHEME://USER@HOST:PORT/DATABASE, with %XX in place of "
            "special characters. A password is better in a variable or file of the database's client."
        )
    return f"{match[1]}{match[2]}"


def hide_credentials(text: str) -> str:
    """Return a text in which `…` replaces the credentials in URLs, and the parameters after `?`.

    In `USER:PASSWORD@HOST`, user and password are replaced. In a URL that is cut off before `@`, the text after the
    first `:` is replaced unless it is a port number. A user without a password is kept.
    """
    for pattern, replacement in _HIDDEN:
        text = pattern.sub(replacement, text)
    return text
