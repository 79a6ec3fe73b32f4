"""Compilers: programs that transform a training step into other code before it runs."""

from __future__ import annotations

from attrs import frozen

from dlperf_sdk.spec.table import Table


@frozen(kw_only=True)
class Compiler:
    """Everything that the core knows about a compiler.

    A framework's plugin may declare one that is not in `COMPILERS`.
    """

    name: str
    """Name by which a spec selects the compiler."""
    help: str
    """Description for users, in a sentence."""


NONE = "none"
"""Compiler of a case that requests none. Every plugin offers it: a framework that always compiles does so under
`none` as well, and reports `none` in `observed`."""

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
"""Compilers that more than one plugin supports, or that a user may name without knowing a plugin."""
