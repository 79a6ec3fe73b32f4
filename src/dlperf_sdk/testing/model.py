"""Test a model: its manifest, inputs, FLOPs and optimizer are complete enough for any framework to implement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import attrs
import numpy

from dlperf_sdk.interfaces.model import Model, entry_to_dict
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.spec.values import Scalar
from dlperf_sdk.testing.conformance import Conformance, advice
from dlperf_sdk.worker import canonical

TENSOR_BYTES = 64 * 2**20
"""Size in bytes of the largest parameter to draw; the same rules apply to larger ones."""


class ModelConformance(Conformance):
    """The conformance suite of a model plugin. Subclass it and name the model.

        class TestMyModel(ModelConformance):
            model = "my"

    Each test with a parameter runs for the model's default options, and again for `model_options` if there are any.
    """

    model: ClassVar[str]
    """The name of the model in the group `dlperf_sdk.models`, as users type it."""
    model_options: ClassVar[Mapping[str, Scalar]] = {}
    """Options of the model to try besides the defaults."""
    registry: ClassVar[Registry] = Registry()
    """The registry of plugins; by default, the installed ones."""

    @property
    def plugin(self) -> Model:
        """The model, loaded.

        Raises:
            DlperfError: No such model is installed, or it cannot be loaded.
        """
        return self.registry.model(self.model)

    def axes(self) -> Mapping[str, list[Mapping[str, Scalar]]]:
        """Return a dict from the name of a parameter of the tests to the values to try for it.

        The only parameter is `options`. Its values are an empty mapping, which stands for the model's defaults, and
        `model_options` if that is not empty.
        """
        return {"options": [{}, *([self.model_options] if self.model_options else [])]}

    def test_weights_can_be_drawn(self, options: Mapping[str, Scalar]) -> None:
        """With `options`, the model has parameters with unique names, no dimension of 0, and finite initial values.

        Values of parameters larger than `TENSOR_BYTES` (64 MiB) are not drawn. `options` has name → value of the
        model's options that are not the default.
        """
        manifest = [entry_to_dict(entry) for entry in self.plugin.parameters(self._chosen(options))]
        names = [entry["name"] for entry in manifest]
        assert manifest and len(set(names)) == len(names), advice(
            f"The manifest has {len(names)} parameters under {len(set(names))} names.",
            "canonical weights and comparisons go by name",
            "name each parameter once",
        )
        for entry in manifest:
            size = 4 * int(numpy.prod(entry["shape"], dtype=numpy.int64))
            assert size > 0, f"{entry['name']} has the shape {entry['shape']}"
            if size <= TENSOR_BYTES:
                ((_, values),) = canonical.weights([entry], 0)
                assert numpy.isfinite(values).all(), (
                    f"{entry['name']} is filled with {entry['init']}: not finite"
                )

    def test_batch_can_be_drawn(self, options: Mapping[str, Scalar]) -> None:
        """With `options`, each input can be drawn in its shape and type, and at least one differs between two shards.

        `options` has name → value of the model's options that are not the default.
        """
        inputs = [entry_to_dict(entry) for entry in self.plugin.inputs(self._chosen(options))]
        first, second = (canonical.batch(inputs, 2, shard, 0) for shard in (0, 1))
        assert inputs, "the model has no inputs"
        assert any((first[name] != second[name]).any() for name in first), advice(
            "The two canonical shards are the same batch.",
            "replicas that train on the same samples are equal without synchronization",
            "draw at least one input from 'normal', 'integers' or 'distinct'",
        )
        for entry in inputs:
            assert first[entry["name"]].shape == (2, *entry["shape"])
            assert str(first[entry["name"]].dtype) == entry["dtype"]

    def test_flops_are_positive(self, options: Mapping[str, Scalar]) -> None:
        """With `options`, the model has FLOP terms, each with positive multiply-accumulates, and 2 or 3 passes.

        `options` has name → value of the model's options that are not the default.
        """
        terms = self.plugin.flops(self._chosen(options))
        assert terms, "the model has no arithmetic: MFU and FLOP/s cannot be computed"
        for term in terms:
            assert term.macs > 0 and term.passes in (2, 3), advice(
                f"The term {term.name!r} has {term.macs} multiply-accumulates in {term.passes} passes.",
                "achieved FLOP/s and MFU are made of these",
                "count the forward pass per sample; 3 passes, or 2 where the input needs no gradient",
            )

    def test_optimizer_cites_its_source(self, options: Mapping[str, Scalar]) -> None:
        """With `options`, the optimizer has a kind, a positive learning rate and a source.

        Global batch sizes of 1, 32 and 65536 are tried. `options` has name → value of the model's options that are not
        the default.
        """
        for batch in (1, 32, 65536):
            optimizer = self.plugin.optimizer(self._chosen(options), batch)
            assert optimizer.kind and optimizer.source, f"{optimizer} has no kind, or no source"
            assert (optimizer.numbers.get("learning_rate") or 0.0) > 0.0, f"{optimizer} has no learning rate"

    def test_options_have_defaults(self) -> None:
        """Each option of the model has a default, so that `dlperf run FRAMEWORK MODEL` needs no `--set`."""
        for field in attrs.fields(self.plugin.Options):
            assert field.default is not attrs.NOTHING, advice(
                f"The option {field.name} has no default.",
                "the published case is the one that nothing needs to be set for",
                "give it the published value",
            )

    def test_description_states_the_computation(self) -> None:
        """The docstrings of the model's class and of its module have ten words or more together.

        Authors of trainers read these docstrings to implement the model.
        """
        import sys

        cls = type(self.plugin)
        text = (cls.__doc__ or "") + (sys.modules[cls.__module__].__doc__ or "")
        assert len(text.split()) >= 10, advice(
            f"{cls.__qualname__} says {text!r} about itself.",
            "two frameworks can only train the same model where it is laid down, to the epsilon",
            "say in the docstring what is computed: layers, padding, epsilons, the loss and its reduction",
        )

    def _chosen(self, options: Mapping[str, Scalar]) -> Any:
        return self.plugin.Options(**options)
