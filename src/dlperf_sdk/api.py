"""The public functions: `run`, `rerun` and `dry_run` for one case, `campaign` and `resume` for many.

Each imports what it needs when it is called: `from dlperf_sdk import run` stays fast.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from dlperf_sdk.errors import DlperfError, UnknownName, UsageError
from dlperf_sdk.folders import CAMPAIGNS, RESULTS
from dlperf_sdk.spec.run_spec import RunSpec

if TYPE_CHECKING:
    from dlperf_sdk.campaigns.campaign import Campaign
    from dlperf_sdk.campaigns.matrix import Matrix
    from dlperf_sdk.campaigns.runner import Outcome
    from dlperf_sdk.campaigns.session import Watch
    from dlperf_sdk.planning.plan import Plan
    from dlperf_sdk.progress.watching import ProgressOption
    from dlperf_sdk.registry.plugins import Registry
    from dlperf_sdk.results.result import Environment, Result
    from dlperf_sdk.results.store import ResultStore

_FIELDS = {field.name for field in attrs.fields(RunSpec)}


def run(
    spec: str | RunSpec | Mapping[str, Any] | Path,
    model: str | None = None,
    *,
    store: ResultStore | str | Path | None = RESULTS,
    observers: Iterable[Any] = (),
    registry: Registry | None = None,
    raise_on_failure: bool = False,
    trace: bool = False,
    progress: ProgressOption = "auto",
    **fields: Any,
) -> Result:
    """Measure one case.

        run("torch", "resnet50", topology="1n2d", batch_size=32)
        run(RunSpec(framework="torch", model="resnet50"))
        run({"framework": "torch", "model": "resnet50"})
        run("case.toml")

    Args:
        spec: A framework's name (with `model` and the fields of `RunSpec`), or a complete spec: a `RunSpec`, a
            mapping, or the path of a JSON, TOML or YAML file.
        model: The model's name; not with a complete spec.
        store: Where the run's directory is written as it goes; None keeps nothing.
        observers: Objects with hook implementations, see `dlperf_sdk.hookspecs`.
        registry: The plugins to choose from; those that are installed, unless given.
        raise_on_failure: Raise the failure of a case instead of returning it.
        trace: Take an extra attempt under the framework's own profiler; its trace, for Perfetto, is kept in the store.
        progress: `"auto"` shows the progress on a terminal and in a notebook, and nothing elsewhere; True shows it
            anywhere, False nowhere; a function is called with each `dlperf_sdk.progress.watching.Progress`.
        fields: Fields of `RunSpec`, in place of those in `spec`.

    Returns:
        The result; a case that failed is a result with a `failure`. A store that fails in the middle is one, too, of
        the kind `unavailable`: then this is all there is of what could not be written.

    Raises:
        UsageError: what is asked for cannot be understood, its data folder does not exist, or the store cannot be
            written. Nothing was started.
        PluginError: a plugin that is needed does not work. Nothing was started.
        RunFailed: the case failed, and `raise_on_failure` is set.
        KeyboardInterrupt: somebody pressed Ctrl-C; everything has been ended, and finished repeats are in the store.
    """
    from dlperf_sdk import data, max_batch
    from dlperf_sdk.execution.case import Case
    from dlperf_sdk.execution.execute import execute
    from dlperf_sdk.hookspecs import Observers
    from dlperf_sdk.progress.watching import watching
    from dlperf_sdk.registry.plugins import Registry

    registry = registry or Registry()
    run_spec = spec_from(spec, model, fields, _keywords(run), registry)
    data.check_exists(run_spec.data)
    with watching(progress) as displays:
        loaded = Observers.load([*observers, *displays])
        if run_spec.wants_max_batch:
            case = max_batch.begin_case(run_spec, store, loaded, registry)
        else:
            case = Case.begin(run_spec, store, loaded, registry)
        result = execute(case, trace=trace)
    return result.raise_for_status() if raise_on_failure else result


def rerun(
    result: Result,
    *,
    allow: Collection[str] = (),
    store: ResultStore | str | Path | None = RESULTS,
    observers: Iterable[Any] = (),
    registry: Registry | None = None,
    raise_on_failure: bool = False,
    progress: ProgressOption = "auto",
) -> Result:
    """Measure the case of a result again, in the environment that its lock describes.

    A result may come from anybody. What it says of programs (the container, variables that are not known to tune only,
    flags of launchers, and as `lock` distributions that the plugin's own environment lacks) is executed where `allow`
    has its name: `rerun(result, allow=["container"])`. An interpreter that was named gives way to the lock.

    Args:
        result: The result.
        allow: Names of settings that decide what is executed.
        store: As in `run`, like the arguments below.
        observers: Objects with hook implementations.
        registry: The plugins.
        raise_on_failure: Raise the failure of a case instead of returning it.
        progress: Whether and where to show the progress.

    Raises:
        UsageError: the result has no environment: its case failed before it had one.
        SpecError: it names what is executed, and that is not among `allow`; or this shell lacks the value of a
            variable that the result has the hash of.
        PluginError, RunFailed, KeyboardInterrupt: as `run` does.
    """
    from dlperf_sdk import data
    from dlperf_sdk.execution.case import Case
    from dlperf_sdk.execution.execute import execute
    from dlperf_sdk.hookspecs import Observers
    from dlperf_sdk.planning.secret_variables import list_requested_variables
    from dlperf_sdk.planning.spec_file import check_allowed
    from dlperf_sdk.progress.watching import watching
    from dlperf_sdk.registry.plugins import Registry

    if result.environment is None:
        raise UsageError(f"The result {result.id} has no environment to repeat it in; run its spec instead.")
    spec, plugins = result.spec, registry or Registry()
    if spec.container is None:
        spec = attrs.evolve(spec, python=None)
    recorded = result.environment.variables  # also of those that were handed on from the shell
    spec = attrs.evolve(
        spec, env={name: recorded.get(name) if value is None else value for name, value in spec.env.items()}
    )
    source = f"The result {result.id}"
    check_allowed([spec.to_dict()], source, allow, plugins)  # before it is planned, which reads what it names
    list_requested_variables(spec)
    check_allowed(
        [{"lock": _list_unlisted_packages(spec, result.environment, plugins)}], source, allow, plugins
    )
    data.check_exists(spec.data)
    with watching(progress) as displays:
        case = Case.begin(spec, store, Observers.load([*observers, *displays]), plugins)
        repetition = execute(case, environment_from=result.environment)
    return repetition.raise_for_status() if raise_on_failure else repetition


def _list_unlisted_packages(spec: RunSpec, environment: Environment, registry: Registry) -> list[str]:
    """Return what a rerun without a container would install that is none of the plugin's own."""
    from dlperf_sdk import environments
    from dlperf_sdk.planning.plan import make_plan

    if spec.container is None:
        with suppress(DlperfError):  # a case that cannot be planned installs nothing, and its run says why
            plan = make_plan(spec, registry)
            return environments.list_unlisted_packages(
                spec.framework, plan.device, environment.python, environment.lock, plan.environment
            )
    return []


def dry_run(
    spec: str | RunSpec | Mapping[str, Any] | Path,
    model: str | None = None,
    *,
    registry: Registry | None = None,
    **fields: Any,
) -> Plan:
    """Return the plan that `run` would execute, without creating or starting anything.

    The arguments are those of `run`.

    Raises:
        UsageError, PluginError: as `run` does.
        Unsupported, Unavailable: the case cannot be run.
    """
    from dlperf_sdk.planning.plan import make_plan
    from dlperf_sdk.registry.plugins import Registry

    return make_plan(spec_from(spec, model, fields, _keywords(dry_run), registry), registry or Registry())


def campaign(
    cases: Matrix | Campaign | str | Path,
    directory: str | Path | None = None,
    *,
    observers: Iterable[Any] = (),
    registry: Registry | None = None,
    watch: Watch = lambda entry: None,
    **settings: Any,
) -> Outcome:
    """Measure all cases of a campaign, unattended.

        campaign(Matrix(fields={"model": "resnet50"}, axes={"framework": ["torch", "mxnet"], "batch_size": [32, 64]}))
        campaign("matrix.yaml", "campaigns/monday")
        campaign("preset:smoke")

    Args:
        cases: A `Matrix`, or the path of a campaign file, or `preset:NAME`.
        directory: Where it is kept; a new one in `dlperf-campaigns` unless given.
        observers: Objects with hook implementations, told of every case.
        registry: The plugins to choose from; those that are installed, unless given.
        watch: Is called with every entry of the journal when it is on the disk.
        settings: Fields of `dlperf_sdk.campaigns.campaign.Settings`, in place of the file's.

    Raises:
        UsageError: the campaign cannot be understood (the message says in which line), or its directory cannot be
            written, or holds a campaign already. Nothing was started.
        PluginError: a plugin that is needed does not work.
        Unavailable: its directory could not be written any more in the middle. Everything has been ended; what was
            finished is kept, and `resume` goes on.
        KeyboardInterrupt: everything has been ended; `resume` goes on.
    """
    from dlperf_sdk.campaigns.campaign import make_campaign
    from dlperf_sdk.campaigns.campaign_directory import create_campaign
    from dlperf_sdk.campaigns.file import load_campaign
    from dlperf_sdk.campaigns.planning import plan_campaign
    from dlperf_sdk.campaigns.runner import run_campaign
    from dlperf_sdk.hookspecs import Observers
    from dlperf_sdk.registry.plugins import Registry

    definition = make_campaign(load_campaign(cases) if isinstance(cases, str | Path) else cases, **settings)
    plugins = registry or Registry()
    stamp, entries = plan_campaign(definition, plugins)
    path = CAMPAIGNS / f"{stamp}-{definition.name}" if directory is None else Path(directory)
    created = create_campaign(path, definition, entries, stamp)
    return run_campaign(created, plugins, Observers.load(observers), watch)


def resume(
    directory: str | Path,
    *,
    retry: Iterable[str] = (),
    allow: Collection[str] = (),
    observers: Iterable[Any] = (),
    registry: Registry | None = None,
    watch: Watch = lambda entry: None,
) -> Outcome:
    """Continue a campaign: check what was measured, and measure what is missing.

    Args:
        directory: The campaign's directory.
        retry: Kinds of failure (`out-of-memory`, `crashed`, …), or `failed` for all: cases that failed so are measured
            again, and keep the repeats that they had finished.
        allow: Names of settings that decide what is executed, see `rerun`.
        observers: Objects with hook implementations, notified of every case.
        registry: The plugins; those that are installed, unless given.
        watch: Called with every entry of the journal when it is on the disk.

    Raises:
        SpecError: a case names what is executed, and that is not among `allow`.
        UnknownName: there is no such kind of failure.
        StoreError: there is no campaign in the directory, another controller is at work on it, or it cannot be
            written. Nothing was started.
        PluginError, Unavailable, KeyboardInterrupt: as `campaign` does.
    """
    from dlperf_sdk.campaigns.campaign_directory import reopen_campaign
    from dlperf_sdk.campaigns.runner import run_campaign
    from dlperf_sdk.hookspecs import Observers
    from dlperf_sdk.registry.plugins import Registry

    plugins = registry or Registry()
    reopened = reopen_campaign(Path(directory), allow, plugins)
    return run_campaign(reopened, plugins, Observers.load(observers), watch, retry)


def spec_from(
    spec: str | RunSpec | Mapping[str, Any] | Path,
    model: str | None = None,
    fields: Mapping[str, Any] | None = None,
    keywords: Iterable[str] = (),
    registry: Registry | None = None,
) -> RunSpec:
    """Return the run spec that the arguments of `run` describe.

    `keywords` are the caller's arguments beside the fields, for suggestions.

    Raises:
        UsageError: an argument has no meaning, or an impossible value.
    """
    fields = dict(fields or {})
    for name in fields:
        if name not in _FIELDS:
            hint = _option_hint(name, fields[name], [spec, model], registry)
            raise UnknownName("argument", name, {*_FIELDS, *keywords}, hint)
    if isinstance(spec, str) and model is not None:
        return RunSpec(**{"framework": spec, "model": model, **fields})
    if model is not None:
        raise UsageError(
            "A model's name belongs to a framework's name; a whole spec already names its model."
        )
    if isinstance(spec, str | Path):
        from dlperf_sdk.planning.spec_file import load_spec

        return load_spec(Path(spec), fields, registry)
    run_spec = spec if isinstance(spec, RunSpec) else RunSpec.from_dict(spec)
    return attrs.evolve(run_spec, **fields)


def _option_hint(name: str, value: Any, plugins: Iterable[Any], registry: Registry | None) -> str:
    """Return how to give an argument that is an option of a framework or model; empty if it is none."""
    from dlperf_sdk.planning.spec_file import declaration_lookup
    from dlperf_sdk.registry.plugins import Registry

    look_up = declaration_lookup(registry or Registry())
    for group, plugin in zip(("frameworks", "models"), plugins, strict=True):
        if isinstance(plugin, str) and name in look_up(group, plugin).options:
            return f"It is an option of {plugin}: give options={{{name!r}: {value!r}}}."
    return ""


def _keywords(function: Callable[..., Any]) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
