"""The front door: `run`, `rerun` and `dry_run`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs

from dlperf_sdk.errors import UnknownName, UsageError
from dlperf_sdk.execute import execute
from dlperf_sdk.plan import Plan, make_plan
from dlperf_sdk.registry import Registry
from dlperf_sdk.results.result import Result
from dlperf_sdk.results.store import ResultStore
from dlperf_sdk.spec import RunSpec

DEFAULT_STORE = Path("dlperf-results")
"""Where results are kept unless somebody says otherwise: a directory per run, in the working directory."""


def run(
    what: str | RunSpec | Mapping[str, Any] | Path,
    model: str | None = None,
    *,
    store: ResultStore | str | Path | None = DEFAULT_STORE,
    observers: Iterable[Any] = (),
    registry: Registry | None = None,
    raise_on_failure: bool = False,
    **fields: Any,
) -> Result:
    """Measure one case.

        run("torch", "resnet50", topology="1n2d", batch_size=32)
        run(RunSpec(framework="torch", model="resnet50"))
        run({"framework": "torch", "model": "resnet50"})
        run("case.toml")

    Args:
        what: A framework's name (with `model` and the fields of `RunSpec`), or a whole spec: a `RunSpec`, a mapping, or
            the path of a JSON, TOML or YAML file.
        model: The model's name, where `what` is a framework's.
        store: Where the run's directory is written as it goes; None keeps nothing.
        observers: Objects with hook implementations, see `dlperf_sdk.hookspecs`.
        registry: The plugins to choose from; those that are installed, unless given.
        raise_on_failure: Raise the failure of a case instead of returning it.
        fields: Fields of `RunSpec`, in place of those in `what`.

    Returns:
        The result; a case that failed is a result with a `failure`.

    Raises:
        UsageError: what is asked for cannot be understood, or the store cannot be written. Nothing was started.
        PluginError: a plugin that is needed does not work. Nothing was started.
        RunFailed: the case failed, and `raise_on_failure` is set.
        KeyboardInterrupt: somebody pressed Ctrl-C; everything has been ended, and finished repeats are in the store.
    """
    return execute(spec_from(what, model, fields), None, store, observers, registry, raise_on_failure)


def rerun(
    result: Result,
    *,
    store: ResultStore | str | Path | None = DEFAULT_STORE,
    observers: Iterable[Any] = (),
    registry: Registry | None = None,
    raise_on_failure: bool = False,
) -> Result:
    """Measure the case of a result again, in the environment that its lock describes.

    Raises:
        UsageError: the result has no environment: its case failed before it had one.
        PluginError, RunFailed, KeyboardInterrupt: as `run` does.
    """
    if result.environment is None:
        raise UsageError(f"The result {result.id} has no environment to repeat it in; run its spec instead.")
    return execute(result.spec, result.environment, store, observers, registry, raise_on_failure)


def dry_run(
    what: str | RunSpec | Mapping[str, Any] | Path,
    model: str | None = None,
    *,
    registry: Registry | None = None,
    **fields: Any,
) -> Plan:
    """What `run` would do, decided but not done: nothing is created or started.

    Raises:
        UsageError, PluginError: as `run` does.
        Unsupported, Unavailable: the case cannot be run.
    """
    return make_plan(spec_from(what, model, fields), registry or Registry())


def spec_from(
    what: str | RunSpec | Mapping[str, Any] | Path,
    model: str | None = None,
    fields: Mapping[str, Any] | None = None,
) -> RunSpec:
    """The run spec that the arguments of `run` describe; raises UsageError."""
    fields = dict(fields or {})
    known = [field.name for field in attrs.fields(RunSpec)]
    for name in fields:
        if name not in known:
            raise UnknownName("field of a run spec", name, known)
    if isinstance(what, str) and model is not None:
        return RunSpec(**{"framework": what, "model": model, **fields})
    if model is not None:
        raise UsageError(
            "A model's name belongs to a framework's name; a whole spec already names its model."
        )
    if isinstance(what, str | Path):
        return RunSpec.load(what, **fields)
    spec = what if isinstance(what, RunSpec) else RunSpec.from_dict(what)
    return attrs.evolve(spec, **fields)
