"""What a cluster does with a manifest, with podman: the pods of an Indexed Job, their names, and their logs."""

from __future__ import annotations

import base64
import copy
import json
import subprocess
from contextlib import contextmanager
from pathlib import Path

import root_file_system

IMAGE = "localhost/dlperf-kubernetes-test:1"


def make_image(root: Path, archive: Path) -> None:
    """Make an image of an empty root file system; the pods mount the folders of this machine's Python."""
    subprocess.run(["tar", "--create", "--file", archive, "--directory", root, "."], check=True)
    path = "PATH=/usr/local/bin:/usr/bin"
    subprocess.run(["podman", "import", "--change", f"ENV {path}", archive, IMAGE], check=True)


def remove_image() -> None:
    subprocess.run(["podman", "image", "rm", "--force", IMAGE], check=False)


def expand_job(manifest: dict, folder: Path) -> list[dict]:
    """Return the pods of a manifest, as the Job's controller makes them of its template.

    The pods share this machine's network, so each name is that of the loopback. Some things are for podman: it never
    pulls, and mounts the folders of this Python. Version 4.3 does not decode the data of a Secret, so the Secret is
    written to a folder, which the pods mount.
    """
    items = {item["kind"]: item for item in manifest["items"]}
    for name, text in items["Secret"]["data"].items():
        (folder / name).write_bytes(base64.b64decode(text))
    job = items["Job"]
    name, count = job["metadata"]["name"], job["spec"]["completions"]
    template = job["spec"]["template"]
    names = [f"{name}-{node}.{template['spec']['subdomain']}" for node in range(count)]
    hosts = folder / "hosts"
    hosts.write_text(f"127.0.0.1 localhost {' '.join(names)}\n")
    mounts = {f"host-{number}": path for number, path in enumerate(root_file_system.mounts().split(","))}
    pods = []
    for node in range(count):
        spec = copy.deepcopy(template["spec"])
        (container,) = spec["containers"]
        # Kubernetes does this, and podman 4.3 does not.
        container["command"] = [word.replace("$$", "$") for word in container["command"]]
        container["env"] = [{"name": "JOB_COMPLETION_INDEX", "value": str(node)}]
        container["imagePullPolicy"] = "Never"
        container["volumeMounts"] += [
            {"name": key, "mountPath": path, "readOnly": True} for key, path in mounts.items()
        ]
        (secret,) = (volume for volume in spec["volumes"] if "secret" in volume)
        assert secret.pop("secret")["secretName"] == items["Secret"]["metadata"]["name"]
        secret["hostPath"] = {"path": str(folder)}
        container["volumeMounts"].append({"name": "hosts", "mountPath": "/etc/hosts"})
        spec["volumes"].append({"name": "hosts", "hostPath": {"path": str(hosts), "type": "File"}})
        spec["volumes"] += [{"name": key, "hostPath": {"path": path}} for key, path in mounts.items()]
        spec["hostNetwork"] = True
        metadata = {"name": f"{name}-{node}", "labels": template["metadata"]["labels"]}
        pods.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    return pods


@contextmanager
def played(manifest: dict, folder: Path):
    """Run the pods of a manifest, and remove them at the end. The value: the names of their containers, by node."""
    secret = folder / "secret"
    secret.mkdir()
    pods = expand_job(manifest, secret)
    file = folder / "pods.yaml"
    file.write_text("\n---\n".join(map(json.dumps, pods)))
    try:
        subprocess.run(["podman", "kube", "play", file], check=True, stdout=subprocess.DEVNULL, timeout=120)
        yield [f"{pod['metadata']['name']}-agent" for pod in pods]
    finally:
        names = [pod["metadata"]["name"] for pod in pods]
        subprocess.run(["podman", "pod", "rm", "--force", "--ignore", "--time=0", *names], check=False)
        subprocess.run(["podman", "volume", "rm", "--force", "shared-memory"], check=False)
