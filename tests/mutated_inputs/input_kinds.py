"""Every kind of document and stream that is read: a valid sample, and the reader.

`test_mutated_inputs.py` compares this list with the code: a function of dlperf-sdk that parses something and that no
reader here comes to is an error there, and so is a schema, a suffix or an importer without a kind.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import attrs
import history_samples
import log_samples
import mutations
import numpy
import parity_samples
import result_samples
import toy_reference
import yaml

from dlperf_sdk import Matrix, campaign, data, testing
from dlperf_sdk.api import dry_run
from dlperf_sdk.campaigns.campaign_directory import reopen_campaign
from dlperf_sdk.campaigns.case_steps import read_environment
from dlperf_sdk.campaigns.file import load_campaign
from dlperf_sdk.campaigns.planning import plan_campaign
from dlperf_sdk.cli import main
from dlperf_sdk.data import text
from dlperf_sdk.data.wordpiece import SPECIAL, read_vocabulary
from dlperf_sdk.documents import reading, schema
from dlperf_sdk.environments import marker, pip_settings, rebuild, verification
from dlperf_sdk.errors import DlperfError
from dlperf_sdk.exchange.csv_table import read_csv, to_csv
from dlperf_sdk.exchange.import_logs import import_logs
from dlperf_sdk.execution import packing
from dlperf_sdk.interfaces.model import entry_to_dict
from dlperf_sdk.interfaces.topology import Job, Topology
from dlperf_sdk.interfaces.trace import Events, TraceEvents
from dlperf_sdk.launchers import start_failures
from dlperf_sdk.launchers.events import launch_events
from dlperf_sdk.launchers.hosts import HostOptions
from dlperf_sdk.launchers.joined import meeting
from dlperf_sdk.launchers.slurm import stream
from dlperf_sdk.launchers.stream_events import start_failure
from dlperf_sdk.max_batch import cache as batch_cache
from dlperf_sdk.parity import cache as parity_cache
from dlperf_sdk.parity import reference
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.convert import record_from_dict
from dlperf_sdk.results.result import Result
from dlperf_sdk.results.trace_summary import summarize_trace
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.spec.values import DataSpec
from dlperf_sdk.worker import bundled, zmq_messages
from dlperf_sdk.worker import data as worker_data
from dlperf_sdk.worker.agent import batch_job, bootstrap, link, standalone
from dlperf_sdk.worker.agent.worker_process import WorkerProcess
from dlperf_sdk.worker.interface import InputCounts
from dlperf_sdk.worker.processes import Process
from dlperf_sdk.worker.request import Request

REGISTRY = Registry()
SPEC = {
    **{"framework": "numpy", "model": "linear", "topology": "1n2d", "batch_size": 4, "warmup": 1, "steps": 4},
    **{"repeats": 2, "env": {"OMP_NUM_THREADS": "1"}, "options": {"features": 8}, "deadlines": {"start": 30}},
    **{"labels": {"commit": "1f3a9c"}, "part": "compute", "data": "synthetic"},
}
CAMPAIGN = {
    "name": "sample",
    "description": "cases of a toy model",
    "extends": ["base.yaml"],
    "fields": {"framework": "numpy", "model": "linear", "repeats": 2},
    "axes": {"batch_size": [4, 8], "options.features": [8, 16]},
    "exclude": [{"batch_size": 8, "options.features": 16}],
    "overrides": [{"when": {"batch_size": 8}, "set": {"steps": 6}}],
    "matrices": [{"axes": {"seed": [1, 2]}, "zip": [{"warmup": [1, 2], "steps": [3, 4]}]}],
}
RUN = "20250131T101502Z-torch-resnet50-1n2d-3f9ac1"
LOGS: dict[str, tuple[str, dict[str, Any]]] = {
    "dlperf-log": (log_samples.dll_text(), {"framework": "torch", "model": "resnet50", "topology": "1n1d"}),
    "tf-cnn-benchmarks": (log_samples.TF_CNN, {}),
    "dllogger": (log_samples.dllogger(), {"framework": "torch"}),
}
"""Importer → a log, and facts that it lacks."""
STATED = {"precision": "fp32", "batch_size": 4}
HISTORY = "history/20250120T000000Z-run-000019"
KEY = {"framework": "numpy", "model": "linear"}
"""The key of an entry in the cache of largest batches."""
BATCH = {"pixels": numpy.zeros((2, 3), numpy.uint8), "labels": numpy.arange(2)}
"""What a sender of batches sends."""
TRACE = [
    {"ph": "M", "name": "process_name", "pid": 2, "args": {"name": "gpu 0"}},
    {
        "ph": "X",
        "name": "matmul",
        "cat": "op",
        "pid": 1,
        "tid": 1,
        "ts": 10.5,
        "dur": 20,
        "args": {"size": 3},
    },
    {"ph": "B", "name": "add", "cat": "op", "pid": 1, "tid": 1, "ts": 12},
    {"ph": "E", "name": "add", "cat": "op", "pid": 1, "tid": 1, "ts": 14},
    {"ph": "X", "name": "ring:sum", "cat": "note", "pid": 1, "tid": "2", "ts": 25, "dur": 9},
    {"ph": "X", "name": "gemm", "cat": "kernel", "pid": 2, "tid": 7, "ts": 15, "dur": 8},
]
"""Events of a profiler."""


@dataclass(frozen=True)
class Kind:
    """A kind of input.

    Attributes:
        file: The file that is mutated, relative to the folder of the samples.
        read: Reads it, given that folder.
        format: What mutations of its structure it is open to; the file's suffix unless given.
        errors: What the reader is documented to raise.
    """

    file: str
    read: Callable[[Path], Any]
    format: str = ""
    errors: tuple[type[Exception], ...] = (DlperfError,)

    def __post_init__(self) -> None:
        object.__setattr__(self, "format", self.format or self.file.rpartition(".")[2])


def run_command(*words: str | Path) -> None:
    """Run a command of the command line. Its errors are messages; a fault of ours is an assertion."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([*map(str, words), "--debug"])
    out.flush(), err.flush()
    output = (out.buffer.getvalue() + err.buffer.getvalue()).decode()
    assert "fault of dlperf-sdk" not in output, output
    assert code in range(7), (code, output)


# -- the samples


def write_samples(folder: Path) -> None:
    """Write a valid input of each kind. Two cases are run, with this interpreter."""
    for name in ("tmp", "cache", "home"):
        (folder / name).mkdir()
    for suffix in reading._PARSERS:
        (folder / f"spec{suffix}").write_text(_text(SPEC, suffix))
        (folder / f"case{suffix}").write_text(_text(CAMPAIGN, suffix))
    (folder / "base.yaml").write_text(yaml.safe_dump({"name": "base", "fields": {"canonical_steps": 2}}))
    fields = {**SPEC, "repeats": 1, "topology": "1n1d", "on_busy": "note"}
    directory = campaign(Matrix(fields=fields, axes={"seed": [1, 2]}), folder / "campaign").directory
    shutil.copytree(directory.store.directory / directory.cases[0].id, folder / "run")
    _write_stream(folder)
    _write_documents(folder)
    _write_results(folder)
    for name, (lines, _) in LOGS.items():
        (folder / f"{name}.log").write_text(lines)
    (folder / "meeting.json").write_text(json.dumps({"secret": "0" * 64, "address": "10.0.0.1:4000"}))
    (folder / "hosts").write_text("# mine\nroot@n1 slots=8\nn2\n10.0.0.3\n")
    _write_environment(folder)
    _write_data(folder)
    (folder / "trace.json").write_text(json.dumps({"traceEvents": TRACE}))
    header = zmq_messages.pack(zmq_messages.Batch(BATCH, InputCounts(3, 0.25, 2), [1]))[0]
    (folder / "batch.json").write_bytes(header)


def _text(document: Any, suffix: str) -> str:
    if suffix == ".json":
        return json.dumps(document, indent=1)
    return mutations.to_toml(document) if suffix == ".toml" else yaml.safe_dump(document)


def _write_stream(folder: Path) -> None:
    """Write a bundle, what it gives on a machine without dlperf, and what its workers were told and wrote."""
    packing.pack(RunSpec(**{**SPEC, "repeats": 1, "env": {}}), folder / "case.zip")
    command = [sys.executable, "-I", str(folder / "case.zip"), "run", "-o", str(folder / "stream")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    lines = (folder / "stream/events.jsonl").read_bytes().splitlines()
    (folder / "agent.jsonl").write_bytes(b"\n".join(line for line in lines if b'"case"' not in line) + b"\n")
    (folder / "ended.jsonl").write_bytes(next(line for line in lines if b'"ended"' in line) + b"\n")
    (folder / "request.json").write_text(bundled.member(str(folder / "case.zip"), "request.json"))
    ended = next(event for event in map(json.loads, lines) if event["event"] == "attempt-ended")
    (folder / "worker").mkdir()
    for path in (folder / "worker/record.json", folder / "record.json"):
        path.write_text(json.dumps(ended["records"][0]))


def _write_documents(folder: Path) -> None:
    """Write documents that no run of the toy model makes."""
    toy_reference.write(folder)
    (folder / "mine.json").rename(folder / "reference.json")
    (folder / "parity-record.json").write_text(json.dumps(parity_samples.record()))
    figures = (
        Path(__file__).parents[2] / "plugins/dlperf-published/src/dlperf_published/data/tensorpack.jsonl"
    )
    (folder / "published.json").write_text(figures.read_text().splitlines()[0])
    parity_cache.store("key", [parity_samples.record()], "2026-01-31T12:00:00+00:00")
    (parity_cache.directory() / "key.json").rename(folder / "parity-cache.json")
    batch_cache.write(KEY, 64, 3)
    batch_cache._path(KEY).rename(folder / "batch-cache.json")


def _write_results(folder: Path) -> None:
    """Write a result for reports and tables, another to compare it with, and a table."""
    for store in ("store", "other"):
        place = folder / store / RUN
        place.mkdir(parents=True)
        (place / "result.json").write_text(json.dumps(result_samples.a_result().to_dict()))
    (folder / "table.csv").write_text(to_csv([result_samples.a_result()]))
    history_samples.fill(folder / "history", 20, cases=1)


def _write_environment(folder: Path) -> None:
    """Write a managed environment with one distribution, a lock, and pip's settings."""
    packages = folder / "environment/venv/lib/python3.11/site-packages"
    (packages / "some-1.0.dist-info").mkdir(parents=True)
    (packages / "some.py").write_text("x = 1\n")
    (packages / "some-1.0.dist-info/RECORD").write_text(
        "some.py,sha256=3q2-7w,6\nsome-1.0.dist-info/RECORD,,\n"
    )
    about = marker.Marker(
        "numpy", "cpu", "3.11.7", "key", "some==1.0\n", ("some",), (), 6, "2026-01-31T12:00:00+00:00"
    )
    marker.write(folder / "environment", about)
    (folder / "lock.txt").write_text("# a comment\nsome==1.0\nother===2.0.post1\ndlperf-sdk==1\n")
    (folder / "home/pip.conf").write_text(
        "[global]\nindex-url = https://name:secret@index.example/simple\ntimeout = 60\nretries = 3\n"
        "[install]\nfind-links =\n    https://a.example\n    ./wheels\ntrusted-host = a.example\nno-binary = :none:\n"
    )


def _write_data(folder: Path) -> None:
    """Write a folder of images, one of text, and what is prepared from them."""
    (folder / "images/cat").mkdir(parents=True)
    (folder / "images/cat/1.jpg").write_bytes(_jpeg())
    (folder / "text").mkdir()
    (folder / "text/a.txt").write_text("One sentence. Another one.\n\nA second document. It ends here.\n" * 8)
    (folder / "text/vocab.txt").write_text(
        "\n".join((*SPECIAL, *"abcdefghijklmnopqrstuvwxyz.", "##e", "one")) + "\n"
    )
    (folder / "images.jsonl").write_bytes(Path(_prepared(folder, "images")["index"]).read_bytes())
    (folder / "arrays").mkdir()
    index = Path(_prepared(folder, "text")["index"])
    for path in index.parent.iterdir():
        (folder / "arrays" / path.name).write_bytes(path.read_bytes())


def _jpeg() -> bytes:
    return (Path(testing.__file__).parent / "sample.jpg").read_bytes()


def _prepared(folder: Path, source: str) -> dict[str, Any]:
    """Prepare the images or the text of the samples, from the beginning."""
    shutil.rmtree(folder / "cache/data", ignore_errors=True)
    model = REGISTRY.model({"images": "resnet50", "text": "bert-base"}[source])
    sizes = {"text": {"sequence_length": 32, "predictions_per_sequence": 4, "vocabulary_size": 64}}
    options = model.Options(**sizes.get(source, {}))
    inputs = [entry_to_dict(entry) for entry in model.inputs(options)]
    spec = DataSpec(source, str(folder / source))
    return data.prepare(spec, attrs.asdict(options), inputs, seed=0, on_progress=data.cache.ignore_progress)


# -- readers that take more than a call


def _ingest(folder: Path) -> None:
    run_command("ingest", folder / "stream", "--output", folder / "out/store", "--json")
    for result in (folder / "out/store").glob("*/result.json"):
        schema.check("result", json.loads(result.read_bytes()))


class _Lines(Topology):
    """A launcher whose agents write what a file holds."""

    name = "lines"

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines = lines

    def unavailable_reason(self, nodes: int, devices_per_node: int, device: str) -> None:
        return None

    def commands(self, job: Job) -> tuple[tuple[str, ...], ...]:
        return ()

    @contextlib.contextmanager
    def launch(self, job: Job) -> Any:
        yield iter(self._lines)


def _follow_agents(folder: Path) -> None:
    """Read agent 0's stream as launchers do, to the event `ended` that is always the last."""
    lines = (folder / "agent.jsonl").read_bytes().splitlines()
    explained = start_failures.explain_start_failure(iter(lines), "python3", ("n1", "n2"))
    job = Job("case", folder / "case.zip", 1, 2, "cpu", start_timeout=5.0)
    events = list(launch_events(_Lines(explained), job))
    assert events[-1]["event"] == "ended", events


def _relay_agents(folder: Path) -> None:
    """Read it as the batch job and the bundle do, which hand its lines on, and as what another node prints."""
    for line in (folder / "ended.jsonl").read_bytes().splitlines():
        batch_job._exit_code(line)
        stream._final_event(line)
        start_failure(line, range(1, 3))
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        for line in (folder / "ended.jsonl").read_bytes().splitlines():
            standalone._report_event(line)


def _exchange_messages(folder: Path) -> None:
    """Read what an agent sends, to the opening and behind it."""
    lines = (folder / "agent.jsonl").read_bytes()
    ours, theirs = _connection()
    with theirs:
        writer = threading.Thread(target=_send, args=(theirs, lines))
        writer.start()
        for message in link.Link(ours).messages():
            assert isinstance(message, dict)
        ours.close()
        writer.join()


def _connection() -> tuple[socket.socket, socket.socket]:
    """Return both ends of a connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        theirs = socket.create_connection(server.getsockname())
        return server.accept()[0], theirs


def _send(connection: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)


def _open_connection(folder: Path) -> None:
    """Read what a stranger sends to the coordinator's port."""
    ours, theirs = _connection()
    with theirs:
        _send(theirs, (folder / "agent.jsonl").read_bytes()[:4096])
        assert link.accept(ours, "secret", 5.0) is None


def _read_worker_record(folder: Path) -> None:
    """Read a record as the agent does, and then as the controller does."""
    worker = WorkerProcess(Process("trainer", 0, {}), "rank-0", str(folder / "worker"), {}, {})
    record = worker.record()
    if record is None:
        assert worker.why_no_record
        return
    json.dumps(record, allow_nan=False)
    schema.check("worker-record", record)
    if record["status"] == "ok":
        record_from_dict(record)


def _unpack_bundle(folder: Path) -> None:
    """Unpack a bundle as a node does. What it contains would be executed next: it is trusted as its controller is."""
    bundle = folder / "case.zip"
    standard_input = os.dup(0)
    arguments = [str(bundle.stat().st_size), "agent", "--node", "0"]
    try:
        with bundle.open("rb") as file, contextlib.redirect_stdout(io.StringIO()) as output:
            os.dup2(file.fileno(), 0)
            with (
                mock.patch.object(bootstrap.runpy, "run_path"),
                mock.patch.object(bootstrap.signal, "signal"),
            ):
                code = bootstrap.main(arguments)
    finally:
        os.dup2(standard_input, 0)
        os.close(standard_input)
    assert code == 0 or json.loads(output.getvalue())["failure"]["node"] == 0, output.getvalue()
    assert not list((folder / "tmp").iterdir())


def _read_settings(folder: Path) -> None:
    """Read pip's settings, and convert them to uv's."""
    settings = pip_settings.read({"PIP_CONFIG_FILE": str(folder / "home/pip.conf")}, folder, folder)
    pip_settings.convert_for_uv(settings, {}, folder)


def _verify_environment(folder: Path) -> None:
    about = marker.read(folder / "environment")
    if about is not None:
        verification._list_damaged_files(folder / "environment", about)
        marker.read_last_use(folder / "environment")


def _read_parity_cache(folder: Path) -> None:
    place = parity_cache.directory() / "key.json"
    place.write_bytes((folder / "parity-cache.json").read_bytes())
    place.chmod(0o600)
    parity_cache.fetch("key")


def _read_batch_cache(folder: Path) -> None:
    place = batch_cache._path(KEY)
    place.write_bytes((folder / "batch-cache.json").read_bytes())
    entry = batch_cache.read(KEY)
    assert entry is None or entry["size"] >= 1


def _read_images(folder: Path) -> None:
    path = folder / "images.jsonl"
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    worker_data.read_images({"index": str(path), "checksum": checksum, "path": str(folder / "images")})


def _read_arrays(folder: Path) -> None:
    """Read the index of prepared text, also one that has the checksum beside it."""
    checksum = hashlib.sha256((folder / "arrays/index.json").read_bytes()).hexdigest()
    text._read_valid_index(folder / "arrays")
    worker_data.read_arrays({"index": str(folder / "arrays/index.json"), "checksum": checksum})


def _unpack_batch(folder: Path) -> None:
    """Read the header of a batch as a trainer does, before arrays that are intact."""
    batch = zmq_messages.unpack([(folder / "batch.json").read_bytes(), *BATCH.values()], BATCH)
    assert batch.arrays.keys() == BATCH.keys()
    json.dumps(batch[1:], allow_nan=False)  # as the trainer's record has them


def _summarize_trace(folder: Path) -> None:
    """Summarize a trace as a worker sends it."""
    packed = gzip.compress((folder / "trace.json").read_bytes())
    declared = TraceEvents(Events(category="op"), Events(name="ring:.*"), Events(process="gpu.*"))
    for device in ("cpu", "cuda"):
        summary = summarize_trace(packed, declared, device=device, rank=0, steps=1)
        result = attrs.evolve(result_samples.a_result(), traces=(summary,) if summary else ())
        assert Result.from_dict(result.to_dict()).traces == result.traces


def _find_meeting(folder: Path) -> None:
    """Read the file of a joined job as its processes do."""
    path = folder / "cache" / "meeting.json"
    path.write_bytes((folder / "meeting.json").read_bytes())
    path.chmod(0o600)
    assert len(meeting.find_meeting(path, "", {}).secret) >= meeting.SHORTEST_SECRET


def _load_request(folder: Path) -> None:
    Request.load(str(folder / "request.json"))


def _text_of(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")


def _open_campaign(folder: Path) -> None:
    """Show a campaign, and open it as a resume does, which would execute what was allowed."""
    run_command("campaign", "status", folder / "campaign")
    reopen_campaign(folder / "campaign", registry=REGISTRY)


def _report(folder: Path) -> None:
    run_command("report", folder / "store")
    run_command("report", folder / "store" / RUN, "--html", folder / "out/report.html")
    run_command("gate", folder / "other", folder / "store")


def _show_history(folder: Path) -> None:
    """Read a store through its index, which is made anew for each input."""
    shutil.rmtree(folder / "cache/indexes", ignore_errors=True)
    run_command("query", "select * from results", "--store", folder / "history", "--json")
    run_command("history", "--store", folder / "history", "--json")
    run_command("site", folder / "history", "-o", folder / "out/site")


def _gate_in_ci(folder: Path) -> None:
    run_command("gate", folder / "other", folder / "store", "--format", "github")
    run_command("gate", folder / "other", folder / "store", "--junit", folder / "out/junit.xml")


def _export(folder: Path) -> None:
    for form in ("csv", "markdown", "mllog"):
        run_command("export", folder / "store", "--to", form)
    Result.from_dict(reading.load_document(folder / "store" / RUN / "result.json")).to_dict()


def _validate(name: str) -> Callable[[Path], None]:
    return lambda folder: run_command("validate", folder / name)


def _import(importer: str) -> Callable[[Path], None]:
    stated = {**STATED, **LOGS[importer][1]}
    return lambda folder: import_logs(importer, [folder / f"{importer}.log"], stated, REGISTRY) and None


def _plan_campaign(suffix: str) -> Callable[[Path], None]:
    return lambda folder: plan_campaign(load_campaign(folder / f"case{suffix}"), REGISTRY) and None


KINDS: dict[str, Kind] = {
    **{
        f"spec{suffix}": Kind(
            f"spec{suffix}", lambda folder, suffix=suffix: dry_run(folder / f"spec{suffix}")
        )
        for suffix in reading._PARSERS
    },
    **{f"campaign{suffix}": Kind(f"case{suffix}", _plan_campaign(suffix)) for suffix in reading._PARSERS},
    "campaign that is extended": Kind("base.yaml", _plan_campaign(".yaml")),
    "plan of a file": Kind("spec.yaml", lambda folder: run_command("plan", folder / "spec.yaml")),
    "schema run-spec": Kind("spec.json", _validate("spec.json")),
    "schema campaign": Kind("case.json", _validate("case.json")),
    "schema worker-request": Kind("request.json", _validate("request.json")),
    "schema worker-record": Kind("record.json", _validate("record.json")),
    "schema parity-record": Kind("parity-record.json", _validate("parity-record.json")),
    "schema reference": Kind(
        "reference.json", lambda folder: reference.load.__wrapped__(folder / "reference.json")
    ),
    "schema published": Kind("published.json", _validate("published.json")),
    "schema result": Kind("run/result.json", _validate("run/result.json")),
    "reports on a result": Kind(f"store/{RUN}/result.json", _report),
    "result in a history": Kind(f"{HISTORY}/result.json", _show_history),
    "result in a gate": Kind(f"store/{RUN}/result.json", _gate_in_ci),
    "exports of a result": Kind(f"store/{RUN}/result.json", _export),
    "run's result": Kind("run/result.json", lambda folder: run_command("validate", folder / "run")),
    "run's spec": Kind("run/spec.json", lambda folder: run_command("validate", folder / "run")),
    "run's plan": Kind("run/plan.json", lambda folder: run_command("validate", folder / "run")),
    "run's environment": Kind(
        "run/environment.json", lambda folder: read_environment(folder / "run/environment.json")
    ),
    "run's attempt": Kind(
        "run/attempts/1/attempt.json", lambda folder: run_command("validate", folder / "run")
    ),
    "run's record": Kind(
        "run/attempts/1/rank-0.json", lambda folder: run_command("validate", folder / "run")
    ),
    "campaign directory": Kind("campaign/campaign.json", _open_campaign),
    "journal": Kind(
        "campaign/journal.jsonl", lambda folder: run_command("campaign", "status", folder / "campaign")
    ),
    "stream to ingest": Kind("stream/events.jsonl", _ingest),
    "stream of agents": Kind("agent.jsonl", _follow_agents),
    "end of a stream": Kind("ended.jsonl", _relay_agents),
    "messages of an agent": Kind("agent.jsonl", _exchange_messages),
    "opening of a connection": Kind("agent.jsonl", _open_connection),
    "worker's record": Kind("worker/record.json", _read_worker_record),
    "worker's request": Kind("request.json", _load_request, errors=(ValueError,)),
    "bundle": Kind("case.zip", _unpack_bundle),
    **{f"importer {name}": Kind(f"{name}.log", _import(name)) for name in LOGS},
    "table": Kind("table.csv", lambda folder: read_csv(_text_of(folder / "table.csv"))),
    "meeting of a job": Kind("meeting.json", _find_meeting, errors=(ValueError,)),
    "hosts": Kind("hosts", lambda folder: HostOptions(hostfile=str(folder / "hosts")).select_hosts(2)),
    "pip's settings": Kind("home/pip.conf", _read_settings),
    "marker of an environment": Kind("environment/environment.json", _verify_environment),
    "RECORD of a distribution": Kind(
        "environment/venv/lib/python3.11/site-packages/some-1.0.dist-info/RECORD", _verify_environment
    ),
    "lock": Kind("lock.txt", lambda folder: rebuild._pins(_text_of(folder / "lock.txt"))),
    "parity cache": Kind("parity-cache.json", _read_parity_cache),
    "batch cache": Kind("batch-cache.json", _read_batch_cache),
    "image": Kind("images/cat/1.jpg", lambda folder: _prepared(folder, "images")),
    "text": Kind("text/a.txt", lambda folder: _prepared(folder, "text")),
    "vocabulary": Kind("text/vocab.txt", lambda folder: read_vocabulary(folder / "text/vocab.txt")),
    "index of images": Kind("images.jsonl", _read_images, errors=(worker_data.DataError,)),
    "index of text": Kind("arrays/index.json", _read_arrays, errors=(worker_data.DataError,)),
    "profiler's trace": Kind("trace.json", _summarize_trace),
    "header of a batch": Kind("batch.json", _unpack_batch, errors=(zmq_messages.MalformedBatch,)),
}
"""Name → kind."""
