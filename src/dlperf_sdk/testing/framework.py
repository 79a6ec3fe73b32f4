"""The conformance suite of framework plugins, put together from its parts."""

from dlperf_sdk.testing.asynchrony import Asynchrony
from dlperf_sdk.testing.capabilities import DeclaredCapabilities
from dlperf_sdk.testing.controller_half import ControllerHalf
from dlperf_sdk.testing.ending import Ending
from dlperf_sdk.testing.evidence import Evidence
from dlperf_sdk.testing.parity import Following
from dlperf_sdk.testing.parts import Parts
from dlperf_sdk.testing.process_list import ProcessList
from dlperf_sdk.testing.replicas import Replicas
from dlperf_sdk.testing.reports import Reports
from dlperf_sdk.testing.worker_half import WorkerHalf


class FrameworkConformance(
    ControllerHalf,
    WorkerHalf,
    ProcessList,
    Following,
    Replicas,
    DeclaredCapabilities,
    Parts,
    Asynchrony,
    Reports,
    Evidence,
    Ending,
):
    """The conformance suite of a framework plugin. Subclass it and name the framework.

        class TestMyFramework(FrameworkConformance):
            framework = "my"

    The parts: the files of the controller half (`ControllerHalf`) and of the worker half (`WorkerHalf`); the list
    of processes (`ProcessList`); the training of one replica (`Training`), parity (`Following`) and two replicas
    (`Replicas`); declared capabilities (`DeclaredCapabilities`) and parts of a step (`Parts`); clocks (`Asynchrony`),
    facts (`Reports`), evidence under a varied request (`Evidence`), and the end of a case (`Ending`).

    `FrameworkSubject` documents the attributes that a subclass may set: `framework`, `models`, `model_options`,
    `options`, `batch_size`, `device`, `python`, `registry`, `known_gaps`.
    """
