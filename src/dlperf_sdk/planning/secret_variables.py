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
    """Return the sorted names of a spec's variables whose values are secrets.

    A plugin that cannot be loaded declares no tuning variables, so more names are secret.
    """
    if not spec.env:
        return ()
    tuning = declaration_lookup(registry)("frameworks", spec.framework).tuning_variables
    return tuple(name for name in sorted(spec.env) if not tunes_only(name, tuning))


def conceal_secrets(spec: RunSpec, registry: Registry) -> tuple[RunSpec, tuple[str, ...]]:
    """Return the spec with a hash in place of each secret value, and the sorted names of the secret variables.

    A variable without a value, which is handed on from the shell, stays as it is.
    """
    secrets = secret_names(spec, registry)
    values = ((name, spec.env[name]) for name in secrets)
    concealed = {name: conceal(name, value) for name, value in values if value is not None}
    return attrs.evolve(spec, env={**spec.env, **concealed}) if concealed else spec, secrets


def list_requested_variables(spec: RunSpec) -> dict[str, str]:
    """Return the requested variables with their values, as the workers get them.

    Variables that are handed on from this shell have its value, and are absent if it has none.

    Raises:
        SpecError: Only the hash of a value is known.
    """
    return reveal(spec.env, os.environ)


def redact_variables(variables: Mapping[str, str | None], secrets: Collection[str]) -> dict[str, str]:
    """Return the variables as documents hold them: without those that are None, and secrets as a salted hash.

    Args:
        variables: Values by name.
        secrets: Names of the variables whose values are secrets.
    """
    return {
        name: conceal(name, value) if name in secrets else value
        for name, value in variables.items()
        if value is not None
    }
