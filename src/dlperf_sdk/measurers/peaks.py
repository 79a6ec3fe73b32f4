"""The peak arithmetic rates of devices, with their sources.

Dense rates only. NVIDIA's data sheets since Ampere print tensor-core rates "with sparsity", which are twice the
dense ones, and mark them with an asterisk: here they are halved. fp32 is the rate of the ordinary cores, which
compute when neither TF32 nor mixed precision is allowed. A device that is not listed has no peak, and so no MFU: a
wrong peak is worse than none.
"""

from __future__ import annotations

from attrs import frozen

from dlperf_sdk.spec.precision import PRECISIONS


@frozen
class Peak:
    """The peak dense arithmetic rate of a device at one precision."""

    flops: float
    """Floating-point operations per second; a multiply-accumulate counts as two."""
    source: str
    """The data sheet."""


_H100 = "NVIDIA H100 Tensor Core GPU data sheet"
_H200 = "NVIDIA H200 Tensor Core GPU data sheet"
_A100 = "NVIDIA A100 Tensor Core GPU data sheet"
_V100 = "NVIDIA V100 Tensor Core GPU data sheet"

_SXM_H = {"fp32": 67e12, "tf32": 494.7e12, "fp16": 989.5e12, "bf16": 989.5e12}
_NVL_H = {"fp32": 60e12, "tf32": 417.5e12, "fp16": 835.5e12, "bf16": 835.5e12}
_SXM_A = {"fp32": 19.5e12, "tf32": 156e12, "fp16": 312e12, "bf16": 312e12}
_SXM_V = {"fp32": 15.7e12, "fp16": 125e12}
_PCIE_V = {"fp32": 14e12, "fp16": 112e12}

_TABLE: dict[str, tuple[dict[str, float], str]] = {
    # The name as the driver gives it, without "NVIDIA" or "Tesla" in front.
    "H200": (_SXM_H, _H200),
    "H200 NVL": (_NVL_H, _H200),
    "H100 80GB HBM3": (_SXM_H, _H100),
    "H100 NVL": (_NVL_H, _H100),
    "H100 PCIe": ({"fp32": 51e12, "tf32": 378e12, "fp16": 756.5e12, "bf16": 756.5e12}, _H100),
    "A100-SXM4-40GB": (_SXM_A, _A100),
    "A100-SXM4-80GB": (_SXM_A, _A100),
    "A100-PCIE-40GB": (_SXM_A, _A100),
    "A100 80GB PCIe": (_SXM_A, _A100),
    "A30": (
        {"fp32": 10.3e12, "tf32": 82e12, "fp16": 165e12, "bf16": 165e12},
        "NVIDIA A30 Tensor Core GPU data sheet",
    ),
    "L40S": (
        {"fp32": 91.6e12, "tf32": 183e12, "fp16": 362.05e12, "bf16": 362.05e12},
        "NVIDIA L40S data sheet",
    ),
    "T4": ({"fp32": 8.1e12, "fp16": 65e12}, "NVIDIA T4 Tensor Core GPU data sheet"),
    "V100-SXM2-16GB": (_SXM_V, _V100),
    "V100-SXM2-32GB": (_SXM_V, _V100),
    "V100-PCIE-16GB": (_PCIE_V, _V100),
    "V100-PCIE-32GB": (_PCIE_V, _V100),
}


def peak(device: str, precision: str) -> Peak | None:
    """Return the peak dense arithmetic rate of a device at a precision, with its source; None if it is not known.

    Args:
        device: The driver's name of the device, with or without `NVIDIA` or `Tesla` in front.
        precision: Name of a precision in `dlperf_sdk.spec.precision.PRECISIONS`.

    Raises:
        UnknownName: There is no such precision.
    """
    rates, source = _TABLE.get(device.removeprefix("NVIDIA ").removeprefix("Tesla "), ({}, ""))
    flops = rates.get(PRECISIONS[precision].format)
    return None if flops is None else Peak(flops, source)
