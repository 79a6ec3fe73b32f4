"""Define the interface of a framework plugin's worker half: a runtime for the framework, and a trainer per model."""

import resource
from typing import Any, ContextManager, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from dlperf_sdk.worker.processes import Cluster, Process
from dlperf_sdk.worker.request import Request


class Unsupported(Exception):
    """Raise this, with a sentence for the user, when the request asks for what cannot be done here."""


class Step(NamedTuple):
    """Return value of `Trainer.step`, made while the device may still be working."""

    loss: Any
    """A handle for `Trainer.read_loss`. It stays valid until it is read, whatever later steps overwrite."""
    samples: int
    """Samples that this process's replicas took in this step."""
    labels: Any = None
    """A handle for `Trainer.read_labels`: the input of this step's batch that tells samples apart; None for unknown."""


class Runtime:
    """The framework inside one worker process.

    The loop calls `start` once, then builds the trainer, and `stop` at the end. Between them it calls `synchronize` at
    the edges of the measured window and nowhere inside it.
    """

    clock = "blocking"
    """Method that times a step.

    "blocking": the framework has finished a step when `step` returns, or lets the host get ahead by so little that
    hardly anything is left (eager on a CPU, and nowhere else); a host clock is enough. `step` waits for nothing of its
    own accord here either: what may be left, `synchronize` waits for.
    "event": `mark` records an event on the device, `elapsed` reads them after the window.
    "lagged": after step i is enqueued, `wait` blocks until step i - 1 has finished; the newest goes on meanwhile.
    """

    def __init__(self, request: Request, cluster: Cluster, process: Process) -> None:
        self.request, self.cluster, self.process = request, cluster, process

    def start(self) -> None:
        """Import the framework, select the devices, and join the other processes.

        Raises:
            Unsupported: this node cannot run the case.
        """

    def seed(self) -> bool:
        """Set the framework's random state to that of the request's seed; return False if that cannot be done.

        Called before the first step, and again after `Trainer.reset`: dropout must draw the same masks then.
        """
        return False

    def synchronize(self) -> None:
        """Return when everything enqueued so far has finished on every device of this process."""

    def mark(self) -> Any:
        """Record an event on the device, without waiting, and return it (clock "event")."""
        raise NotImplementedError("a runtime with the clock 'event' implements mark()")

    def elapsed(self, marks: List[Any]) -> List[float]:
        """Return the seconds between each two neighbors of `marks` (clock "event"); called after the window."""
        raise NotImplementedError("a runtime with the clock 'event' implements elapsed()")

    def wait(self, loss: Any) -> None:
        """Return when the step that gave this loss handle has finished (clock "lagged")."""
        raise NotImplementedError("a runtime with the clock 'lagged' implements wait()")

    def reset_peak_memory(self) -> None:
        """Reset the peak that `peak_memory` returns; called at the window's first edge."""

    def peak_memory(self) -> Optional[int]:
        """Return the peak of device memory in bytes since the reset, summed over this process's devices.

        None on a CPU.
        """
        return None

    def peak_host_memory(self) -> int:
        """Return the peak of host memory of this process in bytes, since its start.

        A runtime whose steps are computed by services gives the most that one of these processes held.
        """
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    def facts(self) -> Dict[str, Any]:
        """Return observed facts as JSON: at least `framework_version`; devices, libraries, threads, transport."""
        return {}

    def trace(self, path: str) -> ContextManager[None]:
        """Record with the framework's own profiler while the context lasts; on leaving, write `path`.

        The file is in Chrome's trace format (JSON), which Perfetto opens. Called in a process of its own, never in one
        that is measured. Raise Unsupported where there is no such profiler.
        """
        raise Unsupported("this framework's plugin offers no trace")

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Return True if this is an exception that the framework raises when it runs out of memory."""
        return isinstance(error, MemoryError)

    def stop(self) -> None:
        """Leave the other processes, and release the devices."""


class Trainer:
    """One model in one framework: the replicas that this process owns.

    The constructor builds the model from the canonical weights, and its optimizer. It downloads nothing. What does not
    depend on the framework is in `base_trainer.BaseTrainer`, which plugins derive from.
    """

    def __init__(self, runtime: Runtime, request: Request, process: Process) -> None:
        self.runtime, self.request, self.process = runtime, request, process

    def canonical_batch(self) -> Any:
        """Return the canonical batch of this process's replicas, in the place where `step` wants it."""
        raise NotImplementedError("a trainer implements canonical_batch()")

    def batches(self) -> Iterator[Any]:
        """Return the input pipeline of the request's data source; endless.

        It yields None where the pipeline lives inside the graph.
        """
        raise NotImplementedError("a trainer implements batches()")

    def step(self, batch: Any) -> Step:
        """Enqueue one optimization step, without synchronizing.

        Its numbers are `request.optimizer`, which may lack those that do not apply: `clip_norm`, for one. Weight decay
        is for the entries of `request.parameters` that say `decay`.
        """
        raise NotImplementedError("a trainer implements step()")

    def read_loss(self, loss: Any) -> List[float]:
        """Return the loss behind a handle, one per replica of this process; called after the clock stopped."""
        raise NotImplementedError("a trainer implements read_loss()")

    def read_labels(self, labels: Any) -> List[Any]:
        """Return the labels behind a handle, one NumPy array per replica; called after the clock stopped."""
        raise NotImplementedError("a trainer that returns labels implements read_labels()")

    def parameters(self, replica: int) -> Iterable[Tuple[str, Any]]:
        """Return the trainable parameters of one of this process's replicas (counted from 0) as they are now.

        The name and a NumPy array of each, in the manifest's order, names, shapes and layout (convolutions OIHW,
        linear layers (out, in)): float32, C order. Called between steps, never inside the window. One after
        another: nobody holds all of them at once.
        """
        raise NotImplementedError("a trainer implements parameters()")

    def running_means(self, replica: int) -> Iterable[Tuple[str, Any]]:
        """Return the running means of batch norm of one of this process's replicas, as `parameters` gives parameters.

        A mean is named like its layer's gamma, with `running_mean` for `weight`. Empty where a model has none. Which
        layers are batch norms the manifest does not mark: the model's page does. Running variances are not asked for,
        so a framework may keep the biased or the unbiased one.
        """
        return ()

    def moments(self, replica: int) -> Iterable[Tuple[str, Any]]:
        """Return the optimizer's moments of one of this process's replicas, as NumPy arrays in C order.

        Each parameter has its own, so that one that gets no gradient shows. Called between steps, never inside the
        window. Empty where the optimizer keeps none, or they cannot be read.
        """
        return ()

    def count_updates(self) -> Optional[int]:
        """Return how many updates the framework's optimizer has counted so far; None if it does not count.

        Called between steps, never inside the window. Give the framework's own count, not the number of calls.
        """
        return None

    def reset(self) -> None:
        """Return to the state before the first step.

        Weights are canonical again, the optimizer's moments and counts zero, the loss scale and the learning rate the
        first step's. Called behind the window: the next steps must follow the canonical trajectory again. What no
        training step reads, such as batch norm's running statistics, may stay. Nothing else is rebuilt: the steps are
        to be those of the window.

        Raises:
            NotImplementedError: this trainer cannot be reset.
        """
        raise NotImplementedError("a trainer implements reset()")

    def deviation(self) -> Optional[float]:
        """Return the deviation of the requested precision from fp32: ‖y - y32‖ / ‖y32‖ over the model's outputs.

        The outputs are the logits of all heads, taken as one vector: the input of the loss, not the loss. Dropout is
        off, batch norm uses the batch's statistics, and of several micro-batches only the first is needed.

        Called once, before the first step, on the canonical batch and the canonical weights, with every kernel and
        compiler that `step` uses for y, and plain fp32 arithmetic for y32. It is the evidence that the requested
        precision is in effect. None: this trainer has no evidence to offer.
        """
        return None

    def skipped_steps(self) -> int:
        """Return the optimization steps that the loss scaler skipped so far; called after the clock stopped."""
        return 0

    def prefetched_batches(self) -> int:
        """Return the number of batches that the input pipeline can prefetch; it must be small against the window."""
        return 0

    def observed(self) -> Dict[str, Any]:
        """Return the settings in effect, under the names of the request: `precision`, `compiler`, `layout`."""
        return {}
