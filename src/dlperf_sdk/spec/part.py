"""Parts of a training step that can be measured alone."""

from __future__ import annotations

from attrs import frozen

from dlperf_sdk.spec.table import Table


@frozen(kw_only=True)
class Part:
    """Everything that the core knows about a part of a training step. `dlperf_sdk.worker.parts` measures it."""

    name: str
    """Name by which a spec selects the part."""
    step: str
    """What a step of the part does, as a clause after "a step": it "takes the next batch and trains on it"."""
    reads_input: bool
    """True if a step takes the next batch of the data source. Otherwise it uses the canonical batch, or none."""
    exchanges_gradients: bool
    """True if a step synchronizes gradients between the replicas."""
    trains: bool
    """True if a step computes gradients and updates the weights. Metrics of arithmetic exist only then."""
    inapplicable: frozenset[str] = frozenset()
    """Names of the verdicts that do not apply."""

    @property
    def is_whole(self) -> bool:
        """True if a step of the part takes the next batch, exchanges gradients and trains: it is the whole step."""
        return self.reads_input and self.exchanges_gradients and self.trains

    @property
    def help(self) -> str:
        """Description for users, as a sentence."""
        return f"A step {self.step}."

    def explain_not_applicable(self, check: str) -> str:
        """Return the sentence that explains why a verdict does not apply to this part, which does not train.

        Args:
            check: Name of the verdict, such as `loss-falls`.
        """
        return f"The part {self.name} does not train, so there is nothing that {check} could check."


_OF_TRAINING = frozenset(
    {"finite-loss", "loss-falls", "replicas-equal", "precision-effective", "as-requested", "parity"}
)
"""Verdicts on training steps: on losses, updated weights, and the arithmetic of the network."""

PARTS = Table(
    "part of a step",
    (
        Part(
            name="whole",
            step="takes the next batch, computes gradients, synchronizes them, and updates the weights",
            reads_input=True,
            exchanges_gradients=True,
            trains=True,
        ),
        Part(
            name="input",
            step=(
                "waits until the next batch of the data source is ready (on the device, unless the framework copies it "
                "in the training step), and does not train on it"
            ),
            reads_input=True,
            exchanges_gradients=False,
            trains=False,
            inapplicable=_OF_TRAINING,
        ),
        Part(
            name="communication",
            step="averages arrays of the size of the gradients over the replicas, and computes no gradients",
            reads_input=False,
            exchanges_gradients=True,
            trains=False,
            inapplicable=_OF_TRAINING,
        ),
        Part(
            name="training",
            step="computes gradients of the canonical batch, synchronizes them, and updates the weights",
            reads_input=False,
            exchanges_gradients=True,
            trains=True,
        ),
        Part(
            name="compute",
            step="computes gradients of the canonical batch and updates the weights, without synchronization",
            reads_input=False,
            exchanges_gradients=False,
            trains=True,
        ),
    ),
)
OF_EVERY_PLUGIN = frozenset(part.name for part in PARTS if part.trains or not part.exchanges_gradients)
"""Names of the parts that every plugin can measure with the methods that it has for training."""
