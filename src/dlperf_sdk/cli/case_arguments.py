"""The case that a command's arguments and flags describe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlperf_sdk.cli.flags import REPEATED, Sweep, collect_fields, option_values
from dlperf_sdk.errors import UsageError

if TYPE_CHECKING:
    from dlperf_sdk.spec.run_spec import RunSpec


def spec_of(case: str, model: str | None, flags: dict[str, Any]) -> RunSpec:
    """Return the run spec that a command's arguments and flags describe.

    Args:
        case: A framework's name, or the path of a spec file.
        model: A model's name; None with a spec file.
        flags: Name of a field of `RunSpec` → value of its flag; None: not given. A repeated flag, such as `--set` for
            `options`, has a list of its entries as typed.

    Raises:
        UsageError: The model is missing, or is given together with a spec file; or a field has alternative values, such
            as `8,16`, which would be several cases.
        UnknownName, SpecError, DocumentError: A name, a value, or the spec file is invalid.
        PluginError: A plugin whose options are set cannot be used.
    """
    from dlperf_sdk.planning.spec_arguments import spec_from
    from dlperf_sdk.registry.plugins import Registry

    fields, registry = collect_fields(flags), Registry()
    for name, value in fields.items():
        if isinstance(value, Sweep):
            raise UsageError(
                f"{name} has {len(value)} values; only `dlperf run` and `dlperf plan` take several. Give one."
            )
    if model is None and not Path(case).suffix and not Path(case).exists():
        from dlperf_sdk.campaigns.file import PRESET, PRESETS

        preset = case.removeprefix(PRESET)
        if registry.has_plugin(PRESETS, preset) and not registry.has_plugin("frameworks", case):
            raise UsageError(
                f"{preset} is a preset: `dlperf plan preset:{preset}` lists its cases, and `dlperf campaign run "
                f"preset:{preset}` measures them."
            )
        known = ", ".join(registry.names("models")) or "none"
        raise UsageError(
            f"The model is missing. Write `{case} MODEL` (models: {known}), or name a spec file: case.toml."
        )
    repeated = {name: fields.pop(name, {}) for name in REPEATED}
    spec = spec_from(case, model, fields)
    if repeated["options"]:
        owners = registry.model(spec.model), registry.framework(spec.framework)
        launcher = registry.topology(spec.topology.launcher)
        repeated["options"] = option_values(repeated["options"], *owners, launcher)
    merged = {name: {**getattr(spec, name), **flags} for name, flags in repeated.items()}
    return spec_from(spec, None, merged)
