"""Precisions: the number formats of a computation, and the deviations from fp32 that they explain."""

from __future__ import annotations

from attrs import frozen

from dlperf_sdk.spec.table import Table


@frozen(kw_only=True)
class Precision:
    """Everything that the core knows about a precision.

    A framework's plugin maps its name to the framework's settings.
    """

    name: str
    """Name by which a spec selects the precision."""
    help: str
    """Formats of the computations, in a sentence."""
    format: str
    """Number format of the operands of matrix products and convolutions, forwards and backwards: the row of a device's
    peaks (`dlperf_sdk.measurers.peaks`)."""
    significand_bits: int
    """Stored bits of that format's significand."""
    rounds_products: bool = False
    """True if the results of these products have that format, too, instead of float32."""
    low: float
    """Minimum relative deviation ‖y - y32‖ / ‖y32‖ of the outputs from fp32. Below it, the precision was not in
    effect."""
    high: float
    """Maximum deviation that this format explains."""
    loss_tolerance: float
    """Maximum relative difference of one step's loss between two runs that differ only in the order of summation.
    For the narrower formats it is about one unit in the last place."""
    grown_loss_tolerance: float
    """Limit of that difference some steps later, after training has amplified it. A larger one means another
    step's loss, or another training. This is a cap only, since the nearest loss is weak evidence: the losses of
    BERT on three of four samples are each nearest to those of the same step on all four, and 6 % off at the
    second step."""
    is_pure: bool = False
    """True if weights, activations and gradients are stored in that format, too, except for batch norm's
    parameters and statistics. The optimizer updates float32 master weights, and the network gets them rounded."""
    scales_loss: bool = False
    """True if a loss scaler is used, which may skip steps whose gradients overflow."""
    loss_scale: float = 1.0
    """Constant factor of the loss in the backward pass, divided out of the gradients before they are clipped. A
    power of two changes only which gradients are too small for the format."""
    devices: frozenset[str] | None = None
    """Kinds of device that support the precision; None for any."""

    @property
    def is_narrow(self) -> bool:
        """True if the precision rounds more coarsely than fp32.

        If a trainer's outputs equal those of fp32, such a precision is not in effect.
        """
        return self.low > 0


# A number format with p bits of significand has the unit round-off u = 2^-p: 2^-8 for bf16, 2^-11 for fp16
# and for tf32. A matrix product whose operands are rounded deviates by about 0.6 u in the norm (each operand
# by 0.43 u, if significands are spread log-uniformly), with a rounded result by 0.74 u; further layers add to
# it. Measured against fp32 with torch on a CPU (autocast; tf32 by rounding or cutting the operands of every
# product), from the initial weights, for ResNet-50 v1.5 at 64 to 224 pixels with a last gamma of 0 or 0.2,
# and for BERT with 1 to 12 layers:
#
#     bf16 4.2e-3 to 2.5e-2    fp16 5.2e-4 to 3.2e-3    tf32 3.9e-4 to 2.7e-3    that is 0.8 u to 6.6 u,
#     fp32 against float64 4.2e-7 to 3.0e-6; pure fp16 against fp32 of its master weights 5.7e-4 to 3.3e-3.
#
# The lower bounds are u / 2, and u / 4 for tf32, where results are not rounded. The upper ones are 8 u, which
# is below what bf16 gives, so that it cannot pass for fp16, and 16 u for bf16, the round-off of 8-bit floats.
# fp32 may differ from itself by the order of summation: its bound is ten times what was measured, a
# fourth of the least for tf32. fp16 and tf32 have equal significands: this evidence cannot tell them apart.
PRECISIONS = Table(
    "precision",
    (
        Precision(
            name="fp32",
            help="float32 in everything.",
            format="fp32",
            significand_bits=23,
            low=0.0,
            high=2.0**-15,
            loss_tolerance=1e-4,
            grown_loss_tolerance=1e-2,
        ),
        Precision(
            name="tf32",
            help="float32, but matrix products and convolutions round their operands to TF32: a mode of NVIDIA GPUs.",
            format="tf32",
            significand_bits=10,
            low=2.0**-13,
            high=2.0**-8,
            loss_tolerance=1e-3,
            grown_loss_tolerance=0.1,
            devices=frozenset({"cuda"}),
        ),
        Precision(
            name="amp-fp16",
            help="Mixed precision: matrix products and convolutions read and return float16, with a loss scaler; "
            "parameters, optimizer, the norms' statistics and the loss stay float32.",
            format="fp16",
            significand_bits=10,
            rounds_products=True,
            low=2.0**-12,
            high=2.0**-8,
            loss_tolerance=1e-3,
            grown_loss_tolerance=0.1,
            scales_loss=True,
        ),
        Precision(
            name="amp-bf16",
            help="Mixed precision: matrix products and convolutions read and return bfloat16; parameters, optimizer, "
            "the norms' statistics and the loss stay float32.",
            format="bf16",
            significand_bits=7,
            rounds_products=True,
            low=2.0**-9,
            high=2.0**-4,
            loss_tolerance=8e-3,
            grown_loss_tolerance=0.1,
        ),
        Precision(
            name="fp16",
            help="float16 weights, activations and gradients, with a constant loss scale of 128; the optimizer's "
            "master weights, batch norm's parameters, the norms' statistics and the loss are float32.",
            format="fp16",
            significand_bits=10,
            rounds_products=True,
            low=2.0**-12,
            high=2.0**-8,
            loss_tolerance=1e-3,
            grown_loss_tolerance=0.1,
            is_pure=True,
            loss_scale=128.0,
        ),
    ),
)
"""All precisions. In mixed precision, operations between two products (activation functions, softmax, residual
sums) may have either type, as the framework chooses."""
