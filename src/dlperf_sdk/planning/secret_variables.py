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
    """Return the names of a spec's variables whose values are secrets."""
    if not spec.env:
        return ()
    tuning = declaration_lookup(registry)("frameworks", spec.framework).tuning_variables
    return tuple(name for name in sorted(spec.env) if not tunes_only(name, tuning))


def conceal_secrets(spec: RunSpec, registry: Registry) -> tuple[RunSpec, tuple[str, ...]]:
    """Return the spec with a hash in place of each secret value, and the names of the variables with such values."""
    secrets = secret_names(spec, registry)
    values = ((name, spec.env[name]) for name in secrets)
    concealed = {name: conceal(name, value) for name, value in values if value is not None}
    return attrs.evolve(spec, env={**spec.env, **concealed}) if concealed else spec, secrets


def list_requested_variables(spec: RunSpec) -> dict[str, str]:
    """Return the requested variables as the workers get them, without those that this shell does not have.

    Raises:
        SpecError: only the hash of a value is known.
    """
    return reveal(spec.env, os.environ)


def redact_variables(variables: Mapping[str, str | None], secrets: Collection[str]) -> dict[str, str]:
    """Return the variables as documents hold them: without those that are None, and secrets as a salted hash."""
    return {
        name: conceal(name, value) if name in secrets else value
        for name, value in variables.items()
        if value is not None
    }
