"""Controllers of campaigns: one at a time, none beside what another left running, none beyond its time."""

from __future__ import annotations

import fcntl
import json
import re
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import ClassVar

import pytest
from attrs import frozen
from processes import processes_with
from record_samples import gauge, repeat
from test_runner import CONTROLLER, SMALL, entries_of, kept_with, small

from dlperf_sdk import Matrix, campaign, resume
from dlperf_sdk.campaigns import host_info, journal, machine_load, orphaned_jobs, planning
from dlperf_sdk.campaigns.campaign import make_campaign
from dlperf_sdk.campaigns.campaign_directory import create_campaign, open_campaign
from dlperf_sdk.errors import DocumentError, StoreError, Unavailable
from dlperf_sdk.launchers.local import Local
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.testing import topology as topology_suite

pytestmark = pytest.mark.long

MEBI = 2**20
LARGEST = Matrix(
    fields={**SMALL, "model": "linear", "batch_size": "max", "memory_limit": 600 * MEBI},
    include=[{"framework": "faulty", "options": {"sample_bytes": 2 * MEBI}}],
)


@pytest.fixture
def _own_cache(tmp_path, monkeypatch):
    """In which no earlier search has left its answer."""
    monkeypatch.setenv("DLPERF_CACHE_DIR", str(tmp_path / "cache"))


# -- beginning


def test_campaigns_of_one_second_share_no_name(tmp_path):
    stored = [kept_with(tmp_path / str(i), small()) for i in range(5)]
    assert len({item.stamp for item in stored}) == 5
    assert len({case.id for item in stored for case in item.cases}) == 5


def test_of_several_that_begin_at_once_in_one_directory_one_has_it(tmp_path):
    what, registry = make_campaign(small()), Registry()
    planned = [planning.plan_campaign(what, registry) for _ in range(4)]
    ready, outcomes = threading.Barrier(len(planned)), []

    def begin(stamp, entries):
        ready.wait()
        try:
            outcomes.append(create_campaign(tmp_path / "it", what, entries, stamp).stamp)
        except StoreError as error:
            outcomes.append(str(error))

    threads = [threading.Thread(target=begin, args=item) for item in planned]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [outcome for outcome in outcomes if outcome in [stamp for stamp, _ in planned]]
    assert winners == [open_campaign(tmp_path / "it").stamp]
    assert sum("There is a campaign" in outcome for outcome in outcomes) == len(planned) - 1


def test_directory_about_to_be_used_by_another_controller_is_left_alone(tmp_path):
    what = make_campaign(small())
    stamp, entries = planning.plan_campaign(what, Registry())
    (tmp_path / "it").mkdir()
    with journal.lock(tmp_path / "it" / "lock"), pytest.raises(StoreError, match="another controller"):
        create_campaign(tmp_path / "it", what, entries, stamp)
    assert not (tmp_path / "it" / "campaign.json").exists()
    create_campaign(tmp_path / "it", what, entries, stamp)


def test_reading_a_campaign_does_not_block_others(tmp_path):
    """A look holds the lock for a moment, shared."""
    path = tmp_path / "lock"
    looked = threading.Event()

    def look():
        with path.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            looked.set()
            time.sleep(0.2)

    looking = threading.Thread(target=look)
    looking.start()
    assert looked.wait(10)
    with journal.lock(path):
        assert journal.is_locked(path)
    looking.join()
    assert not journal.is_locked(path)


@pytest.mark.parametrize("cases", ['{"a": 1}', '[{"id": "x", "from": "", "spec": []}]', "7"])
def test_directory_with_invalid_content_is_refused(tmp_path, cases):
    kept_with(tmp_path / "it", small())
    document = json.loads((tmp_path / "it" / "campaign.json").read_text())
    document["cases"] = json.loads(cases)
    (tmp_path / "it" / "campaign.json").write_text(json.dumps(document))
    with pytest.raises(DocumentError, match=r"campaign\.json does not describe"):
        open_campaign(tmp_path / "it")


# -- what another left running


@pytest.mark.parametrize("name", ["{}", "{}.pyz", "parity-{}", "largest-{}.pyz"])
def test_all_that_a_run_starts_is_known_by_its_name(name):
    run = "20250131T101502Z-0b61e2-numpy-linear-1n1d-3f9ac1d2e4b5"
    words = [sys.executable, "-c", "import time; time.sleep(60)", f"/somewhere/{name.format(run)}"]
    with subprocess.Popen(words) as process:
        try:
            end = time.monotonic() + 30
            while not processes_with(run) and time.monotonic() < end:
                # The kernel sets a new program's words a moment after it has closed its files.
                time.sleep(0.01)
            assert orphaned_jobs.find_agents((run,)) == [process.pid]
            assert orphaned_jobs.find_agents((run[:-1], f"x-{run}")) == []
            with pytest.raises(StoreError, match=f"still running: {process.pid}"):
                orphaned_jobs.wait_for_processes([run], timeout=0.2)
        finally:
            process.kill()
    assert orphaned_jobs.wait_for_processes([run], timeout=0.2) is False


@pytest.mark.usefixtures("_own_cache")
def test_a_controller_killed_in_its_search_leaves_probes_that_the_next_one_waits_for(tmp_path):
    """A probe beside another's would find less memory than there is."""
    stored = kept_with(tmp_path / "it", LARGEST)
    ids = tuple(case.id for case in stored.cases)
    with subprocess.Popen([sys.executable, "-c", CONTROLLER, str(stored.path)]) as controller:
        end = time.monotonic() + 60
        while not orphaned_jobs.find_agents(ids):
            assert time.monotonic() < end and controller.poll() is None
            time.sleep(0.01)
        assert "case-started" not in [entry["event"] for entry in entries_of(stored.path)]
        controller.kill()
    outcome = resume(stored.path)
    assert outcome.exit_code == 0
    (result,) = outcome.results()
    assert 100 < result.spec.batch_size < 300
    assert not processes_with(stored.stamp)


# -- what another left in a queue


@frozen
class QueueOptions:
    lane: str = "slow"


class Queue(Local):
    """A launcher that places like `local`, and whose queue holds what a test says."""

    name = "queue"
    Options = QueueOptions

    def cancel_orphaned_jobs(self, ids, options):
        self.asked.append((set(ids), options))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def queue(monkeypatch):
    """The launcher: its `answers`, what it was `asked`, the `plugins` that it is one of."""

    class Fresh(Queue):
        answers, asked = [{}], []

    Fresh.plugins = Registry({"topologies": {"queue": Fresh}})
    monkeypatch.setattr(orphaned_jobs, "_POLL", 0.001)
    return Fresh


@pytest.fixture
def _short_timeout(monkeypatch):
    """In which nothing that is left goes."""
    cancel = partial(orphaned_jobs.cancel_orphaned_jobs, timeout=0.05)
    monkeypatch.setattr(orphaned_jobs, "cancel_orphaned_jobs", cancel)


def queued(directory, registry, **axes):
    """A campaign over that launcher which a controller has begun, and has died in."""
    fields = {**SMALL, "topology": "1n1d@queue", "repeats": 1}
    what = make_campaign(Matrix(fields=fields, axes={"framework": ["numpy"], **axes}))
    stamp, entries = planning.plan_campaign(what, registry)
    campaign = create_campaign(directory, what, entries, stamp)
    campaign.journal.append("session", host=host_info.describe_host(registry), changes=[])
    return campaign


def test_queued_jobs_of_a_killed_controller_are_canceled_before_measuring(tmp_path, queue):
    stored = queued(tmp_path / "it", queue.plugins, batch_size=[4, 8])
    pending, concluded = (case.id for case in stored.cases)
    stored.journal.append("concluded", case=concluded, status="crashed", ok=True)
    queue.answers = [
        Unavailable("It is being restarted."),
        {"job 7": "RUNNING"},
        {"job 7": "ENDING", "job 8": "PENDING"},
        {"job 8": "PENDING"},
        {},
    ]
    received = []
    outcome = resume(stored.path, registry=queue.plugins, watch=received.append)
    assert outcome.exit_code == 0
    ids = {f"{word}{pending}" for word in ("", "parity-", "largest-")}
    assert queue.asked == [(ids, QueueOptions())] * 5
    entries = [entry for entry in entries_of(stored.path) if "case" not in entry]
    assert [entry["event"] for entry in entries[:4]] == ["session", "ending-left", "ending-left", "session"]
    assert [entry["jobs"] for entry in entries[1:3]] == [["job 7 (RUNNING)"], ["job 8 (PENDING)"]]
    assert received[:2] == entries[1:3]


def test_orphaned_jobs_are_looked_up_for_each_set_of_launcher_options(tmp_path, queue):
    """A queue may be chosen by an option."""
    lanes = [{"lane": "fast"}, {"lane": "slow"}]
    stored = queued(tmp_path / "it", queue.plugins, options=lanes, batch_size=[2, 4])
    orphaned_jobs.cancel_orphaned_jobs(stored.cases, queue.plugins, lambda jobs: None)
    assert sorted(options.lane for _, options in queue.asked) == ["fast", "slow"]
    for ids, options in queue.asked:
        mine = {case.id for case in stored.cases if case.spec.options["lane"] == options.lane}
        assert len(mine) == 2
        assert ids == {f"{word}{id}" for id in mine for word in ("", "parity-", "largest-")}


class Dropped(Queue):
    """A queue whose job is there until somebody ends it."""

    jobs: ClassVar = set()

    def has_queue(self):
        return True

    @contextmanager
    def launch(self, job):
        self.jobs.add(job.id)
        yield iter(())
        self.jobs.discard(job.id)

    def cancel_orphaned_jobs(self, ids, options):
        ended = dict.fromkeys(ids & self.jobs, "RUNNING")
        self.jobs.difference_update(ids)
        return ended


class Deaf(Dropped):
    def cancel_orphaned_jobs(self, ids, options):
        return {}


class Stuck(Dropped):
    def cancel_orphaned_jobs(self, ids, options):
        return dict.fromkeys(ids & self.jobs, "RUNNING")


class Hasty(Dropped):
    """It ends whatever is there."""

    def cancel_orphaned_jobs(self, ids, options):
        return super().cancel_orphaned_jobs(set(self.jobs), options)


@pytest.mark.parametrize(
    ("launcher", "output"),
    [
        (Dropped, None),
        (Deaf, "was in the queue, and cancel_orphaned_jobs() returned nothing"),
        (Stuck, "cancel_orphaned_jobs() still returns"),
        (Hasty, "which does not exist"),
    ],
)
def test_the_suite_for_launchers_catches_a_queue_that_forgets(launcher, output, monkeypatch):
    monkeypatch.setattr(topology_suite, "_CANCEL_TIMEOUT", 0.01)

    class Suite(topology_suite.TopologyConformance):
        topology, framework, model = "queue", "numpy", "linear"
        registry = Registry({"topologies": {"queue": launcher}})

    with nullcontext() if output is None else pytest.raises(AssertionError, match=re.escape(output)):
        Suite().test_orphaned_job_is_canceled()


def test_new_campaign_has_no_orphaned_jobs(tmp_path, queue):
    queue.answers = [AssertionError("there was no controller before")]
    matrix = Matrix(fields={**SMALL, "topology": "1n1d@queue"}, axes={"framework": ["numpy"]})
    assert campaign(matrix, tmp_path / "it", registry=queue.plugins).exit_code == 0
    assert queue.asked == []


@pytest.mark.usefixtures("_short_timeout")
def test_jobs_that_cannot_be_canceled_are_named_and_stop_the_campaign(tmp_path, queue):
    stored = queued(tmp_path / "it", queue.plugins)
    queue.answers = [{"job 7": "RUNNING"}]
    with pytest.raises(
        StoreError, match=r"still there after 0 s: job 7 \(RUNNING\)\. .* Cancel them by hand, or wait"
    ):
        resume(stored.path, registry=queue.plugins)
    assert len(queue.asked) > 1
    # The next session still falls together with the one that was killed.
    assert [entry["event"] for entry in entries_of(stored.path)] == ["session", "ending-left"]
    queue.answers = [{}]
    assert resume(stored.path, registry=queue.plugins).exit_code == 0


@pytest.mark.usefixtures("_short_timeout")
def test_launcher_without_an_answer_is_not_an_empty_queue(tmp_path, queue):
    stored = queued(tmp_path / "it", queue.plugins)
    queue.answers = [Unavailable("Nobody is at home.")]
    output = r"left jobs in the queue of queue, which does not answer: Nobody is at home\. Two attempts"
    with pytest.raises(StoreError, match=output):
        resume(stored.path, registry=queue.plugins)
    assert [entry["event"] for entry in entries_of(stored.path)] == ["session"]


# -- the time


def lifted(directory):
    """The same campaign without the limit of its session."""
    document = json.loads((directory / "campaign.json").read_text())
    document["settings"]["campaign_limit"] = None
    (directory / "campaign.json").write_text(json.dumps(document))


@pytest.mark.usefixtures("_own_cache")
def test_the_search_for_the_largest_batch_ends_with_the_session_and_is_begun_again(tmp_path):
    outcome = campaign(LARGEST, tmp_path / "it", campaign_limit=0.3)
    assert (outcome.ended, outcome.exit_code) == ("time-limit", 5)
    assert [entry["event"] for entry in entries_of(tmp_path / "it")] == ["session", "ended"]
    assert not processes_with(outcome.directory.stamp)
    lifted(tmp_path / "it")
    (result,) = resume(tmp_path / "it").results()
    assert result.ok
    assert result.spec.batch_size > 100


@pytest.mark.usefixtures("without_reference")
def test_a_wait_for_a_quiet_machine_ends_with_the_session(tmp_path, monkeypatch):
    monkeypatch.setattr(machine_load, "foreign_load", lambda before, after: machine_load.Foreign(0.9, ""))
    started_at = time.monotonic()
    outcome = campaign(small(), tmp_path / "it", campaign_limit=0.5, quiet_wait=600.0)
    assert time.monotonic() - started_at < 60
    assert "waiting" in [entry["event"] for entry in entries_of(tmp_path / "it")]
    assert outcome.ended == "time-limit"
    assert [item.status for item in outcome.cases.values()] == [None]


# -- company on a device


def test_other_processes_on_a_device_are_reported_by_its_agent():
    alone = gauge("processes", "GPU-0", (1.0,) * 5, 99.0, 1.0)
    before = gauge("processes", "GPU-1", (3.0, 1.0, 1.0, 1.0, 1.0), 99.0, 1.0)  # the window is 100 to 102
    meanwhile = gauge("processes", "GPU-2", (1.0, 1.0, 3.0, 1.0, 1.0), 99.0, 1.0)
    elsewhere = gauge("processes", "GPU-3", (2.0,) * 5, 99.0, 1.0, node=1)
    unseen = gauge("memory", "GPU-4", (9.0,) * 5, 99.0, 1.0)
    measured = repeat(series=(alone, before, meanwhile, elsewhere, unseen))
    assert machine_load.count_device_processes(measured) == {(0, "GPU-2"): 2}
    assert machine_load.describe_device_processes(0, "GPU-2", 2, "During repeat 1") == (
        "During repeat 1, 2 other processes computed on GPU-2 of node 0."
    )
    assert "another process computed" in machine_load.describe_device_processes(
        1, "GPU-3", 1, "During repeat 1"
    )
