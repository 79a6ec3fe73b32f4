"""The torch plugin's models against transformers' in a plain loop: same work, one process, blocks in turns.

    python scripts/in_environment.py torch --with attrs --with transformers -- benchmarks/reference_torch.py

Ours: the plugin's trainer, one `step` after another. Theirs: `ResNetForImageClassification` and
`BertForPreTraining`, made from a configuration, in the loop that their documentation and torch's teach:
zero_grad, forward with labels, backward, (clip,) step. Rows with a bound compare with that loop; the others
give their loop our levers (channels_last, fused optimizer), so that what is left between the two is the
network itself.

Equal work means, on both sides:
- the same sizes, batch, precision (autocast around forward and loss), dropout, optimizer, hyper-parameters,
  parameters with and without weight decay, clipping of BERT's gradients to the global norm 1;
- no label smoothing, because the loss inside `ResNetForImageClassification` has none;
- BERT's decoder on the masked positions only. `BertForPreTraining` decodes every position; here its `bert`
  encodes, the masked positions are gathered as ours are, and its `cls` heads see those;
- the same FLOPs: torch's counter runs over one step of each side, and they must agree to 0.1 %.

`--device cuda` is the same on one GPU, in larger batches, with the device waited for at both ends of a block;
it has not been run there yet. `--compiled` adds their plain loop with forward pass and loss under
`torch.compile`, which takes minutes on a CPU; `--compiler` and `--options` are ours. Where timm is installed, its
ResNet-50 is one of theirs.

Two things stay different, because they are what each does: ours keeps images in channels_last by default
(theirs in channels first, but for the rows that say so), and transformers leaves an attention mask out where
all of it is 1, while ours always applies it.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import paired
import torch_case
from paired import Comparison, Spent
from theirs_torch import COMPILED, PLAIN, THEIRS, Theirs

from dlperf_sdk.worker.interface import Trainer

BOUND = 1.0
"""Ours ÷ theirs in throughput, at least: the median."""
LOWER_BOUND = 0.97
"""The same: the lower end of the interval."""
PRECISIONS = ("fp32", "amp-bf16")


class Size(NamedTuple):
    """How large a case is."""

    options: dict[str, Any]
    batch_size: int
    steps: int
    """Timed steps in a block."""


SIZES = {
    "tiny": {
        "resnet50": Size({"image_size": 64}, 4, 3),
        "bert-base": Size({"layers": 2, "sequence_length": 16, "predictions_per_sequence": 3}, 2, 3),
    },
    "small": {
        "resnet50": Size({"image_size": 128}, 8, 1),
        "bert-base": Size({"layers": 4, "sequence_length": 64, "predictions_per_sequence": 10}, 4, 2),
    },
    "full": {
        "resnet50": Size({"image_size": 224}, 8, 1),
        "bert-base": Size({"sequence_length": 128, "predictions_per_sequence": 20}, 8, 1),
    },
    "gpu": {
        "resnet50": Size({"image_size": 224}, 256, 20),
        "bert-base": Size({"sequence_length": 128, "predictions_per_sequence": 20}, 256, 20),
    },
}
"""`tiny` is for work on this file: a step there is mostly the optimizer and the reordering of weights."""


def block(step: Callable[[], object], steps: int, synchronize: Callable[[], None]) -> Callable[[], Spent]:
    """Return a block of steps, after one that is not timed: it brings this side's weights back into the caches.

    Args:
        step: Function that takes one step.
        steps: Number of timed steps.
        synchronize: Function that waits until the steps are done.
    """

    def some(count: int) -> None:
        for _ in range(count):
            step()
        synchronize()

    def run() -> Spent:
        some(1)
        return paired.timed(lambda: some(steps))

    return run


def flops(step: Callable[[], object]) -> int:
    """Take one step, and return the floating-point operations of its matrix products and convolutions."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        step()
    return int(counter.get_total_flops())


def _parameter_sizes(parameters: Iterator[Any]) -> tuple[int, int]:
    """Elements of parameters with more than one dimension, and with one."""
    sizes = [(parameter.dim() > 1, parameter.numel()) for parameter in parameters]
    return sum(size for wide, size in sizes if wide), sum(size for wide, size in sizes if not wide)


def _same_work(trainer: Trainer, theirs: Theirs) -> dict[str, Any]:
    """FLOPs and parameters of ours and theirs.

    Raises:
        RuntimeError: They are not the same.
    """
    entries = trainer.request.parameters
    own = tuple(
        sum(math.prod(entry["shape"]) for entry in entries if entry["decay"] is decays)
        for decays in (True, False)
    )
    sizes = _parameter_sizes(theirs.model.parameters())
    actual = {
        "flops": [flops(lambda: trainer.step(trainer.canonical_batch())), flops(theirs.step)],
        "with_decay": [own[0], sizes[0]],
        "without": [own[1], sizes[1]],
    }
    for what, (left, right) in actual.items():
        if abs(left / right - 1) > (1e-3 if what == "flops" else 0):
            raise RuntimeError(f"not the same work: {what} are {left} of ours and {right} of theirs")
    return actual


def compare(
    model: str, precision: str, size: Size, pairs: int, *, device: str, compiled: bool, **changes: Any
) -> dict[str, Any]:
    """Compare one model in one precision: ours against each of their ways, and against itself.

    Args:
        model: Name of the model.
        precision: Name of the precision.
        size: The size of the case.
        pairs: Number of pairs of blocks.
        device: Kind of the device, `cpu` or `cuda`.
        compiled: True to add their plain loop under `torch.compile`.
        changes: Further arguments of `torch_case.request` for our side.

    Returns:
        JSON values: the case, `work`, `observed`, `facts`, `last_losses`, and `rows`, a plain loop's with a `claim`.

    Raises:
        RuntimeError: The work is not the same, or a side did not train.
        Unsupported: The plugin cannot run the case.
    """
    options = {**size.options, **({"label_smoothing": 0.0} if model == "resnet50" else {})}
    # torch's own kernels: the counter of FLOPs sees into no other.
    request = torch_case.request(
        model, options, size.batch_size, precision, device=device, framework_options={"cuda_graph": False}
    )
    ways = {**THEIRS[model], **({COMPILED: THEIRS[model][PLAIN]} if compiled else {})}
    _, plain = torch_case.start(request)
    sides = {
        name: way.make(request, plain.canonical_batch()).prepare(
            channels_last=way.channels_last, fused=way.fused
        )
        for name, way in ways.items()
    }
    work = {name: _same_work(plain, side) for name, side in sides.items()}
    if compiled:
        sides[COMPILED].compile()
    del plain
    runtime, trainer = torch_case.start(
        torch_case.request(model, options, size.batch_size, precision, device=device, **changes)
    )
    batches = trainer.batches()
    losses: list[Any] = [None]

    def ours() -> None:
        losses[0] = trainer.step(next(batches)).loss

    def timed(step: Callable[[], object]) -> Callable[[], Spent]:
        return block(step, size.steps, runtime.synchronize)

    comparisons = [
        Comparison(name, timed(side.step), timed(ours), size.steps) for name, side in sides.items()
    ]
    comparisons.append(Comparison("ours, A/A", timed(ours), timed(ours), size.steps))
    actual = paired.interleaved(comparisons, pairs, paired.telling(f"{model} {precision}"))
    rows = [paired.summary(comparison, of) for comparison, of in zip(comparisons, actual, strict=True)]
    for row in rows:
        if row["name"].startswith("plain loop"):
            row["claim"] = paired.at_least(BOUND, LOWER_BOUND, row["ratio"])
    last = {
        "ours": trainer.read_loss(losses[0])[0],
        **{name: side.last.item() for name, side in sides.items()},
    }
    if not all(math.isfinite(loss) for loss in last.values()):
        raise RuntimeError(f"{model} in {precision} did not train: its last losses are {last}")
    facts = runtime.facts()
    runtime.stop()
    return {
        "model": model,
        "precision": precision,
        "options": request.model_options,
        "changes": changes,
        "batch_size": size.batch_size,
        "work": work,
        "observed": trainer.observed(),
        "facts": facts,
        "last_losses": last,
        "rows": rows,
    }


def main() -> int:
    """Run the comparisons, print tables or JSON, and return 0."""
    parser = paired.arguments(__doc__, pairs=20)
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument(
        "--full", dest="size", action="store_const", const="full", help="224 px; 12 layers, 128 tokens"
    )
    sizes.add_argument(
        "--tiny", dest="size", action="store_const", const="tiny", help="64 px; 2 layers, 16 tokens"
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument(
        "--compiled", action="store_true", help="their plain loop under torch.compile as well"
    )
    parser.add_argument("--compiler", choices=("none", "inductor"), default="none", help="ours")
    parser.add_argument(
        "--options", type=json.loads, default={}, metavar="JSON", help="of the plugin, for ours"
    )
    parser.add_argument("--model", choices=sorted(THEIRS), help="only this model")
    parser.add_argument("--precision", choices=PRECISIONS, help="only this precision")
    parser.add_argument("--threads", type=int, help="threads (default: one per usable processor)")
    chosen = parser.parse_args()
    before = paired.machine()
    torch_case.take_threads(chosen.threads)
    import torch
    import transformers

    chosen.size = chosen.size or {"cpu": "small", "cuda": "gpu"}[chosen.device]
    size = SIZES[chosen.size]
    cases = [
        compare(
            model,
            precision,
            size[model],
            chosen.pairs,
            device=chosen.device,
            compiled=chosen.compiled,
            compiler=chosen.compiler,
            framework_options=chosen.options,
        )
        for model in sorted(size, reverse=True)
        for precision in PRECISIONS
        if chosen.model in (None, model) and chosen.precision in (None, precision)
    ]
    document = {
        "benchmark": "reference_torch",
        "machine": before,
        "load_after": paired.load(),
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "threads": torch.get_num_threads(),
        "size": chosen.size,
        "cases": cases,
    }
    if chosen.json:
        print(paired.as_json(document))
        return 0
    print(paired.said(before))
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, ", end="")
    print(f"{torch.get_num_threads()} threads")
    print("throughput of ours ÷ theirs, median of pairs (95 % interval)")
    for case in cases:
        print(f"\n{case['model']}, {case['precision']}, batch size {case['batch_size']}: {_described(case)}")
        headings = (
            "theirs",
            "pairs",
            "theirs, ms",
            "ours, ms",
            "ours ÷ theirs",
            "by processor time",
            "bound",
        )
        print(paired.table(headings, [_cells(row) for row in case["rows"]]))
        for row in case["rows"]:
            itself = row["name"].endswith("A/A")
            print(f"{row['name']}: {paired.in_words(row['ratio'], other='itself' if itself else 'theirs')}.")
    return 0


def _described(case: dict[str, Any]) -> str:
    options, (ours, theirs) = case["options"], case["work"]["plain loop"]["flops"]
    size = (
        f"{options['image_size']} px"
        if case["model"] == "resnet50"
        else f"{options['layers']} layers, {options['sequence_length']} tokens"
    )
    return f"{size}; a step is {ours / 1e9:.2f} GFLOP (theirs {theirs / 1e9:.2f})"


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        row["name"],
        str(row["pairs"]),
        f"{row['a_seconds_per_step']['median'] * 1e3:.1f}",
        f"{row['b_seconds_per_step']['median'] * 1e3:.1f}",
        paired.number(row["ratio"], ".3f"),
        paired.number(row["cpu_ratio"], ".3f"),
        paired.claimed(row, f"≥ {BOUND:.2f}, from ≥ {LOWER_BOUND}"),
    ]


if __name__ == "__main__":
    sys.exit(main())
