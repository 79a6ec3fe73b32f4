"""The variables of a case whose values are secrets: all that are not known to tune only."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

import attrs

from dlperf_sdk.planning.spec_file import declaration_lookup, tunes_only
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.spec.secret_values import conceal, reveal


def secret_names(spec: RunSpec, registry: Registry) -> tuple[str, ...]:
    """Return the sorted names of the environment variables in a spec whose values are secrets.

    A value is a secret unless its variable is known to tune only threads, memory, logging or transport. If the
    framework's plugin cannot be loaded, the tuning variables that it declares are not known, and count as secrets.

    Args:
        spec: The case.
        registry: The plugins.
    """
    if not spec.env:
        return ()
    tuning = declaration_lookup(registry)("frameworks", spec.framework).tuning_variables
    return tuple(name for name in sorted(spec.env) if not tunes_only(name, tuning))


def conceal_secrets(spec: RunSpec, registry: Registry) -> tuple[RunSpec, tuple[str, ...]]:
    """Return a copy of a spec with a hash in place of each secret value, and the sorted names of the secret variables.

    A value is a secret unless its variable is known to tune only threads, memory, logging or transport. A variable
    without a value, which is handed on from the shell, stays as it is. This process remembers the secret values, so
    that `list_requested_variables` can return them.

    Args:
        spec: The case, whose field `env` has the variables.
        registry: The plugins.
    """
    secrets = secret_names(spec, registry)
    values = ((name, spec.env[name]) for name in secrets)
    concealed = {name: conceal(name, value) for name, value in values if value is not None}
    return attrs.evolve(spec, env={**spec.env, **concealed}) if concealed else spec, secrets


def list_requested_variables(spec: RunSpec) -> dict[str, str]:
    """Return name → value of the environment variables that a spec sets for its workers.

    A hash is replaced by the secret value. A variable that is handed on from this shell has its value here, and is
    absent if it has none.

    Raises:
        SpecError: A value is recorded as a hash, and neither this process nor this shell has the value.
    """
    return reveal(spec.env, os.environ)


def redact_variables(variables: Mapping[str, str | None], secrets: Collection[str]) -> dict[str, str]:
    """Return name → value of environment variables as documents hold them: with a salted hash in place of each secret.

    Variables whose value is None are left out.

    Args:
        variables: Name → value.
        secrets: Names of the variables whose values are secrets.
    """
    return {
        name: conceal(name, value) if name in secrets else value
        for name, value in variables.items()
        if value is not None
    }
