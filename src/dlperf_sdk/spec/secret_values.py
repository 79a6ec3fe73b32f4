"""Secret values of environment variables: every document holds a salted hash in place of the value.

A value is a secret unless its variable is declared to tune only (`planning.spec_file.tunes_only`), because nobody
can list the variables that hold tokens. The salt is the variable's name, so that equal values of a variable have
equal hashes in all results. The hash is slow to compute. The process that received a value remembers it, and the
bundle carries it to the nodes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache

from dlperf_sdk.errors import SpecError
from dlperf_sdk.worker.agent.secret_values import replace_values

_HASH = re.compile(r"scrypt:[0-9a-f]{32}")
_known_values: dict[str, tuple[str, str]] = {}
"""Hash → variable and value, of the values that this process received."""


def is_hash(value: str | None) -> bool:
    """Return True if the value has the form of a hash, `scrypt:` and 32 hexadecimal digits; False for None."""
    return value is not None and _HASH.fullmatch(value) is not None


def conceal(name: str, value: str) -> str:
    """Return the salted hash of a variable's value, and remember the value in this process.

    Args:
        name: Name of the variable, which is the salt.
        value: Its value. A value that is a hash already is returned unchanged, and is not remembered.

    Returns:
        `scrypt:` and 32 hexadecimal digits; the same for the same variable and value in every process.
    """
    if is_hash(value):
        return value
    digest = _hash(name, value)
    _known_values[digest] = (name, value)
    return digest


def reveal(variables: Mapping[str, str | None], environ: Mapping[str, str]) -> dict[str, str]:
    """Return environment variables as name → value, with the secret value in place of each hash.

    Args:
        variables: Name → value, hash, or None. None stands for the variable's value in `environ`; if it is not set
            there, it is left out.
        environ: This shell's variables, where the value of a hash is looked up if this process does not remember it.

    Raises:
        SpecError: This process does not remember the value of a hash, and the variable is not set in `environ`, or has
            a value there that the hash does not belong to.
    """
    revealed = {}
    for name, value in variables.items():
        known = environ.get(name) if value is None else value
        if value is not None and is_hash(value):
            known = _known_values.get(value, (name, environ.get(name)))[1]
            if known is None or conceal(name, known) != value:
                state = "is not set" if known is None else "has another value"
                raise SpecError(
                    f"The value of the variable {name} is recorded as a hash only, and {name} {state} in this shell. "
                    f"Set it to the value of the recorded run: {name}=VALUE dlperf …."
                )
        if known is not None:
            revealed[name] = known
    return revealed


def remove_secrets(text: str) -> str:
    """Return a text with `<NAME>` in place of each value that this process concealed for a variable NAME (`conceal`).

    Values of fewer than eight characters are kept, because they also occur by chance.
    """
    return str(replace_values(text, tuple(_known_values.values())))


@lru_cache(maxsize=1024)
def _hash(name: str, value: str) -> str:
    salt = f"dlperf-sdk {name}".encode()
    key = hashlib.scrypt(value.encode("utf-8", "surrogateescape"), salt=salt, n=2**14, r=8, p=1, dklen=16)
    return f"scrypt:{key.hex()}"
