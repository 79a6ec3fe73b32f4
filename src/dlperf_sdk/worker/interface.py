"""Define the interface of a framework plugin's worker half: a runtime for the framework, and a trainer per model."""

import resource
from typing import Any, ContextManager, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from dlperf_sdk.worker.exchange import GradientExchange
from dlperf_sdk.worker.processes import Cluster, Process, ProcessFunction, one_per_device
from dlperf_sdk.worker.request import Request
from dlperf_sdk.worker.unsupported import Unsupported, look_up


class Step(NamedTuple):
    """Return value of `Trainer.step`. The device may still be computing the step when it is returned."""

    loss: Any
    """A handle for `Trainer.read_loss`. It stays valid until the loss is read: later steps must not overwrite it."""
    samples: int
    """Number of samples that this process's replicas took in this step."""
    labels: Any = None
    """A handle for `Trainer.read_labels`: the input of this step's batch that the model marks `is_label`. None if it
    is unknown; then no batch of this process is verified."""


class InputCounts(NamedTuple):
    """Counts of the batches that threads or sender processes have queued for a process so far."""

    batches: int
    """Number of batches that were put into the queues; each is the batch of one replica."""
    seconds: float
    """Seconds that it took to make these batches, without the waits for room in a queue."""
    depth: int
    """Number of batches in a queue after one was put in, summed over all batches."""

    def changes_since(self, earlier: "InputCounts") -> Dict[str, Any]:
        """Subtract earlier counts from these counts, and return the differences for the record.

        Args:
            earlier: Counts of the same queues, taken earlier.

        Returns:
            A dict with the differences of the three fields: `batches`, `seconds` and `depth`.
        """
        return {name: getattr(self, name) - getattr(earlier, name) for name in self._fields}


class Runtime:
    """The framework inside one worker process.

    The worker calls `start` once, builds the trainer, runs the program of the request, and calls `stop` if that
    succeeded. The measuring loop calls `synchronize` at the start and the end of the window, and nowhere inside it.
    """

    clock = "blocking"
    """Method that times a step: "blocking", "lagged" or "event".

    "blocking": the framework has finished a step when `Trainer.step` returns, or has so little left that a host
    clock is enough (eager on a CPU, and nowhere else). `step` itself waits for nothing here either: `synchronize`
    waits for the rest.
    "event": `mark` records an event on the device, and `elapsed` reads the events after the window.
    "lagged": after step i is enqueued, `wait` blocks until step i - 1 has finished; step i continues meanwhile.
    """

    strategies: Mapping[str, ProcessFunction] = {"independent": one_per_device}
    """Strategies that the plugin implements, by name, as its function `processes` passes them to `list_processes`."""

    def __init__(self, request: Request, cluster: Cluster, process: Process) -> None:
        """Keep the case in attributes. Nothing is started.

        Args:
            request: The case.
            cluster: All nodes of the case.
            process: This process of the case.

        Raises:
            Unsupported: There are several replicas, and `strategies` lacks the requested one.
        """
        self.request, self.cluster, self.process = request, cluster, process
        self.syncs_gradients = request.syncs_gradients
        """True if gradients are synchronized over several replicas."""
        if cluster.world_size > 1:
            look_up("strategy", request.strategy, self.strategies)

    def start(self) -> None:
        """Import the framework, select the devices, and join the other processes. By default, do nothing.

        Raises:
            Unsupported: This node cannot run the case, for example because a device or the precision is not available.
        """

    def seed(self) -> bool:
        """Set the framework's random state to the one that belongs to the request's seed.

        Called before the first step, and again after `Trainer.reset`: dropout must draw the same masks both times.

        Returns:
            True if the state was set; False, the default, if the framework cannot do it.
        """
        return False

    def synchronize(self) -> None:
        """Block until everything enqueued so far has finished on every device of this process.

        By default, return at once.
        """

    def mark(self) -> Any:
        """Record an event on the device without waiting, and return the framework's handle of the event.

        Only called with the clock "event".
        """
        raise NotImplementedError("a runtime with the clock 'event' implements mark()")

    def elapsed(self, marks: List[Any]) -> List[float]:
        """Return the seconds between neighboring events, one value fewer than there are events.

        Called after the window, and only with the clock "event".

        Args:
            marks: Events that `mark` returned, in order.
        """
        raise NotImplementedError("a runtime with the clock 'event' implements elapsed()")

    def wait(self, loss: Any) -> None:
        """Block until one step has finished. Only called with the clock "lagged".

        Args:
            loss: The handle of that step's loss (`Step.loss`).
        """
        raise NotImplementedError("a runtime with the clock 'lagged' implements wait()")

    def reset_peak_memory(self) -> None:
        """Set the peak that `peak_memory` returns to the memory in use now; called right before the window."""

    def peak_memory(self) -> Optional[int]:
        """Return the peak of device memory in use since `reset_peak_memory`, summed over this process's devices.

        Returns:
            The peak in bytes; None, the default, on a CPU or if the framework does not report it.
        """
        return None

    def peak_host_memory(self) -> int:
        """Return the peak of host memory in use since this process started, in bytes.

        A runtime whose steps are computed by service processes returns the largest peak among these processes.
        """
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    def facts(self) -> Dict[str, Any]:
        """Return observed facts for the record as JSON values; called after the program has run.

        Returns:
            By default, an empty dict. A plugin's dict has `framework_version`, and further facts on devices, libraries,
            threads and transport, under names of its choice.
        """
        return {}

    def trace(self, path: str) -> ContextManager[None]:
        """Return a context manager within which the framework's own profiler records.

        On exit, it writes the file `path` in Chrome's trace format (JSON), which Perfetto opens. Called in a separate
        process, never in one that is measured.

        Args:
            path: Absolute path of the file.

        Raises:
            Unsupported: This framework's plugin has no profiler to offer (the default).
        """
        raise Unsupported("this framework's plugin offers no trace")

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Return True if the framework raises this exception when host or device memory runs out.

        By default, return True for a MemoryError.

        Args:
            error: Any exception that the program has raised.
        """
        return isinstance(error, MemoryError)

    def stop(self) -> None:
        """Leave the framework's group of processes, and release the devices. Not called after a failure.

        By default, do nothing.
        """


class Trainer:
    """One model in one framework: the replicas that this process owns.

    The constructor builds the model with the canonical weights, and its optimizer. It downloads nothing. Everything
    that does not depend on the framework is in `base_trainer.BaseTrainer`, from which plugins derive their trainers.

    Args:
        runtime: The framework's runtime, which has been started.
        request: The case.
        process: This process, whose replicas the trainer owns.

    Raises:
        Unsupported: The plugin cannot carry out the request.
    """

    def __init__(self, runtime: Runtime, request: Request, process: Process) -> None:
        self.runtime, self.request, self.process = runtime, request, process

    def canonical_batch(self) -> Any:
        """Return one batch for `step`: the canonical batches of all replicas of this process, on the devices."""
        raise NotImplementedError("a trainer implements canonical_batch()")

    def batches(self) -> Iterator[Any]:
        """Return an endless iterator over the batches of the request's data source, each a batch for `step`.

        The iterator yields None for each batch if the input pipeline is part of the framework's graph.

        Raises:
            Unsupported: The plugin cannot read the data source.
            DataError: The prepared data is missing, or is not what the controller prepared. The iterator raises it,
                too.
        """
        raise NotImplementedError("a trainer implements batches()")

    def step(self, batch: Any) -> Step:
        """Enqueue one optimization step, without synchronizing.

        The hyperparameters are those of `request.optimizer`; those that the optimizer does not use (such as
        `clip_norm`) are None or absent. Weight decay applies to the parameters whose entry in `request.parameters` has
        a true `decay`.

        Args:
            batch: A batch that `canonical_batch` returned or `batches` yielded.

        Returns:
            A handle of the replicas' losses, the number of samples of all replicas of this process, and a handle of the
            labels, None if they are unknown.
        """
        raise NotImplementedError("a trainer implements step()")

    def read_loss(self, loss: Any) -> List[float]:
        """Return the loss that a handle (`Step.loss`) refers to, one per replica of this process, in their order.

        Called after the clock stopped. It blocks until the device has computed the loss, which may be NaN or infinite.

        Args:
            loss: A handle that `step` returned.
        """
        raise NotImplementedError("a trainer implements read_loss()")

    def read_labels(self, labels: Any) -> List[Any]:
        """Return the labels that a handle (`Step.labels`) refers to, one NumPy array (batch size, …) per replica.

        Called after the clock stopped, and only if `step` returned handles other than None.

        Args:
            labels: A handle that `step` or `take` returned.
        """
        raise NotImplementedError("a trainer that returns labels implements read_labels()")

    def parameters(self, replica: int) -> Iterable[Tuple[str, Any]]:
        """Yield name and current values of each trainable parameter of one replica, in the order of the manifest.

        The manifest is `Request.parameters`. The values are NumPy arrays with the manifest's shape and layout
        (convolutions OIHW, linear layers (out, in)): float32, C order. One array at a time is made, so that the caller
        need not hold all of them. Called between steps, never inside the window.

        Args:
            replica: Index of the replica within this process, counted from 0.
        """
        raise NotImplementedError("a trainer implements parameters()")

    def running_means(self, replica: int) -> Iterable[Tuple[str, Any]]:
        """Return name and current values of the running mean of each batch norm of one replica.

        A mean has the name of its layer's gamma with `running_mean` in place of `weight`, such as `bn1.running_mean`;
        values are float32 NumPy arrays in C order. Called between steps, never inside the window.

        Args:
            replica: Index of the replica within this process, counted from 0.

        Returns:
            Pairs of name and values. By default, and if the model has no batch norm, there are no pairs.
        """
        return ()

    def moments(self, replica: int) -> Iterable[Tuple[str, Any]]:
        """Return the moments that the optimizer keeps for one replica, such as momentum: a name and the current values.

        Names are unique, and values are NumPy arrays in C order. Each parameter must have separate moments: unchanged
        moments then reveal a parameter that gets no gradient. Called between steps, never inside the window.

        Args:
            replica: Index of the replica within this process, counted from 0.

        Returns:
            Pairs of name and values. By default, and if the optimizer keeps no moments, there are no pairs.
        """
        return ()

    def count_updates(self) -> Optional[int]:
        """Return how many updates the framework's optimizer has counted so far.

        Called between steps, never inside the window. It is the framework's own count, not the number of calls of
        `step`.

        Returns:
            The count; None, the default, if the optimizer does not count.
        """
        return None

    def reset(self) -> None:
        """Restore the state before the first step, so that the next steps follow the canonical trajectory again.

        Weights become canonical, the optimizer's moments and counts zero, the loss scale and the learning rate those
        of the first step. State that no training step reads, such as batch norm's running statistics, may stay.
        Nothing else is rebuilt: the next steps must run the same code as the window's. Called after the window.

        Raises:
            NotImplementedError: This trainer cannot be reset; the audit is then skipped.
        """
        raise NotImplementedError("a trainer implements reset()")

    def deviation(self) -> Optional[float]:
        """Return the deviation of the requested precision from fp32: ‖y - y32‖ / ‖y32‖ over the model's outputs.

        The outputs are the logits of all heads, taken as one vector: the input of the loss, not the loss. Dropout is
        off, batch norm uses the batch's statistics, and of several micro-batches only the first is needed. y is
        computed with every kernel and compiler that `step` uses; y32 in plain fp32 arithmetic.

        Called once, before the first step, on the canonical batch and the canonical weights. Weights, optimizer and
        running statistics must be the same afterwards. The deviation is the evidence that the requested precision is
        in effect.

        Returns:
            The deviation; None, the default, if this trainer has no evidence to offer.
        """
        return None

    def take(self, batch: Any) -> Step:
        """Return the labels and the number of samples of a batch, without training on it.

        If the request's part of a step is `input`, this is called in place of `step`.

        Args:
            batch: A batch that `canonical_batch` returned or `batches` yielded.

        Returns:
            A step with the handle of the labels and the number of samples of all replicas of this process; its loss is
            None.

        Raises:
            Unsupported: The trainer has no labels, or the framework's graph contains the input. The default raises it.
        """
        raise Unsupported("the plugin's trainer cannot take a batch without training on it")

    def gradient_exchange(self) -> GradientExchange:
        """Return an object that exchanges this process's gradients, which the part `communication` measures.

        Called once, before the first step. An implementation may take training steps to find out how the framework
        exchanges the gradients.

        Raises:
            Unsupported: The plugin cannot exchange gradients without computing them. The default raises it.
        """
        raise Unsupported("the plugin's trainer cannot exchange gradients without computing them")

    def skipped_steps(self) -> int:
        """Return the number of steps so far whose update the loss scaler skipped, by default 0.

        Called between steps.
        """
        return 0

    def prefetched_batches(self) -> int:
        """Return the number of batches per replica that the input pipeline can prefetch, by default 0.

        It must be small against the number of steps in the window.
        """
        return 0

    def input_counts(self) -> Optional[InputCounts]:
        """Return counts of the batches queued for this process so far: number, seconds to make them, queue depths.

        Called between steps, never inside the window.

        Returns:
            The sums over all threads and sender processes that queue batches; None, the default, if there are none.
        """
        return None

    def observed(self) -> Dict[str, Any]:
        """Return the settings in effect as JSON values, under the names of the request.

        Called after the program's last step.

        Returns:
            A dict: `precision`, `compiler`, `layout`, `strategy` and further facts. Settings that cannot be observed
            are absent. The base class returns an empty dict.
        """
        return {}
