"""Dropout inside Triton kernels: which elements are kept is computed, never stored."""

import torch
import triton
import triton.language as tl


def draw_seeds(sites, device):
    """Return the seeds of a step's dropouts, an int32 tensor (sites, 2), from torch's generator of the device.

    `sites` is the number of dropouts in a step, and `device` the `torch.device`. In a CUDA graph, each replay draws new
    seeds.
    """
    return torch.randint(-(2**31), 2**31, (sites, 2), dtype=torch.int32, device=device)


def threshold(p):
    """Return the int32 number whose bits, read as unsigned, are p · 2³²: `keep` drops elements with smaller bits.

    `p` is the probability of dropout, 0 ≤ p < 1.
    """
    bits = round(p * 2**32)
    return bits - 2**32 if bits >= 2**31 else bits


@triton.jit
def keep(seeds, index, threshold):
    """Return a block of booleans in a Triton kernel: True for the elements that dropout keeps.

    An element's bits are computed from its index by MurmurHash3's finalizer (Appleby 2011), with two changes: a seed is
    added before each of the two multiplications, and the last step is left out, since it changes only the lower half.
    Philox takes more than ten times as many instructions, which would take longer than these kernels' memory traffic.

    Args:
        seeds: Pointer to two int32 seeds.
        index: Block of the int32 indices of the elements in their tensor.
        threshold: `threshold(p)` of the probability p of dropout, 0 ≤ p < 1.
    """
    bits = index.to(tl.uint32, bitcast=True) + tl.load(seeds).to(tl.uint32, bitcast=True)
    bits ^= bits >> 16
    bits = bits * 0x85EBCA6B + tl.load(seeds + 1).to(tl.uint32, bitcast=True)
    bits ^= bits >> 13
    return bits * 0xC2B2AE35 >= threshold.to(tl.uint32, bitcast=True)
