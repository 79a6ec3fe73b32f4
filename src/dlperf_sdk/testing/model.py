"""Test a model: a manifest, inputs, arithmetic and an optimizer that any framework can take."""

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
"""Larger tensors than this are not drawn here: the rules for them are the same."""


class ModelConformance(Conformance):
    """Subclass it and name the model.

    class TestMyModel(ModelConformance):
        model = "my"
    """

    model: ClassVar[str]
    """The name that users type."""
    model_options: ClassVar[Mapping[str, Scalar]] = {}
    """Options to try it with; its defaults are tried as well."""
    registry: ClassVar[Registry] = Registry()

    @property
    def plugin(self) -> Model:
        """The model; raises PluginError."""
        return self.registry.model(self.model)

    def axes(self) -> Mapping[str, list[Mapping[str, Scalar]]]:
        """Return the options that each test is run with."""
        return {"options": [{}, *([self.model_options] if self.model_options else [])]}

    def test_the_manifest_can_be_drawn(self, options: Mapping[str, Scalar]) -> None:
        """Names are unique, shapes positive, and each `init` gives finite numbers of that shape."""
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

    def test_the_batch_can_be_drawn(self, options: Mapping[str, Scalar]) -> None:
        """Each `fill` gives values of that shape and type, different from shard to shard unless constant."""
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

    def test_the_arithmetic_is_positive(self, options: Mapping[str, Scalar]) -> None:
        """Each term has a name of its own and a positive count; 2 or 3 passes."""
        terms = self.plugin.flops(self._chosen(options))
        assert terms, "the model has no arithmetic: MFU and FLOP/s cannot be computed"
        for term in terms:
            assert term.macs > 0 and term.passes in (2, 3), advice(
                f"The term {term.name!r} has {term.macs} multiply-accumulates in {term.passes} passes.",
                "achieved FLOP/s and MFU are made of these",
                "count the forward pass per sample; 3 passes, or 2 where the input needs no gradient",
            )

    def test_the_optimizer_says_where_its_numbers_are_published(self, options: Mapping[str, Scalar]) -> None:
        """A kind, a positive learning rate, and a source, for small and large batches."""
        for batch in (1, 32, 65536):
            optimizer = self.plugin.optimizer(self._chosen(options), batch)
            assert optimizer.kind and optimizer.source, f"{optimizer} has no kind, or no source"
            assert (optimizer.numbers.get("learning_rate") or 0.0) > 0.0, f"{optimizer} has no learning rate"

    def test_its_options_have_defaults(self) -> None:
        """`dlperf run FRAMEWORK MODEL` needs no `--set`."""
        for field in attrs.fields(self.plugin.Options):
            assert field.default is not attrs.NOTHING, advice(
                f"The option {field.name} has no default.",
                "the published case is the one that nothing needs to be set for",
                "give it the published value",
            )

    def test_its_page_says_what_is_computed(self) -> None:
        """The docstring of the class, or of its module, is what the author of a trainer reads."""
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
