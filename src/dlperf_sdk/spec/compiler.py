"""Compilers: what turns a training step into other code before it runs."""

from __future__ import annotations

from attrs import frozen

from dlperf_sdk.spec.table import Table


@frozen(kw_only=True)
class Compiler:
    """All that the core knows of one compiler. A framework plugin may declare one that is not in `COMPILERS`."""

    name: str
    help: str


NONE = "none"
"""Compiler of a case that requests none. Every plugin offers it: a framework that always compiles does
so under `none` as well, and says `none` in `observed`."""

COMPILERS = Table(
    "compiler",
    (
        Compiler(name=NONE, help="The framework's usual execution."),
        Compiler(name="inductor", help="PyTorch's compiler, torch.compile."),
        Compiler(name="xla", help="OpenXLA."),
        Compiler(name="graph", help="The framework's own static graph."),
        Compiler(name="cinn", help="Paddle's compiler for GPUs."),
    ),
)
"""The compilers that more than one plugin, or a user who does not know a plugin, may name."""
