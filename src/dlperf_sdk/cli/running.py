"""`run`, `plan` and `rerun`: measure a case, or show its plan."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from attrs import define, frozen
from cyclopts import Group, Parameter

from dlperf_sdk.cli import campaigning, sweeping
from dlperf_sdk.cli.case_arguments import spec_of
from dlperf_sdk.cli.common_flags import ALLOW, QUIET, UPLOAD, switch
from dlperf_sdk.cli.flags import add_case_flags, collect_fields
from dlperf_sdk.cli.output import say_uploaded
from dlperf_sdk.cli.screen import (
    AS_USUAL,
    INTERRUPTED,
    Common,
    command,
    complain,
    emit,
    say,
    show,
)
from dlperf_sdk.errors import DlperfError, Unsupported, UsageError
from dlperf_sdk.folders import RESULTS
from dlperf_sdk.hookspecs import hookimpl

if TYPE_CHECKING:
    from dlperf_sdk.results.result import Result
    from dlperf_sdk.results.store import ResultStore
    from dlperf_sdk.spec.run_spec import RunSpec

OUTPUT = Group("Output", sort_key=0)


@Parameter(name="*", group=OUTPUT)
@frozen
class OutputOptions:
    """Options about the display of a run, and about the directory of its files."""

    output: Annotated[
        Path,
        Parameter(
            metavar="DIR",
            help="Parent directory of the runs' directories, which contain records, logs and report.",
        ),
    ] = RESULTS
    store: UPLOAD = None
    quiet: QUIET = False
    verbose: Annotated[
        bool, switch("Show every line of an installation, and every process.", name=["--verbose", "-v"])
    ] = False
    redact: Annotated[
        bool,
        switch("Omit names of hosts and users from the output and from report.md."),
    ] = False


DEFAULT_OUTPUT = OutputOptions()
"""Show the progress; write to `dlperf-results`."""


@define
class _ResultObserver:
    """Holds on to what the hooks tell, for the case that `run` cannot return it: after Ctrl-C."""

    result: Result | None = None
    directory: Path | None = None

    @hookimpl
    def dlperf_run_started(self, directory: str | None) -> None:
        self.directory = None if directory is None else Path(directory)

    @hookimpl
    def dlperf_result(self, result: Result) -> None:
        self.result = result


@command
@add_case_flags
def run(
    framework: Annotated[
        str,
        Parameter(help="A framework's name, or a spec file (.toml, .json, .yaml) with the complete case."),
    ],
    model: Annotated[str | None, Parameter(help="A model's name; not with a spec file.")] = None,
    /,
    *,
    dry_run: Annotated[bool, switch("Show the plan and start nothing.", group=OUTPUT)] = False,
    trace: Annotated[
        bool,
        switch(
            "Add an attempt under the framework's own profiler, for Perfetto; part of no metric.",
            group=OUTPUT,
        ),
    ] = False,
    output_options: OutputOptions = DEFAULT_OUTPUT,
    common: Common = AS_USUAL,
    **flags: Any,
) -> int:
    """Measure one case: train MODEL in FRAMEWORK for a few steps, several times, each time in new processes.

    Flags override fields of a spec file; --set, --env and --deadline add to them. Several values with commas between
    them (`torch,paddle`, `--batch-size 2,4,8`) measure every combination, as a campaign with one table.
    """
    from dlperf_sdk import api
    from dlperf_sdk.registry.capabilities import explain_missing_trace
    from dlperf_sdk.registry.plugins import Registry

    if dry_run and output_options.redact:
        raise UsageError("--redact omits names from results, and --dry-run has none; leave one of them out.")
    if sweeping.has_several(framework, model, flags):
        sweep = sweeping.make_sweep(framework, model, flags, trace=trace)
        if dry_run:
            return campaigning.show_plan(sweep, False, common)
        return sweeping.run_sweep(sweep, output_options, common)
    spec = spec_of(framework, model, flags)
    if dry_run:
        if trace and (refusal := explain_missing_trace(Registry().framework(spec.framework))):
            raise Unsupported(refusal)
        return _show_plan(spec, common)
    return run_case(
        lambda store, observers: api.run(spec, store=store, observers=observers, trace=trace, progress=False),
        output_options,
        common,
    )


@command
@add_case_flags
def plan(
    framework: Annotated[
        str,
        Parameter(help="A framework's name, or a spec file (.toml, .json, .yaml) with the complete case."),
    ],
    model: Annotated[str | None, Parameter(help="A model's name; not with a spec file.")] = None,
    /,
    *,
    files: Annotated[bool, switch("List the files that each node gets, instead.")] = False,
    common: Common = AS_USUAL,
    **flags: Any,
) -> int:
    """Show what a run would do, and start nothing: processes, variables, commands, environment.

    For a campaign file: its cases, skipped cases with reasons, and the estimated duration.
    """
    from dlperf_sdk.campaigns.file import is_campaign, load_campaign

    if model is None and is_campaign(framework):
        if collect_fields(flags) or files:
            raise UsageError("A campaign's cases have their fields in its file; leave the flags out.")
        return campaigning.show_plan(load_campaign(framework), False, common)
    if sweeping.has_several(framework, model, flags):
        if files:
            raise UsageError("--files lists the files of one case; give one value of each field.")
        return campaigning.show_plan(sweeping.make_sweep(framework, model, flags), False, common)
    return _show_plan(spec_of(framework, model, flags), common, files)


@command
def rerun(
    result: Annotated[
        str, Parameter(help="A run's name in DIR, or the path of a run's directory or result.json.")
    ],
    /,
    *,
    allow: ALLOW = (),
    output_options: OutputOptions = DEFAULT_OUTPUT,
    common: Common = AS_USUAL,
) -> int:
    """Measure the case of a result again, in the environment that its lock describes."""
    from dlperf_sdk import api
    from dlperf_sdk.results.store import ResultStore

    before = ResultStore(output_options.output).load(result)
    return run_case(
        lambda store, observers: api.rerun(
            before, allow=allow, store=store, observers=observers, progress=False
        ),
        output_options,
        common,
    )


def _show_plan(spec: RunSpec, common: Common, files: bool = False) -> int:
    from dlperf_sdk import api
    from dlperf_sdk.cli import planning

    outline = planning.outline(api.dry_run(spec))
    if common.json:
        emit(outline.to_dict())
    else:
        show([outline.file_table()] if files else outline.blocks())
    return 0


def run_case(measure: Any, output_options: OutputOptions, common: Common) -> int:
    """Measure a case, show its progress and its result, and return the exit code.

    The exit code is `Result.exit_code`: 0 for a valid result, 1 if an integrity verdict failed, 3, 4 or 5 for a failed
    case. The report is written to `report.md` beside the result. After Ctrl-C, the finished repeats are shown, and the
    exit code is 130. Other exceptions of `measure` pass unchanged.

    Args:
        measure: Function that measures the case: it takes a store and a list of observers, and returns a `Result`.
        output_options: Options about the display and where results are stored, such as `--output` and `--store`.
        common: The options `--json` and `--debug`.

    Raises:
        UsageError: Options contradict each other, `--store` is not a database, or standard output cannot be written.
        PluginError: The plugin of the database in `--store` does not work.
    """
    from dlperf_sdk.execution.uploading import make_uploaders
    from dlperf_sdk.results.store import ResultStore

    if output_options.quiet and output_options.verbose:
        raise UsageError("--quiet and --verbose contradict each other; leave one of them out.")
    if output_options.redact and output_options.store is not None:
        raise UsageError(
            "--redact changes the output alone, and --store uploads the result as it is; leave one of them out."
        )
    store, witness = ResultStore(output_options.output), _ResultObserver()
    uploaders = make_uploaders(output_options.store, store)
    observers = [witness, *uploaders]
    try:
        if output_options.quiet:
            result = measure(store, observers)
        else:
            from dlperf_sdk.cli.consoles import error_console
            from dlperf_sdk.progress.display import display

            console = error_console()
            live = sys.stderr.isatty() and not console.is_dumb_terminal
            with display(
                console, live=live, verbose=output_options.verbose, redact=output_options.redact
            ) as watching:
                result = measure(store, [*observers, watching])
    except KeyboardInterrupt:
        return _conclude_interrupted(witness, store, output_options, common)
    exit_code = _present(result, store, output_options, common)
    say_uploaded(uploaders)
    return exit_code


def _conclude_interrupted(
    witness: _ResultObserver, store: ResultStore, output_options: OutputOptions, common: Common
) -> int:
    result = witness.result
    if result is None:
        hint = "" if witness.directory is None else f" What there is lies in {witness.directory}."
        return complain(
            KeyboardInterrupt(_redact_text(f"Interrupted.{hint}", output_options)), common, INTERRUPTED
        )
    if result.repeats and not common.json:
        _present(result, store, output_options, common)
    elif common.json:
        emit(_redact_result(result, output_options).to_dict())
    count = len(result.repeats)
    repeats = (
        "No repeat had finished"
        if not count
        else f"{count} finished repeat{'s are' if count > 1 else ' is'} kept"
    )
    say(
        f"Interrupted. {repeats}: {result.id if output_options.redact else store.directory / result.id}",
        "red",
    )
    return INTERRUPTED


def _present(result: Result, store: ResultStore, output_options: OutputOptions, common: Common) -> int:
    """Print a result, write its report to its directory, print what is wrong with it, and return the exit code."""
    from dlperf_sdk.reports import markdown, result_page
    from dlperf_sdk.results.result import FAIL, INTEGRITY

    printed_result = _redact_result(result, output_options)
    directory = store.directory / result.id
    try:
        store.reopen_run(result.id).write_report(markdown.text_of(result_page.page(printed_result)))
    except DlperfError as error:
        say(_redact_text(f"The report was not written: {error}", output_options), "red")
    if common.json:
        emit(printed_result.to_dict())
    else:
        show(result_page.page(printed_result, None if output_options.redact else directory))
    failure = printed_result.failure
    if failure is not None and common.debug and failure.traceback:
        say(failure.traceback)
    # On a terminal that shows both streams, the table already shows it.
    if common.json or not (sys.stdout.isatty() and sys.stderr.isatty()):
        for verdict in printed_result.verdicts:
            if verdict.kind == INTEGRITY and verdict.outcome == FAIL:
                say(
                    f"Error: {verdict.name} failed, so the number is not valid: {verdict.detail}",
                    "red",
                )
        # Last, because it is the cause.
        if failure is not None and result.status != "interrupted":
            say(f"Error: {' '.join(failure.message.split())}", "red")
    return result.exit_code


def _redact_text(text: str, output_options: OutputOptions) -> str:
    if not output_options.redact:
        return text
    from dlperf_sdk.cli.redacting import make_redactor

    return make_redactor([output_options.output])(text)


def _redact_result(result: Result, output_options: OutputOptions) -> Result:
    if not output_options.redact:
        return result
    from dlperf_sdk.cli.redacting import redact_local

    return redact_local(result)
