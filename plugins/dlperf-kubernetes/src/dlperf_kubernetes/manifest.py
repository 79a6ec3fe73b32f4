"""The manifest of a case: a Secret with the bundle, a headless Service for the pods' names, and an Indexed Job."""

from __future__ import annotations

import base64
import hashlib
import io
import re
import zipfile
from importlib.resources import files
from typing import Any

from dlperf_kubernetes.options import KubernetesOptions
from dlperf_sdk.interfaces.topology import Job

MAX_BUNDLE_SIZE = 1 << 20
"""Bytes of data that the API server takes in a Secret or a ConfigMap."""
_FILE = "bundle.pyz"
_FOLDER = "/dlperf"
_INSTANCE = "app.kubernetes.io/instance"


def job_name(job: Job) -> str:
    """Return the name of the objects of a job: a DNS label, at most 56 characters long, made from `Job.id`.

    The length leaves room for the number of a pod. Jobs with different `Job.id` have different names.
    """
    readable = re.sub("[^a-z0-9]+", "-", job.id.lower())[:40].strip("-")
    return f"dlperf-{readable}-{hashlib.sha256(job.id.encode()).hexdigest()[:8]}"


def compress(bundle: bytes) -> bytes:
    """Return the zip archive `bundle` with the strongest compression and without `.pyc` files.

    A `.pyc` file holds bytecode, which only this machine's Python version reads.

    Raises:
        zipfile.BadZipFile: The bundle is not a zip archive.
    """
    smaller = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(bundle)) as source, zipfile.ZipFile(smaller, "w") as target:
        for entry in source.infolist():
            if not entry.filename.endswith(".pyc"):
                target.writestr(entry, source.read(entry), zipfile.ZIP_DEFLATED, compresslevel=9)
    return smaller.getvalue()


def make_manifest(job: Job, bundle: bytes) -> dict[str, Any]:
    """Return the manifest as JSON values: a List of a Secret, a Service if there are several nodes, and an Indexed Job.

    Args:
        job: The case; its `options` are `KubernetesOptions`.
        bundle: The bundle's content, which the Secret holds; may be empty.
    """
    name = job_name(job)
    labels = {"app.kubernetes.io/name": "dlperf", _INSTANCE: name}
    metadata = {"name": name, "labels": labels}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "type": "Opaque",
        "immutable": True,
        "data": {_FILE: base64.b64encode(bundle).decode()},
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {_INSTANCE: name}},
    }
    indexed_job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "completions": job.nodes,
            "parallelism": job.nodes,
            "completionMode": "Indexed",
            "backoffLimit": 0,
            "template": {"metadata": {"labels": labels}, "spec": _pod(job, name)},
        },
    }
    services = [service] if job.nodes > 1 else []
    return {"apiVersion": "v1", "kind": "List", "items": [secret, *services, indexed_job]}


def _pod(job: Job, name: str) -> dict[str, Any]:
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "subdomain": name,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "volumes": [
            {"name": "bundle", "secret": {"secretName": name}},
            # Frameworks exchange batches through it, and container runtimes provide 64 MiB only.
            {"name": "shared-memory", "emptyDir": {"medium": "Memory"}},
        ],
        "containers": [_container(job, name)],
    }
    if job.nodes > 1:  # each node of the case is another machine
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {_INSTANCE: name}}}
        pod["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return pod


def _container(job: Job, name: str) -> dict[str, Any]:
    options: KubernetesOptions = job.options
    hosts = [f"{name}-{node}.{name}" for node in range(min(job.nodes, 2))] if job.nodes > 1 else ["127.0.0.1"]
    optional = {"--interface": options.interface, "--ports": options.ports}
    source = files("dlperf_kubernetes").joinpath("pod.py").read_text(encoding="utf-8")
    command = [
        *(options.agent_python, "-I", "-S", "-c", source, f"{_FOLDER}/{_FILE}"),
        *(",".join(hosts), str(job.start_timeout), "--case", job.id),
        *(argument for flag, value in optional.items() if value for argument in (flag, value)),
    ]
    container: dict[str, Any] = {
        "name": "agent",
        "image": options.image,
        # Kubernetes replaces $(NAME) in a command, and `$$` by `$`.
        "command": [word.replace("$", "$$") for word in command],
        "resources": _resources(job),
        "volumeMounts": [
            {"name": "bundle", "mountPath": _FOLDER, "readOnly": True},
            {"name": "shared-memory", "mountPath": "/dev/shm"},  # noqa: S108 - in the container
        ],
    }
    if options.env_secret:
        container["envFrom"] = [{"secretRef": {"name": options.env_secret}}]
    return container


def _resources(job: Job) -> dict[str, Any]:
    """Return the resources of a pod. Requests equal limits: with all of them given, the pod is never evicted first."""
    options: KubernetesOptions = job.options
    amounts = {
        "cpu": f"{options.cpus:g}" if options.cpus else "",
        "memory": options.memory,
        options.gpu_resource: str(job.devices_per_node) if job.device == "cuda" else "",
    }
    chosen = {name: amount for name, amount in amounts.items() if amount}
    return {"requests": chosen, "limits": dict(chosen)}
