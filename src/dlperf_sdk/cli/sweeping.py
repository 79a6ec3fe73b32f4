"""Several values of a field in one command: the cases of `run torch resnet50 --batch-size 2,4,8`, as a campaign."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from dlperf_sdk.cli import campaigning
from dlperf_sdk.cli.case_arguments import spec_of
from dlperf_sdk.cli.flags import Sweep, collect_fields, parse_scalar, text_options
from dlperf_sdk.cli.output import say_uploaded
from dlperf_sdk.cli.screen import Common, say
from dlperf_sdk.errors import UsageError
from dlperf_sdk.folders import CAMPAIGNS, RESULTS

if TYPE_CHECKING:
    from dlperf_sdk.campaigns.campaign import Campaign
    from dlperf_sdk.campaigns.runner import Outcome
    from dlperf_sdk.cli.running import OutputOptions
    from dlperf_sdk.spec.run_spec import RunSpec


def has_several(case: str, model: str | None, flags: dict[str, Any]) -> bool:
    """Return True if a command's arguments and flags give a field or an option more than one value.

    If the value of an option contains a comma, the plugins of the case are loaded: in an option that is a text, a comma
    does not separate values.

    Args:
        case: A framework's name, several separated by commas, or the path of a spec file.
        model: A model's name, or several separated by commas; None with a spec file.
        flags: Name of a field of `RunSpec` → value of its flag, a `Sweep` for several; None: not given.

    Raises:
        SpecError: An entry of a repeated flag, such as `--set`, is malformed.
        UsageError, UnknownName, SpecError, DocumentError: The plugins are loaded, and the arguments describe no valid
            case.
        PluginError: The plugins are loaded, and one of them cannot be used.
    """
    if (model is not None and "," in case + model) or any(
        isinstance(value, Sweep) for value in flags.values()
    ):
        return True
    options = collect_fields(flags).get("options", {})
    if not any("," in value for value in options.values()):
        return False
    return bool(_swept_options(spec_of(case, model, flags)))


def make_sweep(case: str, model: str | None, flags: dict[str, Any], *, trace: bool = False) -> Campaign:
    """Return the campaign of all combinations of the values in a command's arguments and flags.

    Args:
        case: A framework's name, several separated by commas, or the path of a spec file.
        model: A model's name, or several separated by commas; None with a spec file.
        flags: Name of a field of `RunSpec` → value of its flag, a `Sweep` for several; None: not given.
        trace: True for an extra attempt of every case under its framework's profiler.

    Raises:
        UsageError, UnknownName, SpecError, DocumentError: The first combination is not a valid case. The others are not
            checked here.
        PluginError: A plugin whose options are set cannot be used.
    """
    from dlperf_sdk.campaigns.campaign import make_campaign
    from dlperf_sdk.campaigns.matrix import Matrix
    from dlperf_sdk.spec.run_spec import RunSpec

    axes: dict[str, list[Any]] = {
        name: list(value) for name, value in flags.items() if isinstance(value, Sweep)
    }
    first = {**flags, **{name: values[0] for name, values in axes.items()}}
    if model is not None:
        for name, text in (("model", model), ("framework", case)):
            if "," in text:
                axes = {name: text.split(","), **axes}
    spec = spec_of(
        case if model is None else case.partition(",")[0],
        None if model is None else model.partition(",")[0],
        first,
    )
    options = _swept_options(spec)
    fields = {field.name: getattr(spec, field.name) for field in attrs.fields(RunSpec)}
    fields["options"] = {name: value for name, value in spec.options.items() if name not in options}
    matrix = Matrix(
        fields={name: value for name, value in fields.items() if name not in axes},
        axes={**axes, **{f"options.{name}": values for name, values in options.items()}},
    )
    return attrs.evolve(make_campaign(matrix, trace=trace), name=f"{spec.model}-sweep")


def run_sweep(sweep: Campaign, output_options: OutputOptions, common: Common) -> int:
    """Run the cases of a sweep, print a table of them, write `report.html` to its directory, and return the exit code.

    The directory is a new one in the directory of `--output` or, if that is the default, in `dlperf-campaigns`. With
    `--json` or without a result, no report is written. If the extra `report` is not installed, a message says how to
    get the report. The exit code is 0 if all cases finished and are valid, 1 if all cases finished and an integrity
    verdict failed, 4 if all cases failed, else 5.

    Args:
        sweep: The campaign.
        output_options: Options about the display and where results are stored, such as `--output` and `--store`.
        common: The options `--json` and `--debug`.

    Raises:
        UsageError: `--redact` is given, `--store` is not a database, or standard output cannot be written.
        CampaignError, SpecError, UnknownName: The campaign cannot be planned, or a plugin does not exist.
        StoreError, DocumentError: A file of the campaign cannot be read or written.
        PluginError: A plugin that is needed does not work.
        Unavailable: The directory could no longer be written. Finished repeats are kept.
        KeyboardInterrupt: The user pressed Ctrl-C; the message says how to continue.
        SystemExit, LostNode: This process belongs to a job, and another process of it is the controller.
    """
    from dlperf_sdk.campaigns.campaign_directory import create_campaign
    from dlperf_sdk.campaigns.planning import list_runnable, plan_campaign
    from dlperf_sdk.execution.controlling import controlling
    from dlperf_sdk.execution.uploading import make_uploaders
    from dlperf_sdk.registry.plugins import Registry
    from dlperf_sdk.results.store import ResultStore

    if output_options.redact:
        raise UsageError(
            "Several values make a campaign, whose output is not redacted; redact its report: "
            "`dlperf report DIR --redact`."
        )
    stamp, entries = plan_campaign(sweep, Registry())
    parent = CAMPAIGNS if output_options.output == RESULTS else output_options.output
    path = parent / f"{stamp}-{sweep.name}"
    uploaders = make_uploaders(output_options.store, ResultStore(path / "runs"))
    with controlling(list_runnable(entries), Registry()) as set_exit_code:
        directory = create_campaign(path, sweep, entries, stamp)
        outcome = campaigning.run_shown(directory, output_options.quiet, observers=uploaders)
        exit_code = campaigning.present(outcome, common)
        say_uploaded(uploaders)
        if not common.json:
            _write_report(outcome)
        set_exit_code(exit_code)
    return exit_code


def _write_report(outcome: Outcome) -> None:
    """Write the HTML report, or say how to get it."""
    from dlperf_sdk.reports import html
    from dlperf_sdk.results.files import directory_of, explain_os_errors, write_whole

    directory: Path = outcome.directory.path
    results = list(outcome.results())
    if not results:
        return
    try:
        document = html.report_on_results(results)
    except UsageError as error:
        say(f"No plot: {error} Then: `dlperf report {directory} -o report.html`.")
        return
    with explain_os_errors(directory), directory_of(directory, ()) as descriptor:
        write_whole(descriptor, "report.html", document.encode())
    say(f"Table and plots: {directory / 'report.html'}")


def _swept_options(spec: RunSpec) -> dict[str, list[Any]]:
    """Return the options that have several values, with these.

    A comma in an option that is text belongs to the text.
    """
    from dlperf_sdk.registry.plugins import Registry

    registry = Registry()
    owners = (
        registry.model(spec.model),
        registry.framework(spec.framework),
        registry.topology(spec.topology.launcher),
    )
    texts = text_options(*owners)
    return {
        name: [parse_scalar(part) for part in value.split(",")]
        for name, value in spec.options.items()
        if isinstance(value, str) and "," in value and name not in texts
    }
