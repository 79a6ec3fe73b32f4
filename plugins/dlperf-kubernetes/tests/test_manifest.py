"""Manifests against the schemas of the API, and what is refused before there is one."""

from __future__ import annotations

import base64
import io
import json
import random
import stat
import zipfile
from pathlib import Path

import kubernetes_validate
import pytest
from dlperf_kubernetes.launcher import Kubernetes
from dlperf_kubernetes.manifest import MAX_BUNDLE_SIZE, job_name, make_manifest
from dlperf_kubernetes.options import KubernetesOptions

from dlperf_sdk import RunSpec, run
from dlperf_sdk.cli import main
from dlperf_sdk.errors import SpecError, Unavailable, UsageError
from dlperf_sdk.execution import packing
from dlperf_sdk.interfaces.topology import Job
from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.registry.plugins import Registry

IMAGE = "registry.example.org/numpy:2"
HOSTILE = "python3 $(HOSTNAME) $$ \"quoted\" 'x': {a: !!python/object:os.system} \n- b"


NAME = "20250131T101502Z-torch-resnet50-4n8d-3f9ac1"


def job(folder=Path("/nowhere"), nodes=4, device="cuda", name=NAME, **options):
    chosen = KubernetesOptions(**{"image": IMAGE, **options})
    return Job(name, folder / "case.pyz", nodes, 8, device, chosen, start_timeout=60.0)


def items(manifest):
    return {item["kind"]: item for item in manifest["items"]}


def spec_of(**changes):
    fields = {
        "topology": "2n1d@kubernetes",
        "options": {"image": IMAGE},
        "batch_size": 4,
        "warmup": 1,
        "steps": 5,
    }
    return RunSpec(**{"framework": "numpy", "model": "linear", **fields, **changes})


@pytest.mark.parametrize("version", ["1.28", "1.32", "1.36"])
@pytest.mark.parametrize(
    "example",
    [
        job(),
        job(nodes=1, device="cpu"),
        job(nodes=100_000, name="x" * 300),
        job(cpus=16, memory="64Gi", env_secret="my-tokens", interface="eth0", ports="40000-40100"),
        job(agent_python=HOSTILE, gpu_resource="amd.com/gpu"),
    ],
)
def test_manifests_follow_the_schemas(example, version):
    manifest = json.loads(json.dumps(make_manifest(example, b"bundle")))
    kinds = [item["kind"] for item in manifest["items"]]
    assert kinds == ["Secret", *(["Service"] if example.nodes > 1 else []), "Job"]
    for item in manifest["items"]:
        kubernetes_validate.validate(item, version, strict=True)


def test_validation_finds_a_wrong_field():
    wrong = items(make_manifest(job(), b"bundle"))["Job"]
    wrong["spec"]["completion"] = 4
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.32", strict=True)


def test_job_has_a_pod_for_each_node():
    spec = items(make_manifest(job(cpus=16, memory="64Gi"), b"bundle"))["Job"]["spec"]
    assert {
        name: spec[name] for name in ("completions", "parallelism", "completionMode", "backoffLimit")
    } == {
        "completions": 4,
        "parallelism": 4,
        "completionMode": "Indexed",
        "backoffLimit": 0,
    }
    (container,) = spec["template"]["spec"]["containers"]
    amounts = {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "8"}
    assert container["resources"] == {"requests": amounts, "limits": amounts}
    assert container["image"] == IMAGE


@pytest.mark.parametrize("name", ["x" * 300, "20250131T101502Z-Torch_x-resnet50-4n8d-3f9ac1", "<run>", "-"])
def test_names_are_dns_labels(name):
    label = job_name(job(name=name))
    assert len(f"{label}-99999") <= 63
    assert label.replace("-", "").isalnum() and label == label.lower() and label[0].isalpha()
    assert label != job_name(job(name=name + "2"))


def test_words_of_the_command_are_not_expanded():
    """Kubernetes replaces `$$` by `$`, and leaves what remains as it is."""
    (container,) = items(make_manifest(job(agent_python=HOSTILE), b""))["Job"]["spec"]["template"]["spec"][
        "containers"
    ]
    assert container["command"][0].replace("$$", "$") == HOSTILE
    assert "$" not in "".join(container["command"]).replace("$$", "")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("image", "--x"), ("image", "a b"), ("cpus", -1.0), ("cpus", float("nan")), ("memory", "64 GB")),
        *(("memory", "lots"), ("gpu_resource", "gpu"), ("env_secret", "My_Tokens"), ("ports", "1")),
    ],
)
def test_invalid_option_is_refused(name, value):
    with pytest.raises(
        ValueError, match=r"image is|cpus is|memory is|gpu_resource is|env_secret is|is not a range of ports"
    ):
        KubernetesOptions(**{name: value})


def test_bundle_is_in_the_secret_and_only_its_owner_reads_the_file(tmp_path):
    path = tmp_path / "job.json"
    packed, commands = packing.pack(spec_of(), path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    secret = items(json.loads(path.read_text()))["Secret"]
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(secret["data"]["bundle.pyz"]))) as archive:
        assert set(packed.files) <= set(archive.namelist())
    assert commands[0] == f"kubectl create --filename {path}"
    assert secret["metadata"]["name"] in commands[1]


def test_large_bundle_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "case.pyz", "w") as archive:
        archive.writestr("package/table.py", random.Random(0).randbytes(MAX_BUNDLE_SIZE))
    with pytest.raises(
        Unavailable, match=r"bundle has 1,04.,... bytes.*takes 1,048,576\. Leave large files out"
    ):
        Kubernetes().submission(job(tmp_path), "job.json")


def test_secret_variable_is_refused(tmp_path):
    path = tmp_path / "job.json"
    with pytest.raises(
        UsageError, match=r"value of MY_TOKEN, which may be a secret\. Write --env MY_TOKEN without"
    ):
        packing.pack(spec_of(env={"MY_TOKEN": "hf_0123456789"}), path)
    assert not path.exists()


def test_variable_without_a_value_comes_from_the_pod(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "hf_0123456789")
    path = tmp_path / "job.json"
    packing.pack(spec_of(env={"MY_TOKEN": None}, options={"image": IMAGE, "env_secret": "tokens"}), path)
    manifest = items(json.loads(path.read_text()))
    bundle = base64.b64decode(manifest["Secret"]["data"]["bundle.pyz"])
    with zipfile.ZipFile(io.BytesIO(bundle)) as archive:
        assert not any(b"hf_0123456789" in archive.read(name) for name in archive.namelist())
    (container,) = manifest["Job"]["spec"]["template"]["spec"]["containers"]
    assert container["envFrom"] == [{"secretRef": {"name": "tokens"}}]


def test_run_is_refused_before_anything_is_prepared(tmp_path):
    with pytest.raises(UsageError, match=r"starts no pods itself\. Write a manifest with `dlperf bundle"):
        run(spec_of(), store=tmp_path / "store")
    with pytest.raises(Unavailable, match="starts no pods itself"):
        Kubernetes().launch(job())


def test_missing_image_is_refused():
    with pytest.raises(SpecError, match="Name it: --set image="):
        make_plan(spec_of(options={}), Registry())


def test_plan_shows_the_manifest_without_the_bundle(capsys):
    words = ["plan", "numpy", "linear", "--topology", "2n1d@kubernetes", "--set", f"image={IMAGE}"]
    assert main(words) == 0
    assert '"completionMode": "Indexed"' in capsys.readouterr().out
