"""Controller half: NumPy's, with one option that says what goes wrong."""

from attrs import evolve, frozen
from dlperf_numpy.framework import NumPy

from dlperf_sdk.interfaces.trace import Events, TraceEvents


@frozen
class FaultyOptions:
    fault: str = "none"
    """What goes wrong; `FAULT@NODE`, or several with commas, for the named nodes of a fleet only."""
    rank: int = 0
    """The rank that the fault befalls."""
    sample_bytes: int = 0
    """Memory that every sample of the batch takes, so that what fits is known."""


class Faulty(NumPy):
    name = "faulty"
    runtime = "dlperf_faulty.worker:Runtime"
    trainers = {"linear": "dlperf_faulty.worker:Linear"}
    processes = "dlperf_faulty.processes:processes"
    packages = ("dlperf_numpy",)
    capabilities = evolve(NumPy.capabilities, trace=TraceEvents(Events()))
    Options = FaultyOptions
