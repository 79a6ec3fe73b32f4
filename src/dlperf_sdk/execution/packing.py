"""Write a case as one file, for a machine without dlperf or for a scheduler."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from dlperf_sdk import data
from dlperf_sdk.errors import (
    UsageError,
)
from dlperf_sdk.execution.launch import bundle_metadata, make_job
from dlperf_sdk.execution.replay import restore_prepared
from dlperf_sdk.interfaces.topology import Submission
from dlperf_sdk.parity.evidence import ParityRun, plan_parity_run
from dlperf_sdk.planning import bundle
from dlperf_sdk.planning.plan import Plan, make_plan
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.files import check_replaceable, explain_os_errors
from dlperf_sdk.results.store import new_run_id
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.spec.secret_values import reveal


def pack(
    spec: RunSpec, path: Path, registry: Registry | None = None
) -> tuple[bundle.Bundle, tuple[str, ...]]:
    """Write a case as one file: a bundle, or a file for the launcher's scheduler that holds the bundle.

    A machine without dlperf can run a bundle: `python FILE run -o OUT`.

    Args:
        spec: The case.
        path: The file, which is replaced if it exists.
        registry: The plugins; None for the installed ones.

    Returns:
        A pair: the bundle; and the commands with which users submit the file to the scheduler, one text each. The
        second is empty if the file is the bundle itself.

    Raises:
        UsageError: The case is invalid, its data lies in a folder of this machine, or it names a container; or the
            launcher's file would hold the value of a secret variable.
        Unavailable: The launcher's scheduler does not take the case.
        PluginError: A plugin does not work.
        RunFailed: The case cannot be run.
        StoreError: The file cannot be written, or is not a regular file.
    """
    if spec.data.path is not None:
        raise UsageError(
            f"The data {spec.data} lies in a folder of this machine, and the file is for another one. "
            "Use synthetic data."
        )
    if spec.container is not None:
        raise UsageError(
            f"The case names the container {spec.container}, and the file is run by a Python that is there already. "
            "Leave --container out, and run the file inside it."
        )
    plugins = registry or Registry()
    planned = make_plan(spec, plugins)
    samples = data.prepare(
        spec.data, planned.model_options, planned.inputs, seed=spec.seed, on_progress=lambda *_: None
    )
    prepared = restore_prepared(planned, "", "", ("python3",))
    variables = {name: reveal({name: value}, {}).get(name) for name, value in planned.spec.env.items()}
    parity = plan_parity_run(planned, prepared, variables, plugins, use_cache=False)
    first, known = (parity.request, None) if isinstance(parity, ParityRun) else (None, parity)
    request = planned.request(new_run_id(spec, datetime.now(UTC)), prepared.command, variables, samples)
    with explain_os_errors(path):
        check_replaceable(path)
        packed = bundle.build(request, path, planned.packages, bundle_metadata(planned, known), first)
        try:
            submission = _make_submission(planned, packed, request.id, plugins)
        except BaseException:
            path.unlink()  # the bundle alone is not what the user asked for
            raise
        if submission is None:
            return packed, ()
        path.write_bytes(submission.content)  # the mode stays: only its owner can read it
        return packed, submission.commands


def _make_submission(plan: Plan, packed: bundle.Bundle, run_id: str, registry: Registry) -> Submission | None:
    """Return the file that the case's launcher makes of a bundle.

    Raises:
        UsageError: The bundle holds the value of a secret variable.
    """
    name = plan.spec.topology.launcher
    launcher = registry.topology(name)
    job = make_job(plan, run_id, packed.path, launcher)
    with registry.wrap_plugin_errors("topologies", name, "write a file for its scheduler"):
        submission = launcher.submission(job, str(packed.path))
    if submission is not None:
        secret = next((secret for secret in plan.secrets if plan.spec.env[secret] is not None), None)
        if secret is not None:
            raise UsageError(
                f"The file for {name} would hold the value of {secret}, which may be a secret. Write "
                f"--env {secret} without a value, and set {secret} where the agents run."
            )
    return submission
