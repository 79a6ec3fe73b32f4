"""`verify`: comparison of frameworks with a model's float64 reference."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from dlperf_sdk.cli.common_flags import switch
from dlperf_sdk.cli.screen import AS_USUAL, INTERRUPTED, Common, command, emit, say, show, write
from dlperf_sdk.spec.compiler import COMPILERS
from dlperf_sdk.spec.precision import PRECISIONS
from dlperf_sdk.spec.strategy import STRATEGIES
from dlperf_sdk.spec.table import alternatives


@command
def verify(
    frameworks: Annotated[
        list[str], Parameter(help="Frameworks' names.", negative=(), consume_multiple=True)
    ],
    /,
    *,
    model: Annotated[
        str | None, Parameter(help="A model's name. Default: all models that have a reference.")
    ] = None,
    case: Annotated[
        str, Parameter(help="The reference's case: small, full, or another that it has (gamma, tiny).")
    ] = "small",
    topology: Annotated[str, Parameter(help="Nodes × devices per node: 1n1d, 1n2d, 2n1d.")] = "1n1d",
    precision: Annotated[
        str, Parameter(help=f"Precision: {alternatives(verification.name for verification in PRECISIONS)}.")
    ] = PRECISIONS.default,
    compiler: Annotated[
        str, Parameter(help="Compiler that the frameworks support, or none.")
    ] = COMPILERS.default,
    strategy: Annotated[str, Parameter(help="Gradient synchronization.")] = STRATEGIES.default,
    layout: Annotated[str, Parameter(help="Memory layout of images: auto, nchw or nhwc.")] = "auto",
    device: Annotated[str, Parameter(help="Kind of device: auto, cpu, cuda, …")] = "auto",
    python: Annotated[
        str | None, Parameter(help="Python interpreter of an existing environment, instead of a managed one.")
    ] = None,
    quiet: Annotated[bool, switch("Only the table.", name=["--quiet", "-q"])] = False,
    common: Common = AS_USUAL,
) -> int:
    """Compare the first steps of each framework with the model's float64 reference, step by step.

    All start from the same weights on the same batch. For a framework that fails, the first difference and the known
    error that explains it are shown; with --debug, also the worker's traceback. Exit codes: 0 all passed; 1 at least
    one failed; 2 usage error; 3 none failed, but none could be compared; 5 none failed, but some could not be compared.
    """
    from dlperf_sdk.execution import verification
    from dlperf_sdk.reports import verification as report

    verifications: list[verification.Verification] = []

    def verified(result: verification.Verification) -> None:
        """Show a verification at once, so that an interruption does not lose it."""
        if not common.json:
            if verifications:
                write("\n")
            show(report.page([result], tracebacks=common.debug))
        verifications.append(result)

    interrupted = False
    try:
        verification.verify(
            frameworks,
            model,
            case=case,
            on_progress=(lambda text: None) if quiet else (lambda text: say(text, "dim")),
            on_verified=verified,
            topology=topology,
            precision=precision,
            compiler=compiler,
            strategy=strategy,
            layout=layout,
            device=device,
            python=python,
        )
    except KeyboardInterrupt:
        if not verifications:
            raise
        interrupted = True
        say("Interrupted; what is shown had finished.", "red")
    code = INTERRUPTED if interrupted else verification.exit_code(verifications)
    if common.json:
        emit({"verifications": [verification.to_dict() for verification in verifications], "exit_code": code})
    return code
