"""The public functions: `run`, `rerun` and `dry_run` for one case, `campaign` and `resume` for many.

Each function imports its dependencies when it is called, so that `from dlperf_sdk import run` stays fast.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from dlperf_sdk.errors import RunFailed, UsageError
from dlperf_sdk.folders import CAMPAIGNS, RESULTS

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
    from dlperf_sdk.spec.run_spec import RunSpec


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
        model: The model's name; None with a complete spec.
        store: The store, or its directory, in which the run's directory is written during the run; None: nothing is
            stored.
        observers: Objects with hook implementations, see `dlperf_sdk.hookspecs`.
        registry: The plugins; None for the installed ones.
        raise_on_failure: True to raise the failure of a case instead of returning it.
        trace: True for an extra attempt under the framework's own profiler. Its trace, for Perfetto, is in the
            store, and the result has a summary. A case of a framework that offers no profiler fails before anything
            is measured.
        progress: `"auto"` shows the progress on a terminal and in a notebook only; True shows it anywhere, False
            nowhere. A function is called with each `dlperf_sdk.progress.watching.Progress`.
        fields: Fields of `RunSpec`, in place of those in `spec`.

    Returns:
        The result. If the case failed, the result has a `failure`. If the store fails during the run, the failure's
        kind is `unavailable`, and the result has everything that was measured, written or not.

    Raises:
        UsageError: The arguments describe no case, a data folder does not exist, or the store cannot be written.
            Nothing was started. The exception may be of a subclass, such as `SpecError`.
        PluginError: A plugin that is needed, or a given observer, does not work. Nothing was measured.
        RunFailed: The case failed, and `raise_on_failure` is set.
        InvalidRecord: The result breaks its own schema, and was not written.
        KeyboardInterrupt: The user pressed Ctrl-C. Everything has been ended, and finished repeats are in the
            store.
        SystemExit: The launcher runs inside of a job, this process is not the job's controller, and the controller has
            ended. The exit code is that of the controller.
        LostNode: As for `SystemExit`, but the controller was not found or was lost.
    """
    from dlperf_sdk import data, max_batch
    from dlperf_sdk.execution.case import Case
    from dlperf_sdk.execution.controlling import controlling
    from dlperf_sdk.execution.execute import execute
    from dlperf_sdk.hookspecs import Observers
    from dlperf_sdk.planning.spec_arguments import keyword_only_names, spec_from
    from dlperf_sdk.progress.watching import watching
    from dlperf_sdk.registry.capabilities import explain_missing_trace
    from dlperf_sdk.registry.plugins import Registry
    from dlperf_sdk.results.records import Failure

    registry = registry or Registry()
    run_spec = spec_from(spec, model, fields, keyword_only_names(run), registry)
    data.check_exists(run_spec.data)
    with controlling([run_spec], registry) as set_exit_code, watching(progress) as displays:
        loaded = Observers.load([*observers, *displays])
        if trace and (refusal := explain_missing_trace(registry.framework(run_spec.framework))):
            failure = Failure("unsupported", refusal)
            case = Case.begin(run_spec, store, loaded, registry, refusal=failure)
        elif run_spec.wants_max_batch:
            case = max_batch.begin_case(run_spec, store, loaded, registry)
        else:
            case = Case.begin(run_spec, store, loaded, registry)
        result = execute(
            case, [case.prepare, case.check_parity, case.measure, *([case.trace] if trace else [])]
        )
        set_exit_code(result.exit_code)
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

    A result may come from anybody. Settings in it that decide which code is executed are refused unless `allow` has
    their name: `rerun(result, allow=["container"])`. These are the container; environment variables, except those
    known to tune only threads, memory, logging or transport; flags of launchers; and, under the name `lock`,
    distributions that the plugin's own environment lacks. A recorded interpreter is not used: the environment is
    made from the lock.

    Args:
        result: The result.
        allow: Names of settings that decide which code is executed, and that are accepted.
        store: The store, or its directory, for the new run; None: nothing is stored.
        observers: Objects with hook implementations, see `dlperf_sdk.hookspecs`.
        registry: The plugins; None for the installed ones.
        raise_on_failure: True to raise the failure of a case instead of returning it.
        progress: `"auto"` shows the progress on a terminal and in a notebook only; True shows it anywhere, False
            nowhere. A function is called with each `dlperf_sdk.progress.watching.Progress`.

    Returns:
        The new result. If the case or the store failed, it has a `failure`.

    Raises:
        UsageError: The result has no environment, because its case failed earlier; its case cannot be planned here,
            a data folder does not exist, or the store cannot be written. Nothing was started. The exception may be of a
            subclass, such as `UnknownName`.
        SpecError: A setting decides which code is executed and is not in `allow`, or this shell lacks the value of
            a variable whose hash is in the result.
        DocumentError: The lock of the result is malformed.
        PluginError: A plugin that is needed, or a given observer, does not work. Nothing was measured.
        RunFailed: The case failed, and `raise_on_failure` is set.
        InvalidRecord: The new result breaks its own schema, and was not written.
        KeyboardInterrupt: The user pressed Ctrl-C. Everything has been ended, and finished repeats are in the
            store.
        SystemExit: The launcher runs inside of a job, this process is not the job's controller, and the controller has
            ended. The exit code is that of the controller.
        LostNode: As for `SystemExit`, but the controller was not found or was lost.
    """
    from dlperf_sdk import data
    from dlperf_sdk.execution.case import Case
    from dlperf_sdk.execution.controlling import controlling
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
    recorded = result.environment.variables  # includes values that were passed on from the shell
    spec = attrs.evolve(
        spec, env={name: recorded.get(name) if value is None else value for name, value in spec.env.items()}
    )
    source = f"The result {result.id}"
    # Before planning, which reads the files that the spec names.
    check_allowed([spec.to_dict()], source, allow, plugins)
    list_requested_variables(spec)
    check_allowed(
        [{"lock": _list_unlisted_packages(spec, result.environment, plugins)}], source, allow, plugins
    )
    data.check_exists(spec.data)
    with controlling([spec], plugins) as set_exit_code, watching(progress) as displays:
        case = Case.begin(spec, store, Observers.load([*observers, *displays]), plugins)
        repetition = execute(
            case, [partial(case.prepare, result.environment), case.check_parity, case.measure]
        )
        set_exit_code(repetition.exit_code)
    return repetition.raise_for_status() if raise_on_failure else repetition


def _list_unlisted_packages(spec: RunSpec, environment: Environment, registry: Registry) -> list[str]:
    """Return what a rerun without a container would install that is none of the plugin's own."""
    from dlperf_sdk import environments
    from dlperf_sdk.planning.plan import make_plan

    if spec.container is None:
        with suppress(UsageError, RunFailed):  # a case that cannot be planned installs nothing
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
    """Return the plan that `run` would execute. Nothing is created or started.

    Args:
        spec: A framework's name (with `model` and the fields of `RunSpec`), or a complete spec: a `RunSpec`, a
            mapping, or the path of a JSON, TOML or YAML file.
        model: The model's name; None with a complete spec.
        registry: The plugins; None for the installed ones.
        fields: Fields of `RunSpec`, in place of those in `spec`.

    Raises:
        UsageError: The arguments describe no case, or a case with the batch size `max`. The exception may be of a
            subclass, such as `SpecError`.
        PluginError: A plugin that is needed does not work.
        Unsupported: The framework or the model cannot run the case.
        Unavailable: The launcher cannot place the case from this machine.
    """
    from dlperf_sdk.planning.plan import make_plan
    from dlperf_sdk.planning.spec_arguments import keyword_only_names, spec_from
    from dlperf_sdk.registry.plugins import Registry

    return make_plan(
        spec_from(spec, model, fields, keyword_only_names(dry_run), registry), registry or Registry()
    )


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

        campaign(Matrix(fields={"model": "resnet50"}, axes={"framework": ["torch", "mxnet"]}))
        campaign("matrix.yaml", "campaigns/monday")
        campaign("preset:smoke")

    Args:
        cases: A `Matrix`, a `Campaign`, the path of a campaign file, or `preset:NAME`.
        directory: The campaign's directory; None: a new one in `dlperf-campaigns`.
        observers: Objects with hook implementations, which are called for every case.
        registry: The plugins; None for the installed ones.
        watch: Function that receives every entry of the journal, a dictionary of JSON values, once it is on the
            disk.
        settings: Fields of `dlperf_sdk.campaigns.campaign.Settings`, in place of those in `cases`, or of the defaults.

    Returns:
        The outcome, with the progress of each case. Failed cases are in it, too.

    Raises:
        UsageError: The campaign is invalid (the message names file and line), none of its cases can be run here, or
            the directory cannot be written or already contains a campaign. Nothing was started. The exception may be of
            a subclass, such as `CampaignError`.
        PluginError: A plugin that is needed, or a given observer, does not work.
        Unavailable: The directory could no longer be written. Everything has been ended, finished repeats are kept,
            and `resume` continues.
        KeyboardInterrupt: The user pressed Ctrl-C. Everything has been ended, and `resume` continues.
        SystemExit: The launcher runs inside of a job, this process is not the job's controller, and the controller has
            ended. The exit code is that of the controller.
        LostNode: As for `SystemExit`, but the controller was not found or was lost.
    """
    from dlperf_sdk.campaigns.campaign import make_campaign
    from dlperf_sdk.campaigns.campaign_directory import create_campaign
    from dlperf_sdk.campaigns.file import load_campaign
    from dlperf_sdk.campaigns.planning import list_runnable, plan_campaign
    from dlperf_sdk.campaigns.runner import run_campaign
    from dlperf_sdk.execution.controlling import controlling
    from dlperf_sdk.hookspecs import Observers
    from dlperf_sdk.registry.plugins import Registry

    definition = make_campaign(load_campaign(cases) if isinstance(cases, str | Path) else cases, **settings)
    plugins = registry or Registry()
    stamp, entries = plan_campaign(definition, plugins)
    path = CAMPAIGNS / f"{stamp}-{definition.name}" if directory is None else Path(directory)
    with controlling(list_runnable(entries), plugins) as set_exit_code:
        created = create_campaign(path, definition, entries, stamp)
        outcome = run_campaign(created, plugins, Observers.load(observers), watch)
        set_exit_code(outcome.exit_code)
    return outcome


def resume(
    directory: str | Path,
    *,
    retry: Iterable[str] = (),
    allow: Collection[str] = (),
    observers: Iterable[Any] = (),
    registry: Registry | None = None,
    watch: Watch = lambda entry: None,
) -> Outcome:
    """Continue a campaign: check the finished repeats on disk, and measure the missing ones.

    Args:
        directory: The campaign's directory.
        retry: Kinds of failure (`out-of-memory`, `crashed`, …), or `failed` for all. Concluded cases whose failure is
            of such a kind are measured again, and keep their finished repeats.
        allow: Names of settings that decide which code is executed, and that are accepted: the container, environment
            variables, and flags of launchers. Any other such setting of a case is refused.
        observers: Objects with hook implementations, which are called for every case.
        registry: The plugins; None for the installed ones.
        watch: Function that receives every entry of the journal, a dictionary of JSON values, once it is on the disk.

    Returns:
        The outcome, with the progress of each case.

    Raises:
        SpecError: A setting of a case decides which code is executed and is not in `allow`, or this shell lacks the
            value of a variable whose hash is in a case.
        UnknownName: There is no such kind of failure, or a name in the campaign does not exist.
        StoreError: There is no campaign in the directory, another controller runs it, jobs or agents of an earlier
            controller cannot be ended, or the directory cannot be written. Nothing was started.
        DocumentError: The campaign's `campaign.json` cannot be read.
        UsageError: This process belongs to a job that does not fit the cases.
        PluginError: A plugin that is needed, or a given observer, does not work.
        Unavailable: The directory could no longer be written. Everything has been ended, finished repeats are kept,
            and `resume` continues.
        KeyboardInterrupt: The user pressed Ctrl-C. Everything has been ended, and `resume` continues.
        SystemExit: The launcher runs inside of a job, this process is not the job's controller, and the controller has
            ended. The exit code is that of the controller.
        LostNode: As for `SystemExit`, but the controller was not found or was lost.
    """
    from dlperf_sdk.campaigns.campaign_directory import reopen_campaign
    from dlperf_sdk.campaigns.runner import run_campaign
    from dlperf_sdk.execution.controlling import controlling
    from dlperf_sdk.hookspecs import Observers
    from dlperf_sdk.registry.plugins import Registry

    plugins = registry or Registry()
    reopened = reopen_campaign(Path(directory), allow, plugins)
    with controlling([case.spec for case in reopened.cases], plugins) as set_exit_code:
        outcome = run_campaign(reopened, plugins, Observers.load(observers), watch, retry)
        set_exit_code(outcome.exit_code)
    return outcome
