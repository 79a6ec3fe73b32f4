"""Secret values of environment variables: every document holds a salted hash in their place.

A value is a secret unless its variable is declared to tune only (`planning.spec_file.tunes_only`): nobody can list the
variables that hold tokens. The salt is the variable's name, so that equal values have equal hashes in all results, and
the hash is slow. The values themselves are known to the process that they were given to, and travel in the bundle.
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
"""Hash → name and value, of the values that this process was given."""


def is_hash(value: str | None) -> bool:
    """Return True if the value is the hash of another one."""
    return value is not None and _HASH.fullmatch(value) is not None


def conceal(name: str, value: str) -> str:
    """Return the salted hash of a variable's value, and remember the value; a hash is returned as it is."""
    if is_hash(value):
        return value
    digest = _hash(name, value)
    _known_values[digest] = (name, value)
    return digest


def reveal(variables: Mapping[str, str | None], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the values of variables; those that are None and not set in `environ` are left out.

    The value of a hash is one that this process was given, or the one in `environ`.

    Raises:
        SpecError: A value is known neither here nor in `environ`, or the one in `environ` is another one.
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
    """Return a text with `<NAME>` in place of each secret value that this process was given."""
    return str(replace_values(text, dict(_known_values.values())))


@lru_cache(maxsize=1024)
def _hash(name: str, value: str) -> str:
    salt = f"dlperf-sdk {name}".encode()
    key = hashlib.scrypt(value.encode("utf-8", "surrogateescape"), salt=salt, n=2**14, r=8, p=1, dklen=16)
    return f"scrypt:{key.hex()}"
