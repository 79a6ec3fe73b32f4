"""BERT-Base pre-training: masked language model and next sentence prediction.

NOTE on the variant. The network of Devlin et al., with the masked language model's decoder tied to the word
embeddings, and only the predicted positions decoded (an implementation that decodes every position does more
work: see the term `masked_lm.decoder` of the arithmetic). GELU is the exact one, with erf. Layer norm has
epsilon 1e-12 and is applied after the residual sum. What a plugin computes, for S tokens, P predictions, H
the hidden size:

- x = dropout(norm(word[input_ids] + position[0..S) + segment[segment_ids])).
- Each layer: softmax(Q·Kᵀ / √(H/heads) + mask) with dropout, times V, through `attention.output`, dropout,
  added to x, `attention.norm`; then `intermediate`, GELU, `output`, dropout, added, `norm`. Keys whose
  `attention_mask` is 0 get no attention.
- Masked language model: the P positions of `masked_positions` are gathered, then `transform`, GELU, `norm`,
  and the product with the word embeddings plus `masked_lm.bias`. Its loss is Σ weight·(-log p[masked_ids]) /
  Σ weight over the micro-batch of one replica, weight being `masked_weights`.
- Next sentence: tanh(`pooler`) of the first token, then `next_sentence`; its loss is the mean over the
  micro-batch.
- The loss is the sum of the two.
- The gradients are clipped by their common norm where `clip_norm` is a number: g ← g · min(1, clip_norm /
  ‖g‖), after replicas and micro-batches have been averaged.
- The optimizer at step t = 1, 2, …, per parameter, with weight decay w where the manifest says `decay`:
  m ← β₁·m + (1 - β₁)·g;  v ← β₂·v + (1 - β₂)·g²;
  θ ← θ - rate · (m / (1 - β₁ᵗ) / (√(v / (1 - β₂ᵗ)) + ε) + w·θ), with m = v = 0 at first.

Sources:

- J. Devlin, M.-W. Chang, K. Lee, K. Toutanova: BERT, NAACL 2019: section 3 (the network), appendix A.2 (Adam
  with rate 1e-4, β₁ 0.9, β₂ 0.999, decay 0.01, warm-up over 10,000 steps, dropout 0.1, GELU).
- google-research/bert: `modeling.py` (truncated normal 0.02, layer norm's epsilon), `optimization.py` (ε
  1e-6, clip by global norm 1.0, decoupled decay that spares layer norm and biases). That code leaves out the
  bias correction (1 - βᵗ) that Adam has in the paper it cites; here it is in, as in every framework's AdamW.
"""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from dlperf_sdk.errors import SpecError
from dlperf_sdk.interfaces.model import Input, Model, Optimizer, Parameter, Term
from dlperf_sdk.spec.fields import number, optional, whole_number, workload
from dlperf_sdk.worker.architectures import POSITIONS, SEGMENTS

_RANDOM = {"kind": "truncated-normal", "std": 0.02, "bound": 2.0}
_ZEROS = {"kind": "constant", "value": 0.0}
_ONES = {"kind": "constant", "value": 1.0}


@frozen
class BertBaseOptions:
    """The options of `bert-base`.

    Raises:
        SpecError: An option has an impossible value, or two options contradict each other.
    """

    sequence_length: int = workload("Tokens per sequence.", 128, validator=whole_number(5, POSITIONS))
    layers: int = workload("Encoder layers.", 12, validator=whole_number(1, 1024))
    hidden_size: int = workload(
        "Width of the encoder; a multiple of `heads`.", 768, validator=whole_number(1, 65536)
    )
    heads: int = workload("Attention heads.", 12, validator=whole_number(1, 65536))
    intermediate_size: int = workload(
        "Width inside the feed-forward blocks.", 3072, validator=whole_number(1, 1_000_000)
    )
    predictions_per_sequence: int = workload(
        "Masked tokens to predict in a sequence, at most its length less the first and last token.",
        20,
        validator=whole_number(1, POSITIONS),
    )
    vocabulary_size: int = workload(
        "Word pieces in the vocabulary.", 30522, validator=whole_number(2, 10_000_000)
    )
    dropout: float = workload(
        "Dropout of embeddings, attention and each block's output.", 0.1, validator=number(upper=1)
    )
    clip_norm: float | None = workload(
        "Clip gradients to this global norm; 0 or none for no clipping.", 1.0, validator=optional(number())
    )
    learning_rate: float = workload("The rate, constant or after the warm-up.", 1e-4, validator=number())
    warmup_steps: int = workload(
        "Steps over which the learning-rate policy `warmup` raises the rate.",
        10_000,
        validator=whole_number(1, 1_000_000_000),
    )
    weight_decay: float = workload(
        "Decoupled weight decay; layer norm and biases have none.", 0.01, validator=number()
    )

    def __attrs_post_init__(self) -> None:
        if self.hidden_size % self.heads:
            raise SpecError(
                f"hidden_size {self.hidden_size} cannot be split into {self.heads} equal heads; "
                "choose a number of heads that divides it."
            )
        if self.predictions_per_sequence > self.sequence_length - 2:
            raise SpecError(
                f"predictions_per_sequence is {self.predictions_per_sequence}, but of the sequence_length "
                f"{self.sequence_length} only the {self.sequence_length - 2} between the first and the last "
                "can be masked."
            )


def _linear(name: str, outputs: int, inputs: int) -> list[Parameter]:
    return [
        Parameter(f"{name}.weight", (outputs, inputs), _RANDOM),
        Parameter(f"{name}.bias", (outputs,), _ZEROS, decay=False),
    ]


def _norm(name: str, size: int) -> list[Parameter]:
    return [
        Parameter(f"{name}.weight", (size,), _ONES, decay=False),
        Parameter(f"{name}.bias", (size,), _ZEROS, decay=False),
    ]


class BertBase(Model):
    """BERT-Base: 110,106,428 parameters, 69.93 GFLOP per training sequence (128 tokens, 20 predictions)."""

    name = "bert-base"
    Options = BertBaseOptions
    unit = "seq/s"
    references = Path(__file__).with_name("references") / "bert_base.json"

    def parameters(self, options: BertBaseOptions) -> tuple[Parameter, ...]:
        """Return the trainable parameters, in the order of the forward pass.

        Weight decay applies to the weights of embeddings and linear layers, not to layer norm and biases.
        `options` holds the model's options.
        """
        hidden, intermediate = options.hidden_size, options.intermediate_size
        manifest = [
            Parameter("embeddings.word.weight", (options.vocabulary_size, hidden), _RANDOM),
            Parameter("embeddings.position.weight", (POSITIONS, hidden), _RANDOM),
            Parameter("embeddings.segment.weight", (SEGMENTS, hidden), _RANDOM),
            *_norm("embeddings.norm", hidden),
        ]
        for i in range(options.layers):
            layer = f"encoder.{i}"
            manifest += [
                *_linear(f"{layer}.attention.query", hidden, hidden),
                *_linear(f"{layer}.attention.key", hidden, hidden),
                *_linear(f"{layer}.attention.value", hidden, hidden),
                *_linear(f"{layer}.attention.output", hidden, hidden),
                *_norm(f"{layer}.attention.norm", hidden),
                *_linear(f"{layer}.intermediate", intermediate, hidden),
                *_linear(f"{layer}.output", hidden, intermediate),
                *_norm(f"{layer}.norm", hidden),
            ]
        return (
            *manifest,
            *_linear("pooler", hidden, hidden),
            *_linear("next_sentence", 2, hidden),
            *_linear("masked_lm.transform", hidden, hidden),
            *_norm("masked_lm.norm", hidden),
            Parameter("masked_lm.bias", (options.vocabulary_size,), _ZEROS, decay=False),
        )

    def inputs(self, options: BertBaseOptions) -> tuple[Input, ...]:
        """Return the inputs of one sequence.

        S is `sequence_length`, and P is `predictions_per_sequence`. The canonical batch has neither padding nor
        unused predictions; real text has both.

        `input_ids` (S): word pieces. `segment_ids` (S): 0 for the first part, 1 for the second. `attention_mask` (S): 1
        for a token, 0 for padding. `masked_positions` (P): ascending indexes into the sequence. `masked_ids` (P): the
        original tokens at these positions. `masked_weights` (P): 1, or 0 for an unused prediction, whose position and
        id are 0. `next_sentence_label`, a scalar: 0 if the second part follows the first in its text, else 1. `options`
        holds the model's options.
        """
        tokens, predictions = (options.sequence_length,), (options.predictions_per_sequence,)
        token = {"kind": "integers", "low": 0, "high": options.vocabulary_size}
        inside = {"kind": "distinct", "low": 1, "high": options.sequence_length - 1}
        return (
            Input("input_ids", tokens, "int64", token),
            Input("segment_ids", tokens, "int64", {"kind": "segments"}),
            Input("attention_mask", tokens, "int64", {"kind": "constant", "value": 1}),
            Input("masked_positions", predictions, "int64", inside),
            Input("masked_ids", predictions, "int64", token, is_label=True),
            Input("masked_weights", predictions, "float32", _ONES),
            Input("next_sentence_label", (), "int64", {"kind": "integers", "low": 0, "high": 2}),
        )

    def flops(self, options: BertBaseOptions) -> tuple[Term, ...]:
        """Return the FLOPs per sequence and training step, one term per group of matrix products.

        Look-ups of embeddings and elementwise operations do not count.
        `options` holds the model's options.
        """
        hidden, intermediate, vocabulary = (
            options.hidden_size,
            options.intermediate_size,
            options.vocabulary_size,
        )
        count, tokens, predicted = options.layers, options.sequence_length, options.predictions_per_sequence
        extent = f"{count} layers × {tokens} tokens"
        return (
            Term(
                f"attention projections: {extent} × 4 · {hidden}→{hidden}",
                count * tokens * 4 * hidden**2,
            ),
            Term(
                f"attention products: {extent} × 2 · {hidden}→{tokens}",
                count * tokens * 2 * hidden * tokens,
            ),
            Term(
                f"feed-forward: {extent} × 2 · {hidden}→{intermediate}",
                count * tokens * 2 * hidden * intermediate,
            ),
            Term(f"masked_lm.transform: {predicted} tokens × {hidden}→{hidden}", predicted * hidden**2),
            Term(
                f"masked_lm.decoder: {predicted} tokens × {hidden}→{vocabulary}",
                predicted * hidden * vocabulary,
            ),
            Term(f"pooler: {hidden}→{hidden}", hidden**2),
            Term(f"next_sentence: {hidden}→2", hidden * 2),
        )

    def optimizer(self, options: BertBaseOptions, global_batch_size: int) -> Optimizer:
        """Return AdamW, with the same learning rate for every global batch size.

        The default rate is the published one for 256 sequences. `options` holds the model's options, from which the
        learning rate, the weight decay and `clip_norm` are taken; a `clip_norm` of 0 means no clipping.
        `global_batch_size` is not used.
        """
        return Optimizer(
            kind="adamw",
            numbers={
                "learning_rate": options.learning_rate,
                "warmup_learning_rate": options.learning_rate,
                "warmup_steps": options.warmup_steps,
                "beta1": 0.9,
                "beta2": 0.999,
                "epsilon": 1e-6,
                "weight_decay": options.weight_decay,
                "clip_norm": options.clip_norm or None,
            },
            source="Devlin et al. 2019, appendix A.2; google-research/bert (epsilon, clip, exemptions)",
        )
