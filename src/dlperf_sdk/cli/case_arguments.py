"""The case that arguments and flags describe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlperf_sdk.cli.flags import REPEATED, Sweep, collect_fields, option_values
from dlperf_sdk.errors import UsageError

if TYPE_CHECKING:
    from dlperf_sdk.spec.run_spec import RunSpec


def spec_of(case: str, model: str | None, flags: dict[str, Any]) -> RunSpec:
    """Return the case that the arguments and flags describe.

    Raises:
        UsageError: they describe none.
    """
    from dlperf_sdk import api
    from dlperf_sdk.registry.plugins import Registry

    fields, registry = collect_fields(flags), Registry()
    for name, value in fields.items():
        if isinstance(value, Sweep):
            raise UsageError(
                f"{name} has {len(value)} values; only `dlperf run` and `dlperf plan` take several. Give one."
            )
    if model is None and not Path(case).suffix and not Path(case).exists():
        known = ", ".join(registry.names("models")) or "none"
        raise UsageError(
            f"Which model? Write `dlperf run {case} MODEL` (models: {known}), or name a spec file: case.toml."
        )
    repeated = {name: fields.pop(name, {}) for name in REPEATED}
    spec = api.spec_from(case, model, fields)
    if repeated["options"]:
        owners = registry.model(spec.model), registry.framework(spec.framework)
        launcher = registry.topology(spec.topology.launcher)
        repeated["options"] = option_values(repeated["options"], *owners, launcher)
    merged = {name: {**getattr(spec, name), **flags} for name, flags in repeated.items()}
    return api.spec_from(spec, None, merged)
