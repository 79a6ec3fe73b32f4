"""The whole training step as one CUDA graph: captured once, and replayed for each further step."""

import torch

EAGER = 2
"""Steps before the capture. They choose algorithms, compile kernels and create the optimizer's state, none of which a
capture may do."""


class StepGraph:
    """A function that takes training steps: the first two (`EAGER`) eagerly, all later ones by replaying a CUDA graph.

    The third call captures the graph, without computing anything, and then replays it: each call takes one step of the
    training. A replay reads and writes the memory that was used in the capture. Therefore each batch is copied into the
    captured batch, and the returned loss is a copy. Parameters, optimizer state, learning rate and the generator of
    dropout are on the device; a replay changes them as the step itself would.

    Args:
        step: Function that enqueues a step on a batch, a dict from input name to tensor, and returns its loss, a
            tensor.

    Attributes:
        replays: Number of steps so far that replayed the graph.
    """

    def __init__(self, step):
        self.replays = 0
        self._step, self._stream, self._eager = step, torch.cuda.Stream(), EAGER
        self._graph = self._batch = self._loss = self._latest = None

    def __call__(self, batch):
        """Enqueue one step on a batch, and return its loss, which no later step overwrites.

        Raises:
            RuntimeError: The step cannot be captured as a CUDA graph.
        """
        if self._eager:
            self._eager -= 1
            return self._run_aside(batch)
        if self._graph is None:
            self._capture(batch)
        if batch is not self._latest:  # synthetic data is the same batch each time
            for name, values in self._batch.items():
                values.copy_(batch[name])
            self._latest = batch
        self._graph.replay()
        self.replays += 1
        return self._loss.clone()

    def _run_aside(self, batch):
        """Take a step on the stream of the capture, where the autograd nodes and workspaces of the capture belong."""
        current = torch.cuda.current_stream()
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            loss = self._step(batch)
        current.wait_stream(self._stream)
        return loss

    def _capture(self, batch):
        self._batch = {name: values.clone() for name, values in batch.items()}
        self._graph = torch.cuda.CUDAGraph()
        try:
            # The threads of a loader may allocate page-locked memory meanwhile.
            with torch.cuda.graph(self._graph, stream=self._stream, capture_error_mode="thread_local"):
                self._loss = self._step(self._batch)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            raise RuntimeError(
                "the training step cannot be captured as a CUDA graph; set cuda_graph to false (%s)" % error
            ) from error
