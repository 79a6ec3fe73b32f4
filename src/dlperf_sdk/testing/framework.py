"""Everything that a framework's plugin is held to."""

from dlperf_sdk.testing.asynchrony import Asynchrony
from dlperf_sdk.testing.capabilities import DeclaredCapabilities
from dlperf_sdk.testing.controller_half import ControllerHalf
from dlperf_sdk.testing.ending import Ending
from dlperf_sdk.testing.evidence import Evidence
from dlperf_sdk.testing.parity import Following
from dlperf_sdk.testing.replicas import Replicas
from dlperf_sdk.testing.reports import Reports
from dlperf_sdk.testing.worker_half import WorkerHalf


class FrameworkConformance(
    ControllerHalf,
    WorkerHalf,
    Following,
    Replicas,
    DeclaredCapabilities,
    Asynchrony,
    Reports,
    Evidence,
    Ending,
):
    """Subclass it, name the framework, and pytest says what is missing.

        class TestMyFramework(FrameworkConformance):
            framework = "my"

    The parts: the controller half (`ControllerHalf`) and the worker half (`WorkerHalf`) as they are written; one
    replica's training (`Training`), parity (`Following`) and two replicas (`Replicas`); what is declared
    (`DeclaredCapabilities`); time (`Asynchrony`), facts (`Reports`), evidence that follows a varied request
    (`Evidence`), and how a case ends (`Ending`). What may be set
    is in `FrameworkSubject`: `framework`, `models`, `model_options`, `options`, `batch_size`, `device`, `python`,
    `known_gaps`.
    """
