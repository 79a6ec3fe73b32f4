"""Data sources: the origins of training batches."""

from __future__ import annotations

from collections.abc import Collection

from attrs import frozen

from dlperf_sdk.errors import SpecError
from dlperf_sdk.spec.table import Table


@frozen(kw_only=True)
class DataSource:
    """Everything that the core knows about a data source. A framework's plugin feeds its trainers from it."""

    name: str
    """Name by which a spec selects the source."""
    help: str
    """Description for users, in a sentence."""
    has_input: bool = True
    """True if each step takes work: batches are made, read or copied. Only then can the input be measured alone."""
    inputs: frozenset[str] | None = None
    """Names of the model inputs that the source fills, exactly; None if it can feed any model."""
    model_option: str | None = None
    """Option of the model that the source needs, such as the number of classes; None: it needs none."""
    preparation: str | None = None
    """`module:function` that turns the folder named in the spec into what the workers read, on the controller
    (see `dlperf_sdk.data.prepare`). None for a source without a folder: its workers receive only its name."""
    description: str | None = None
    """`module:function` that returns a phrase about the folder for a plan, such as `600 images in 2 classes`. None: a
    plan shows the folder only."""
    sample_folder: str | None = None
    """`module:function` that fills a folder with samples, for the conformance suite."""
    module: str | None = None
    """Module that the preparation needs besides the core's dependencies. The extra of dlperf-sdk that installs it
    has the name of the source."""

    sender: str | None = None
    """`module:function` of the service that sends one replica's batches to its trainer (`Process.feeds`); None if the
    trainers make or read their batches themselves."""
    requirements: tuple[str, ...] = ()
    """Packages that the workers need in addition to the framework's own, as requirement specifiers. Only the
    environments of cases with this source have them."""

    @property
    def takes_folder(self) -> bool:
        """True if a spec names a folder with this source: `images:FOLDER`."""
        return self.preparation is not None

    @property
    def usage(self) -> str:
        """The source's form in a spec, for help and messages: `synthetic`, or `images:FOLDER` if it takes a folder."""
        return f"{self.name}:FOLDER" if self.takes_folder else self.name

    def feeds(self, inputs: Collection[str], options: Collection[str]) -> bool:
        """Return True if the source can feed a model with these inputs and options.

        Args:
            inputs: Names of the model's inputs. If the source has fixed inputs, the names must be exactly these.
            options: Names of the model's options. If the source needs an option (`model_option`), it must be among
                them.
        """
        fits = self.inputs is None or self.inputs == set(inputs)
        return fits and (self.model_option is None or self.model_option in options)

    def check_folder(self, path: str | None) -> None:
        """Check that a folder is given if the source takes one, and only then. The folder need not exist.

        `path` is the folder's path; None if no folder is given.

        Raises:
            SpecError: A required folder is missing, or the source takes none.
        """
        if self.takes_folder and path is None:
            raise SpecError(f"data is {self.name!r}; name the folder as well: {self.usage}.")
        if path is not None and not self.takes_folder:
            raise SpecError(f"data is '{self.name}:{path}'; {self.name} takes no folder: write {self.name}.")


# What DALI depends on is named as well: otherwise an environment for CPUs refuses CUDA's libraries.
_DALI = (
    "nvidia-dali-cuda120>=2.4,<3",
    *(f"nvidia-{library}-cu12" for library in ("libnvcomp", "nvimgcodec", "nvjpeg", "nvjpeg2k", "nvtiff")),
)

DATA_SOURCES = Table(
    "data source",
    (
        DataSource(
            name="synthetic",
            help="The canonical batch, made on the device before the first step.",
            has_input=False,
        ),
        DataSource(name="synthetic-host", help="The canonical batch, copied from host memory for each step."),
        DataSource(
            name="python-queue",
            help="Copies of the canonical batch, which a Python thread of the trainer's process puts into a queue.",
        ),
        DataSource(
            name="python-dataset",
            help="Copies of the canonical batch, which a Python generator yields inside the framework's class of "
            "datasets.",
        ),
        *(
            DataSource(
                name=name,
                help="Copies of the canonical batch, which another process with its own processors sends through "
                f"ZeroMQ over {transport}.",
                sender="dlperf_sdk.worker.zmq_sender:send",
                requirements=("pyzmq>=25.1,<28",),
            )
            for name, transport in (("zmq", "a Unix domain socket (IPC)"), ("zmq-tcp", "TCP"))
        ),
        *(
            DataSource(
                name=name,
                help="JPEG files, one folder per class: decoded, cropped and mirrored at random, and normalized, "
                f"{decoder}.",
                inputs=frozenset({"image", "label"}),
                model_option="num_classes",
                preparation="dlperf_sdk.data.images:prepare_images",
                description="dlperf_sdk.data.images:describe_images",
                sample_folder="dlperf_sdk.testing.samples:write_images",
                requirements=requirements,
            )
            for name, decoder, requirements in (
                ("images", "in the framework's parallel loaders", ()),
                ("images-dali", "by NVIDIA DALI on the host's processors", _DALI),
            )
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
