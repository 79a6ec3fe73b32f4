"""Each of the torch plugin's levers alone against the plain way: one process, blocks in turns, a ratio for each.

    python scripts/in_environment.py torch --with attrs -- benchmarks/levers.py

A lever is an option of the plugin, or a field of the case: layout, precision, batch size, compiler. The plain way is
torch's own kernels, one launch after another, in `PLAIN`'s precision. Both sides train on as many samples in a block,
also where a batch is larger. The campaign `docs/how-to/gpu/levers.toml` measures the same in new processes, with every
verdict.

A lever that means nothing on this device, or that cannot be had, is a row with its reason; one that breaks is another,
and the exit code is 1. `cudnn_benchmark_limit` is no row: cuDNN's choices are kept for the whole process. `--compiled`
adds what takes minutes to compile.
"""

from __future__ import annotations

import gc
import math
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import paired
import torch_case
from dlperf_torch.options import TorchOptions, explain_refused_option
from paired import Comparison, Spent

from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.worker.unsupported import Unsupported

SIZES: Mapping[str, Mapping[str, tuple[Mapping[str, Any], int, int]]] = {
    "cpu": {
        "resnet50": ({"image_size": 64}, 4, 4),
        "bert-base": ({"layers": 2, "hidden_size": 256, "heads": 4, "sequence_length": 64}, 4, 4),
    },
    "cuda": {"resnet50": ({}, 256, 20), "bert-base": ({}, 256, 20)},
}
"""Kind of device → model → its options, the plain batch size, and the plain steps in a block."""
PLAIN = {
    "cpu": {"resnet50": "fp32", "bert-base": "fp32"},
    "cuda": {"resnet50": "amp-fp16", "bert-base": "amp-bf16"},
}
"""Kind of device → model → the precision of everything but the rows that change it."""


class Lever(NamedTuple):
    """What is changed of the plain way."""

    options: Mapping[str, Any] = {}
    """The plugin's."""
    fields: Mapping[str, Any] = {}
    """The case's."""
    batches: int = 1
    """How many times the plain batch size a batch has; a divisor of the steps in a block."""


OWN = {"cuda_graph": False, "fused_batch_norm": False}
"""ResNet-50 by torch's own kernels."""
OWN_BERT = {"cuda_graph": False, "fused_layers": False}
"""BERT-Base by torch's own kernels."""
PACKED = {"packed_qkv": True, "vocabulary_multiple": 64}
LEVERS: Mapping[str, Mapping[str, Lever]] = {
    "resnet50": {
        "cuda_graph": Lever({"cuda_graph": True, "fused_batch_norm": False}),
        "fused_batch_norm": Lever({"cuda_graph": False, "fused_batch_norm": True}),
        "both": Lever({"cuda_graph": True, "fused_batch_norm": True}),
        "both, amp-bf16": Lever({"cuda_graph": True, "fused_batch_norm": True}, {"precision": "amp-bf16"}),
        "both, batch × 2": Lever({"cuda_graph": True, "fused_batch_norm": True}, batches=2),
        "both, batch × 4": Lever({"cuda_graph": True, "fused_batch_norm": True}, batches=4),
        "layout nchw": Lever(OWN, {"layout": "nchw"}),
        "amp-bf16": Lever(OWN, {"precision": "amp-bf16"}),
        "batch_norm_fp32": Lever({**OWN, "batch_norm_fp32": True}),
        "batch × 2": Lever(OWN, batches=2),
        "batch × 4": Lever(OWN, batches=4),
    },
    "bert-base": {
        "cuda_graph": Lever({"cuda_graph": True, "fused_layers": False}),
        "fused_layers": Lever({"cuda_graph": False, "fused_layers": True}),
        "both": Lever({"cuda_graph": True, "fused_layers": True}),
        "both, batch × 2": Lever({"cuda_graph": True, "fused_layers": True}, batches=2),
        "amp-fp16": Lever(OWN_BERT, {"precision": "amp-fp16"}),
        "no fused_optimizer": Lever({**OWN_BERT, "fused_optimizer": False}),
        "packed_qkv": Lever({**OWN_BERT, "packed_qkv": True}),
        "vocabulary_multiple 64": Lever({**OWN_BERT, "vocabulary_multiple": 64}),
        "attention flash": Lever({**OWN_BERT, "attention": "flash"}),
        "attention efficient": Lever({**OWN_BERT, "attention": "efficient"}),
        "attention math": Lever({**OWN_BERT, "attention": "math"}),
    },
}
"""Model → name → what is changed."""
ITSELF = "plain, A/A"
PLAIN_LEVER: Mapping[str, Lever] = {
    "resnet50": Lever(OWN),
    "bert-base": Lever({**OWN_BERT, "vocabulary_multiple": 1}),
}
"""Model → the plain way."""
COMPILED: Mapping[str, Mapping[str, Lever]] = {
    "resnet50": {
        "inductor": Lever(OWN, {"compiler": "inductor"}),
        "inductor, cuda_graph": Lever({**OWN, "cuda_graph": True}, {"compiler": "inductor"}),
    },
    "bert-base": {
        "inductor": Lever(OWN_BERT, {"compiler": "inductor"}),
        "inductor, packed": Lever({**OWN_BERT, **PACKED}, {"compiler": "inductor"}),
        "inductor, packed, cuda_graph": Lever(
            {**OWN_BERT, **PACKED, "cuda_graph": True}, {"compiler": "inductor"}
        ),
    },
}


class Side:
    """A trainer with a lever, or with none, and its block of work.

    Args:
        device: Kind of the device, `cpu` or `cuda`.
        model: Name of the model.
        lever: The lever.

    Raises:
        Unsupported: The plugin refuses the lever's options, or cannot run the case.
    """

    def __init__(self, device: str, model: str, lever: Lever):
        options, batch_size, steps = SIZES[device][model]
        fields = {"precision": PLAIN[device][model], **lever.fields}
        spec = RunSpec(framework="torch", model=model, device=device, **fields)
        refusal = explain_refused_option(TorchOptions(**lever.options), spec)
        if refusal is not None:
            raise Unsupported(refusal)
        request = torch_case.request(
            model,
            {**options},
            batch_size * lever.batches,
            device=device,
            framework_options=lever.options,
            **fields,
        )
        self.runtime, self.trainer = torch_case.start(request)
        self.batches = self.trainer.batches()
        self.steps = steps // lever.batches
        self.loss: Any = None

    def block(self) -> Spent:
        """Take its steps, after one that is not timed, and return their cost; the device is waited for at both ends."""
        from dlperf_torch.worker import levers

        # The one choice that torch keeps for the whole process.
        chosen = self.trainer.request
        levers.allow_attention(
            chosen.framework_options["attention"], chosen.model_options.get("dropout", 0.0)
        )
        self._train(1)
        return paired.timed(lambda: self._train(self.steps))

    def _train(self, steps: int) -> None:
        for _ in range(steps):
            self.loss = self.trainer.step(next(self.batches)).loss
        self.runtime.synchronize()

    def last_loss(self) -> float:
        """Return the loss of the last block's last step.

        Raises:
            RuntimeError: It is not a finite number.
        """
        (loss,) = self.trainer.read_loss(self.loss)
        if not math.isfinite(loss):
            raise RuntimeError(f"it did not train: its last loss is {loss}")
        return loss


def compare(device: str, model: str, levers: Mapping[str, Lever], pairs: int) -> list[dict[str, Any]]:
    """Return a row for each lever, and then one of plain against plain.

    The levers are measured one after another, so that the device holds two trainers at most.

    Args:
        device: Kind of the device.
        model: Name of the model.
        levers: Name → lever.
        pairs: Number of pairs of blocks.

    Returns:
        JSON values: `name` and the fields of the lever; and the figures of `against`, or `refused` or `failed` with a
            message.
    """
    plain, rows = Side(device, model, PLAIN_LEVER[model]), []
    for name, lever in {**levers, ITSELF: PLAIN_LEVER[model]}.items():
        row: dict[str, Any] = {"name": name, **lever._asdict()}
        rows.append(row)
        try:
            row.update(against(plain, device, model, name, lever, pairs))
        except Unsupported as error:
            row["refused"] = str(error)
        except Exception as error:  # the others are worth having all the same
            row["failed"] = f"{type(error).__name__}: {error}"
        gc.collect()  # the trainer's parts know each other
    return rows


def against(plain: Side, device: str, model: str, name: str, lever: Lever, pairs: int) -> dict[str, Any]:
    """Return the figures of one lever, or plain, against plain; its trainer ends with this function.

    Args:
        plain: The plain side.
        device: Kind of the device.
        model: Name of the model.
        name: Name of the lever; `ITSELF` for plain against plain.
        lever: The lever.
        pairs: Number of pairs of blocks.

    Returns:
        What `paired.summary` returns, and `last_loss`.

    Raises:
        Unsupported: The lever cannot be used here.
        RuntimeError: The side did not train.
    """
    side = plain if name == ITSELF else Side(device, model, lever)
    comparison = Comparison(name, plain.block, side.block, plain.steps)
    (actual,) = paired.interleaved([comparison], pairs, paired.telling(f"{model}, {name}"))
    return {**paired.summary(comparison, actual), "last_loss": side.last_loss()}


def main() -> int:
    """Measure the levers, print tables or JSON, and return the exit code: 1 if one failed, else 0."""
    parser = paired.arguments(__doc__, pairs=6)
    parser.add_argument("--device", choices=sorted(SIZES), default="cpu")
    parser.add_argument("--model", choices=sorted(LEVERS), help="only this model")
    parser.add_argument(
        "--only", action="append", default=[], metavar="WORD", help="levers with one of these words"
    )
    parser.add_argument("--compiled", action="store_true", help="the compiler's as well")
    chosen = parser.parse_args()
    before = paired.machine()
    torch_case.take_threads(None)
    import torch

    cases = {}
    for model in (item for item in LEVERS if chosen.model in (None, item)):
        levers = {**LEVERS[model], **(COMPILED[model] if chosen.compiled else {})}
        wanted = {
            name: lever
            for name, lever in levers.items()
            if not chosen.only or any(word in name for word in chosen.only)
        }
        cases[model] = compare(chosen.device, model, wanted, chosen.pairs)
    document = {
        "benchmark": "levers",
        "machine": before,
        "load_after": paired.load(),
        "device": torch.cuda.get_device_name() if chosen.device == "cuda" else "cpu",
        "versions": {"torch": torch.__version__},
        "cases": cases,
    }
    failed = any("failed" in row for rows in cases.values() for row in rows)
    if chosen.json:
        print(paired.as_json(document))
        return failed
    print(paired.said(before))
    print(f"torch {torch.__version__} on {document['device']}; throughput with the lever ÷ without")
    for model, rows in cases.items():
        _, batch_size, _ = SIZES[chosen.device][model]
        print(f"\n{model}, {PLAIN[chosen.device][model]}, batch size {batch_size}")
        measured = [row for row in rows if "ratio" in row]
        headings = ("lever", "pairs", "plain, samples/s", "lever ÷ plain (95 %)")
        print(paired.table(headings, [_cells(row, batch_size) for row in measured]))
        for row in rows:
            if "ratio" not in row:
                print(f"{row['name']}: {row.get('refused') or row['failed']}")
    return failed


def _cells(row: dict[str, Any], batch_size: int) -> list[str]:
    return [
        row["name"],
        str(row["pairs"]),
        f"{batch_size / row['a_seconds_per_step']['median']:.1f}",
        paired.number(row["ratio"], ".3f"),
    ]


if __name__ == "__main__":
    sys.exit(main())
