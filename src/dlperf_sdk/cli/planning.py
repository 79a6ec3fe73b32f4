"""The plan of a case in full, for `dlperf plan` and `run --dry-run`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from attrs import frozen

from dlperf_sdk import data, environments
from dlperf_sdk.execution.launch import make_job
from dlperf_sdk.parity.evidence import describe_parity_run
from dlperf_sdk.planning import bundle
from dlperf_sdk.planning.plan import Plan
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.reports.blocks import Block, Cell, Column, Heading, Labels, Paragraph, Table, Verbatim
from dlperf_sdk.reports.numbers import format_count, quantity
from dlperf_sdk.spec.part import PARTS
from dlperf_sdk.spec.python_version import is_version
from dlperf_sdk.spec.secret_values import is_hash
from dlperf_sdk.spec.values import format_scalar

# Placeholders for what a plan cannot know yet.
_PYTHON = "<python of the environment>"
_BUNDLE = Path("<bundle>")
_RUN = "<run>"
_SHOWN = 16
"""Rows of a table of processes or commands."""
_T = TypeVar("_T")


@frozen
class Outline:
    """A plan, with the commands and files of its launch."""

    plan: Plan
    """The plan."""
    commands: tuple[tuple[str, ...], ...]
    """The launcher's commands, each as its words."""
    script: str | None
    """Batch script on the standard input of the commands; None without one."""
    files: tuple[tuple[str, int], ...]
    """Name and size in bytes of each file in the bundle, including the agents' secret."""
    parity: str
    """Phrase about the parity run, or `none: ` and the reason why there is none."""
    folder: str | None
    """Phrase about the contents of the data's folder; None if there is nothing to tell."""

    def to_dict(self) -> dict[str, Any]:
        """Return the outline as JSON values.

        The keys are those of `Plan.to_dict`, and these:

        - `parity`: a phrase about the parity run.
        - `folder`: a phrase about the contents of the data's folder, or null.
        - `commands`: a list of the launcher's commands, each a list of words.
        - `script`: the batch script on the standard input of the commands, or null.
        - `files`: a list with an object per file of the bundle, which has the keys `name` and `bytes` (the size).
        """
        return {
            **self.plan.to_dict(),
            "parity": self.parity,
            "folder": self.folder,
            "commands": [list(command) for command in self.commands],
            "script": self.script,
            "files": [{"name": name, "bytes": size} for name, size in self.files],
        }

    def blocks(self) -> list[Block]:
        """Return the outline as blocks: case, environment, processes, commands, and the size of the bundle."""
        plan = self.plan
        spec = plan.spec
        heading = f"{spec.framework} {spec.model} · {spec.topology} · {spec.precision} on {plan.device}"
        return [
            Heading(heading, Cell("a plan: nothing was started", "quiet")),
            self._case(),
            self._environment(),
            *self._processes(),
            *self._launch(),
            Paragraph(f"{self._bundle_size()}. `dlperf plan --files` lists them.", "quiet"),
        ]

    def _case(self) -> Labels:
        plan, spec, protocol, workload = self.plan, self.plan.spec, self.plan.protocol, self.plan.workload
        options = {**plan.model_options, **plan.framework_options}
        repeats = f"{protocol.repeats} repeats"
        if protocol.target is not None:
            repeats = (
                f"{protocol.repeats} to {protocol.max_repeats} repeats, planned from the first ones to know the "
                f"median within about ±{100 * protocol.target:g} %"
            )
        batch = (
            f"{spec.batch_size:,} per device × {format_count(spec.topology.devices, 'device')} = "
            f"{spec.global_batch_size:,} in all"
        )
        if spec.accumulation > 1:
            batch += f", in {spec.accumulation} micro-batches"
        return Labels(
            (
                ("Batch", batch),
                ("Parameters", f"{workload.parameters:,}, in {format_count(len(plan.parameters), 'tensor')}"),
                *([] if spec.part == PARTS.default else [("Step", f"a step {PARTS[spec.part].step}")]),
                ("FLOPs", f"{quantity(workload.flops_per_sample, 'FLOP')} per sample and training step"),
                ("Optimizer", _format_assignments(_without_none(plan.optimizer))),
                ("", Cell(str(workload.optimizer.get("source", "")), "quiet")),
                ("Options", _format_assignments(_without_none(options)) or "none"),
                ("Compiler", f"{spec.compiler}; strategy {spec.strategy}, layout {spec.layout}"),
                ("Data", str(spec.data) if self.folder is None else f"{spec.data}: {self.folder}"),
                (
                    "Protocol",
                    f"{protocol.name}: {protocol.canonical_steps} steps on the canonical batch, "
                    f"{protocol.warmup} warm-up, {protocol.steps} measured; {repeats}",
                ),
                ("Parity", self.parity),
                (
                    "Deadlines",
                    ", ".join(f"{phase} {seconds:g} s" for phase, seconds in plan.deadlines.items()),
                ),
            )
        )

    def _environment(self) -> Labels:
        environment, spec, programs = self.plan.environment, self.plan.spec, self.plan.required_programs
        if spec.python and not is_version(spec.python):
            method = f"the interpreter {spec.python}"
        else:
            method = "the running interpreter if it will do, else a managed one"
            method += f", of Python {spec.python}" if spec.python else ""
        variables = {
            name: "(this shell's)" if value is None else "(secret)" if is_hash(value) else value
            for name, value in spec.env.items()
        }
        pairs = [
            ("Environment", method),
            ("Python", environment.python),
            ("Requirements", ", ".join(environment.requirements) or "none"),
            *([("Programs", ", ".join(programs))] if programs else []),
            (
                "Lock",
                "shipped with the plugin"
                if environment.lock is not None
                else "none; resolved when it is made",
            ),
            ("Plugin", self.plan.plugin),
        ]
        if variables:
            pairs.append(("Variables", _format_assignments(variables)))
        return Labels(tuple(pairs))

    def _processes(self) -> list[Block]:
        processes = self.plan.placeholder_processes()
        rows = []
        for process in _ends(processes):
            variables = "\n".join(
                f"{name}={_on_one_line(value)}" for name, value in process.variables.items()
            )
            rows.append(
                (
                    "" if process.rank is None else str(process.rank),
                    str(process.node),
                    process.role if process.target is None else f"{process.role} {process.target}",
                    ", ".join(map(str, process.devices)),
                    ", ".join(map(str, process.replicas)),
                    variables or "none",
                )
            )
        columns = (
            Column("rank", right=True),
            Column("node", right=True),
            Column("role"),
            Column("device"),
            Column("replica"),
            Column("variables"),
        )
        note = "Each repeat starts them anew, beside what the environment and --env give them."
        title = f"Processes{_of_how_many(processes)}"
        return [Table(columns, tuple(rows), title), Paragraph(note, "quiet")]

    def _launch(self) -> list[Block]:
        lines = [_on_one_line(" ".join(command)) for command in self.commands]
        if self.script is None and len(lines) == self.plan.spec.topology.nodes:
            columns = (Column("node", right=True), Column("command"))
            rows = tuple((str(node), command) for node, command in _ends(tuple(enumerate(lines))))
            blocks: list[Block] = [Table(columns, rows, f"Commands, one per node{_of_how_many(lines)}")]
        else:
            blocks = [Table((Column("command"),), tuple((command,) for command in lines), "Commands")]
        if self.script is not None:
            blocks.append(Verbatim(self.script, "Batch script, on its standard input"))
        return blocks

    def file_table(self) -> Table:
        """Return a table of the bundle's files with their sizes."""
        columns = (Column("file"), Column("bytes", right=True))
        return Table(columns, tuple((name, f"{size:,}") for name, size in self.files), self._bundle_size())

    def _bundle_size(self) -> str:
        total = sum(size for _, size in self.files)
        return f"Bundle: {len(self.files)} files, {quantity(total, 'B')} before compression"


def outline(plan: Plan) -> Outline:
    """Return the outline of a plan: the commands and files of its launch. Nothing is started or written.

    Raises:
        PluginError: A package of the bundle or a plugin of the plan cannot be used.
        UnknownName: A plugin of the plan is no longer installed.
        SpecError: The data's folder does not exist, or its contents do not fit the model.
        EnvironmentFailed: The interpreter that the spec names does not exist.
        Unavailable: The data's folder cannot be read, or contains no data; or the launcher's options do not suffice.
        DocumentError: A file in the data's folder is malformed, or not a regular file in this folder.
    """
    spec = plan.spec
    if spec.python is not None and spec.container is None:
        environments.check_exists(spec.python)
    source = spec.executed.data
    data.check_exists(source)
    fields = {"source": source.source} | ({} if source.path is None else {"path": source.path})
    contents = bundle.contents(plan.request(_RUN, (_PYTHON,), spec.env, fields), plan.packages)
    registry = Registry()
    launcher = registry.topology(spec.topology.launcher)
    job = make_job(plan, _RUN, _BUNDLE, launcher)
    return Outline(
        plan=plan,
        commands=launcher.commands(job),
        script=launcher.script(job),
        files=(*((name, len(content)) for name, content in contents.items()), ("secret", 64)),
        parity=describe_parity_run(plan, registry),
        folder=data.describe(source, plan.model_options),
    )


def _ends(items: Sequence[_T]) -> Sequence[_T]:
    """Return the items that a screen has room for: all of a few, otherwise the first ones and the last one."""
    return items if len(items) <= _SHOWN else (*items[: _SHOWN - 1], items[-1])


def _of_how_many(items: Sequence[object]) -> str:
    return "" if len(items) <= _SHOWN else f": {_SHOWN} of {len(items):,}, all of them with --json"


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _format_assignments(values: Mapping[str, Any]) -> str:
    pairs = ", ".join(f"{name} = {format_scalar(value)}" for name, value in values.items())
    return _on_one_line(pairs)


def _on_one_line(text: str) -> str:
    r"""Return a text with `\n` and `\t` for line feeds and tabs: no part of a value may look like a line of its own."""
    return text.replace("\n", r"\n").replace("\t", r"\t")
