"""Remove credentials from text before it is shown or written to a file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote

# Everything between '://' and the last '@' before the next slash or blank: also passwords that hold an '@'.
_USER = re.compile(r"(?P<scheme>\b[A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#]*@")
_MASK = "***"


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Return a text in which `***` replaces the given secrets, and the `user:password` or `user` of every URL.

    Args:
        text: The text.
        secrets: Further texts to replace.
    """
    text = _USER.sub(rf"\g<scheme>{_MASK}@", text)
    for secret in sorted(set(secrets), key=len, reverse=True):
        if secret:
            text = text.replace(secret, _MASK)
    return text


def find_secrets(url: str) -> set[str]:
    """Return the secrets in a URL: its password or, without one, its user name, which may be a token.

    Each secret is in the set both as written and percent-decoded, since tools print either. The set is empty for a
    URL without a user.
    """
    authority = re.match(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?//([^\s/?#]*)@", url)
    if not authority:
        return set()
    user, colon, password = authority[1].partition(":")
    secret = password if colon else user
    return {form for form in (secret, unquote(secret)) if form}
