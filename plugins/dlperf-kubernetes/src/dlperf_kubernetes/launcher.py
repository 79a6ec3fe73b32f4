"""The launcher for Kubernetes: `dlperf bundle` writes the manifest of an Indexed Job, and users submit it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import NoReturn

from dlperf_kubernetes.manifest import MAX_BUNDLE_SIZE, compress, job_name, make_manifest
from dlperf_kubernetes.options import KubernetesOptions
from dlperf_sdk.errors import SpecError, Unavailable, UsageError
from dlperf_sdk.interfaces.topology import Job, Submission, Topology
from dlperf_sdk.spec.run_spec import RunSpec

_ADVICE = (
    "The launcher kubernetes starts no pods itself. Write a manifest with `dlperf bundle … -o job.json`; the command "
    "prints how to submit it, and how its result is imported."
)


class Kubernetes(Topology):
    """The launcher behind `4n8d@kubernetes`: one pod per node. It makes no connection to a cluster."""

    name = "kubernetes"
    Options = KubernetesOptions

    def validate_options(self, nodes: int, options: KubernetesOptions) -> None:
        """Check that the option `image` names an image; `nodes` is not used.

        Raises:
            SpecError: The option `image` is empty.
        """
        if not options.image:
            raise SpecError(
                "A pod needs an image with the framework. Name it: --set image=REGISTRY/NAME:TAG."
            )

    def join_job(self, cases: Sequence[RunSpec], options: KubernetesOptions) -> NoReturn:
        """Refuse to run cases, before an environment is prepared for them; the arguments are not used.

        Raises:
            UsageError: Always. The message says how to run a case in Kubernetes.
        """
        raise UsageError(_ADVICE)

    def commands(self, job: Job) -> tuple[tuple[str, ...], ...]:
        """Return the four commands with which a user runs `job`, whose manifest is in the file `job.json`.

        In this order, they submit the manifest, follow the logs of the first pod, import the result, and delete the
        objects of the job. Each command is a tuple of its words; a word `>` redirects the output to the file after it.
        This method starts no command and writes no file.
        """
        return _commands(job, "job.json")

    def script(self, job: Job) -> str:
        """Return the manifest of `job` as indented JSON text; its Secret is empty, and does not hold the bundle."""
        return json.dumps(make_manifest(job, b""), indent=1)

    def submission(self, job: Job, file: str) -> Submission:
        """Return the manifest as JSON, and the four shell commands with which a user runs the job.

        In this order, the commands submit the manifest, follow the logs of the first pod, import the result, and delete
        the objects of the job.

        Args:
            job: The case and the path of its bundle, which is read.
            file: The path that the manifest will have, for the commands.

        Raises:
            Unavailable: The compressed bundle is larger than a Secret may be (`MAX_BUNDLE_SIZE`).
            zipfile.BadZipFile: The bundle is not a zip archive.
            OSError: The bundle cannot be read.
        """
        bundle = compress(job.bundle.read_bytes())
        if len(bundle) > MAX_BUNDLE_SIZE:
            raise Unavailable(
                f"The compressed bundle has {len(bundle):,} bytes, and a Secret of Kubernetes takes "
                f"{MAX_BUNDLE_SIZE:,}. Leave large files out of the plugins' packages (`dlperf plan … --files` lists "
                "them), or start the case inside of pods that exist, with the launcher joined or ssh."
            )
        content = json.dumps(make_manifest(job, bundle), indent=1) + "\n"
        return Submission(content.encode(), tuple(map(_display, _commands(job, file))))

    def launch(self, job: Job) -> AbstractContextManager[Iterator[bytes]]:
        """Refuse to launch a job; `job` is not used.

        Raises:
            Unavailable: Always. The message says how to run a case in Kubernetes.
        """
        raise Unavailable(_ADVICE)


def _commands(job: Job, file: str) -> tuple[tuple[str, ...], ...]:
    """Return the commands from the submission to the result. `kubectl apply` would copy the bundle to an annotation."""
    name = job_name(job)
    first_pod = f"job-name={name},batch.kubernetes.io/job-completion-index=0"
    return (
        ("kubectl", "create", "--filename", file),
        ("kubectl", "logs", "--follow", "--tail=-1", f"--selector={first_pod}", ">", "events.jsonl"),
        ("dlperf", "ingest", "events.jsonl"),
        ("kubectl", "delete", "--filename", file),
    )


def _display(command: tuple[str, ...]) -> str:
    return " ".join(word if word == ">" else shlex.quote(word) for word in command)
