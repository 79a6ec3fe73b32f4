"""Data sources: where batches come from."""

from __future__ import annotations

from collections.abc import Collection

from attrs import frozen

from dlperf_sdk.errors import SpecError
from dlperf_sdk.spec.table import Table


@frozen(kw_only=True)
class DataSource:
    """All that the core knows of one data source; a framework plugin feeds its trainers from it."""

    name: str
    help: str
    inputs: frozenset[str] | None = None
    """Names of the inputs that it gives each sample; None where it feeds any model."""
    model_option: str | None = None
    """The option of the model that it must know: the number of classes, the size of the vocabulary."""
    preparation: str | None = None
    """`module:function` that makes on the controller what the workers read, from the folder that the spec names (see
    `dlperf_sdk.data.prepare`); None for a source without a folder: its workers get its name only."""
    sample_folder: str | None = None
    """`module:function` that fills a folder with samples, for the conformance suite."""
    module: str | None = None
    """The module that its preparation needs beside the core's; the extra of dlperf-sdk that has it is called like the
    source."""

    @property
    def takes_folder(self) -> bool:
        """Return True if a spec names a folder with this source: `images:FOLDER`."""
        return self.preparation is not None

    @property
    def usage(self) -> str:
        """The source as people write it in a spec."""
        return f"{self.name}:FOLDER" if self.takes_folder else self.name

    def feeds(self, inputs: Collection[str], options: Collection[str]) -> bool:
        """Return True if the source can feed a model with these inputs and options."""
        fits = self.inputs is None or self.inputs == set(inputs)
        return fits and (self.model_option is None or self.model_option in options)

    def check_folder(self, path: str | None) -> None:
        """Check that a folder is given if the source takes one, and only then; `path` is None without a folder.

        Raises:
            SpecError: it is missing, or the source takes none.
        """
        if self.takes_folder and path is None:
            raise SpecError(f"data is {self.name!r}; name the folder as well: {self.usage}.")
        if path is not None and not self.takes_folder:
            raise SpecError(f"data is '{self.name}:{path}'; {self.name} takes no folder: write {self.name}.")


DATA_SOURCES = Table(
    "data source",
    (
        DataSource(name="synthetic", help="The canonical batch, made on the device before the first step."),
        DataSource(name="synthetic-host", help="The canonical batch, copied from host memory for each step."),
        DataSource(
            name="images",
            help="JPEG files, one folder per class: decoded, cropped and mirrored at random, and normalized, in "
            "parallel loaders.",
            inputs=frozenset({"image", "label"}),
            model_option="num_classes",
            preparation="dlperf_sdk.data.images:prepare_images",
            sample_folder="dlperf_sdk.testing.samples:write_images",
        ),
        DataSource(
            name="text",
            help="UTF-8 `*.txt` files, split into WordPiece tokens and masked beforehand.",
            inputs=frozenset(
                {
                    "input_ids",
                    "segment_ids",
                    "attention_mask",
                    "masked_positions",
                    "masked_ids",
                    "masked_weights",
                    "next_sentence_label",
                }
            ),
            model_option="vocabulary_size",
            preparation="dlperf_sdk.data.text:prepare_text",
            sample_folder="dlperf_sdk.testing.samples:write_sentences",
            module="tokenizers",
        ),
    ),
)
