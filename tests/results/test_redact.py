"""Redaction: names of hosts and people go, the same to the same stand-in, and the result stays a result."""

import ipaddress
import json
import random

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from result_values import results
from test_store import record, result

from dlperf_sdk.interfaces.measurer import Metric
from dlperf_sdk.results import records as r
from dlperf_sdk.results import result as res
from dlperf_sdk.results.convert import result_to_dict
from dlperf_sdk.results.redact import redact_result
from dlperf_sdk.results.stand_ins import StandIns
from dlperf_sdk.spec.run_spec import RunSpec

LOCK = """\
--index-url https://alice:hunter2@mirror.corp.example/simple
torch==2.0
wheels @ file:///home/alice/wheels/x.whl
numpy @ https://github.com/numpy.whl
nvidia-cublas-cu12==12.8.4.1
"""
TRACEBACK = """\
Traceback (most recent call last):
  File "/home/alice/src/train.py", line 3, in step
  File "/Users/bob/x.py", line 1
ConnectionError: gpu17 (10.1.2.3:29500) refused gpu17.corp.example, not gpu171; malice; alice.
"""


@pytest.mark.timeout(30)
def test_many_hosts_take_no_time():
    names = StandIns()
    for number in range(100_000):
        names.add(f"n{number}", f"host-{names.count() + 1}")
    assert names.get("n99999") == "host-100000"


def test_a_host_that_is_almost_an_address_takes_no_time():
    name = ":" * 100_000 + "x"
    assert redact_result(result(hardware=({"host": name},), notes=())).hardware == ({"host": "host-1"},)


def full():
    return result(
        status="crashed",
        failure=r.Failure("crashed", "alice@gpu18: see /home/alice/log", traceback=TRACEBACK),
        spec=RunSpec(
            framework="torch",
            model="resnet50",
            data="images:/home/alice/imagenet",
            python="/home/alice/venv/bin/python",
            env={"USER": "alice", "SCRATCH": "/scratch/alice"},
            options={"cache": "/home/carol/cache"},
        ),
        facts=(
            res.Fact("python", "context", "/home/alice/venv/bin/python", None),
            res.Fact("data", "context", None, {"/home/alice/imagenet": ["gpu17"]}),
            res.Fact("strategy", "factor", "all_reduce", "all_reduce"),
        ),
        metrics=(Metric("throughput", "img/s", 5.0, note="on gpu17, see https://example.org/paper"),),
        environment=res.Environment(
            "managed",
            "3.11",
            LOCK,
            ("/home/alice/.cache/python",),
            {"HTTPS_PROXY": "http://proxy.corp.example:3128"},
            "x 1",
        ),
        hardware=(
            {"host": "gpu17.corp.example", "address": "10.1.2.3", "cpu": {"model": "gpu17 edition"}},
            {"host": "gpu18", "address": "10.1.2.4:29500"},
        ),
        notes=("gpu18: device 0 is held by alice (pid 5)", "nothing"),
    )


def test_names_go():
    text = json.dumps(result_to_dict(redact_result(full())))
    names = [
        "alice@",
        "alice/",
        '"alice',
        "bob",
        "carol",
        "hunter2",
        "gpu17 ",
        "gpu17.",
        "gpu18",
        "corp",
        "10.1.2.",
    ]
    for name in names:
        assert name not in text, name


def test_the_same_name_has_the_same_stand_in():
    shared = redact_result(full())
    assert [node["host"] for node in shared.hardware] == ["host-1", "host-2"]
    assert [node["address"] for node in shared.hardware] == ["host-1", "host-2:29500"]
    assert shared.hardware[0]["cpu"]["model"] == "host-1 edition"
    assert shared.failure.message == "user@host-2: see /home/user/log"
    assert shared.notes == ("host-2: device 0 is held by user (pid 5)", "nothing")
    assert shared.spec.data.path == "/home/user/imagenet"
    assert shared.spec.env == {"USER": "user", "SCRATCH": "/scratch/user"}
    assert shared.facts[1].observed == {"/home/user/imagenet": ["host-1"]}
    others = {shared.spec.options["cache"], shared.failure.traceback.split('"')[3]}
    assert others == {"/home/user-2/cache", "/Users/user-3/x.py"} or others == {
        "/home/user-3/cache",
        "/Users/user-2/x.py",
    }


@pytest.mark.parametrize(
    ("address", "note"),
    [
        ("127.0.0.1", "127.0.0.1:29500 is taken"),
        ("::1", "[::1]:29500 is taken"),
        ("2001:db8::5:7", "2001:DB8::5:7 is taken"),
        ("[2001:db8::5:7]:29500", "[2001:db8::5:7]:29500 is taken"),
        ("fe80::5%eth0", "fe80::5%eth0 is taken"),
        ("10.1.2.3", "10.1.2.3:29500 is taken"),
        ("10.1.2.3", "[::ffff:a01:203]:29500 is taken"),
        ("10.1.2.3", "::FFFF:10.1.2.3 is taken"),
        ("2001:db8::5:7", "[2001:0DB8:0:0:0:0:5:7]:29500 is taken"),
        ("2001:0db8:0:0:0:0:5:7", "no route to 2001:db8::5:7."),
    ],
)
def test_the_address_of_a_node_is_its_host(address, note):
    nodes = ({"host": "gpu17", "network": {"address": address, "interface": "eth0"}}, {"host": "gpu18"})
    shared = redact_result(result(hardware=nodes, notes=(note,)))
    bare = address.strip("[").partition("]")[0]
    assert bare.lower() not in json.dumps(result_to_dict(shared)).lower()
    assert [node["host"] for node in shared.hardware] == ["host-1", "host-2"]
    assert "host-1" in shared.hardware[0]["network"]["address"]
    assert "host-1" in shared.notes[0]


def spellings(address, draw):
    """Spellings of an address that `ipaddress` reads as this one, or as the IPv6 address that stands for it."""
    if isinstance(address, ipaddress.IPv4Address):
        yield str(address)
        yield f"::ffff:{address}"
        address = ipaddress.IPv6Address(f"::ffff:{address}")
    groups = address.exploded.split(":")
    yield from (address.exploded, address.compressed)
    yield ":".join(group if draw.random() < 0.5 else group.lstrip("0") or "0" for group in groups)
    zeros = [index for index, group in enumerate(groups) if group == "0000"]
    if zeros:  # any group of zeros may be the one that is left out
        left_out = draw.choice(zeros)
        yield f"{':'.join(groups[:left_out])}::{':'.join(groups[left_out + 1 :])}"


@pytest.mark.parametrize("seed", range(20))
def test_an_address_is_redacted_in_every_spelling(seed):
    draw = random.Random(seed)
    groups = [draw.choice((0, 0, draw.getrandbits(16))) for _ in range(6)]
    version6 = ipaddress.IPv6Address(":".join(f"{group:x}" for group in (0x2001, *groups, 0xABC)))
    for address in (version6, ipaddress.IPv4Address(0x0A010000 + draw.getrandbits(16))):
        node = {"host": "gpu17", "network": {"address": str(address), "interface": "eth0"}}
        for spelling in spellings(address, draw):
            for form in (spelling, spelling.upper()):
                for text in ("{} is taken", "tcp://[{}]:29500", "inet6:{}:29500.", "addr={}%eth0", "at {}."):
                    shared = redact_result(result(hardware=(node,), notes=(text.format(form),)))
                    assert shared.notes[0] == text.format("host-1"), form


def test_every_host_in_a_list_of_hosts_is_redacted():
    """Also those of nodes that never joined the run."""
    spec = RunSpec(
        framework="numpy",
        model="linear",
        topology="3n1d@ssh",
        options={"hosts": "qqadmin@gpu[17-18].corp,farnode"},
    )
    notes = ("gpu18.corp did not answer", "nor did farnode, for qqadmin")
    shared = json.dumps(result_to_dict(redact_result(result(spec=spec, hardware=(), notes=notes))))
    for name in ("gpu17", "gpu18", "corp", "farnode", "qqadmin"):
        assert name not in shared
    assert "host-2 did not answer" in shared


def test_hosts_with_the_same_loopback_address_are_different():
    nodes = tuple({"host": name, "network": {"address": "127.0.0.1"}} for name in ("gpu17", "gpu18"))
    shared = redact_result(result(hardware=nodes, notes=()))
    assert [node["host"] for node in shared.hardware] == ["host-1", "host-2"]


def test_words_that_resemble_a_name_are_kept():
    shared = redact_result(full())
    assert "refused host-1, not gpu171; malice; user." in shared.failure.traceback
    assert "nvidia-cublas-cu12==12.8.4.1" in shared.environment.lock
    assert "https://github.com/numpy.whl" in shared.environment.lock
    assert shared.metrics[0].note.endswith("https://example.org/paper")
    assert shared.environment.lock.splitlines()[0].startswith("--index-url https://host-")
    assert "file:///home/user/wheels" in shared.environment.lock


def test_measurement_is_pure():
    one = full()
    before = repr(one)
    assert repr(redact_result(one)) == repr(redact_result(one))
    assert repr(one) == before


def test_measured_values_are_kept():
    shared = redact_result(full())
    assert repr(shared.repeats) == repr(full().repeats)
    stored = ("id", "status", "metrics", "verdicts", "started_at", "finished_at", "workload", "stopping")
    for name in stored:
        if name != "metrics":
            assert getattr(shared, name) == getattr(full(), name)
    assert [metric.value for metric in shared.metrics] == [5.0]


@pytest.mark.parametrize(
    "name", ["cpu", "ok", "torch", "resnet50", "crashed", "managed", "blocking", "img/s", "1", "start"]
)
def test_hosts_and_people_that_are_called_like_a_word_of_ours(name):
    one = attrs.evolve(full(), hardware=({"host": name, "user": name},))
    shared = redact_result(one)
    assert (shared.status, shared.spec.framework, shared.spec.model) == ("crashed", "torch", "resnet50")
    assert shared.environment.kind == "managed"
    assert shared.repeats[0].records[0].clock == "blocking"
    assert shared.repeats[0].records[0].phases == {"start": 1.0}


def test_additional_names_are_redacted():
    one = attrs.evolve(result(hardware=()), notes=("dave at big-iron said so",))
    assert redact_result(one).notes == one.notes
    assert redact_result(one, hosts=["big-iron.example.org"], users=["dave"]).notes == (
        "user at host-1 said so",
    )


@pytest.mark.parametrize(
    ("text", "shared"),
    [
        ("qqhost-ib0", "host-1-ib0"),
        ("zzuser_tmp", "user_tmp"),
        ("run_qqhost_zzuser-2", "run_host-1_user-2"),
        ("éqqhost qqhost2 xzzuser", "éqqhost qqhost2 xzzuser"),
        ("amp-fp16 on amp_x", "amp-fp16 on user-2_x"),
    ],
)
def test_names_joined_to_others_go(text, shared):
    one = attrs.evolve(result(hardware=()), notes=(text,))
    one = attrs.evolve(one, spec=attrs.evolve(one.spec, precision="amp-fp16"))
    assert redact_result(one, hosts=["qqhost"], users=["zzuser", "amp"]).notes == (shared,)


@pytest.mark.parametrize(
    ("text", "shared"),
    [
        ("QQHOST and Qqhost, QqHost-ib0", "host-1 and host-1, host-1-ib0"),
        ("qqhost.EXAMPLE.org", "host-1"),
        ("/data/ZZUSER, Zzuser_tmp", "/data/user, user_tmp"),
        ("zzuſer", "user"),
        ("İQQ", "host-2"),
        ("iqq", "host-2"),
        ("Crashed, CRASHED_x; crashed", "user-2, user-2_x; crashed"),
        ("amp-fp16 on AMP_x", "amp-fp16 on user-3_x"),
    ],
)
def test_names_in_another_case_go_and_words_stay(text, shared):
    """`Crashed` is a user, and `crashed` a word."""
    one = attrs.evolve(result(hardware=()), notes=(text,))
    one = attrs.evolve(one, spec=attrs.evolve(one.spec, precision="amp-fp16"))
    hosts, users = ["QQhost.example.org", "İqq"], ["zzUser", "Crashed", "amp"]
    assert redact_result(one, hosts=hosts, users=users).notes == (shared,)


def test_a_name_in_two_cases_has_one_stand_in():
    nodes = ({"host": "QQHOST", "user": "Zoe"}, {"host": "qqhost", "user": "zoe"}, {"host": "other"})
    shared = redact_result(result(hardware=nodes)).hardware
    assert [node["host"] for node in shared] == ["host-1", "host-1", "host-2"]
    assert [node["user"] for node in shared[:2]] == ["user", "user"]


def test_uuids_of_gpus_go():
    uuids = ["GPU-5536be8c-27a1-a752-b892-3c837add7539", "GPU-c866c31d-8816-a641-4f91-cbd64d3fddeb"]
    nodes = ({"host": "qqhost", "gpus": [{"number": i, "uuid": uuid} for i, uuid in enumerate(uuids)]},)
    shared = redact_result(result(hardware=nodes, notes=(f"GPU 1 ({uuids[1]}) is busy.",)))
    assert [gpu["uuid"] for gpu in shared.hardware[0]["gpus"]] == ["gpu-1", "gpu-2"]
    assert shared.notes == ("GPU 1 (gpu-2) is busy.",)


def test_boot_ids_go():
    ids = ["0a1b2c3d-0000-4000-8000-000000000001", "0a1b2c3d-0000-4000-8000-000000000002"]
    nodes = tuple({"host": f"qqhost{i}", "boot_id": id} for i, id in enumerate([*ids, ids[0]]))
    shared = redact_result(result(hardware=nodes, notes=(f"tmp-{ids[1]}_x",)))
    assert [node["boot_id"] for node in shared.hardware] == ["boot-1", "boot-2", "boot-1"]
    assert shared.notes == ("tmp-boot-2_x",)


def test_a_name_that_would_collide():
    one = attrs.evolve(result(hardware=({"user": "zoe", "seen": {"zoe": 1, "user": 2}},)))
    assert redact_result(one).hardware == ({"user": "user", "seen": {"user": 1, "user-2": 2}},)


def test_home_directory_of_a_user_named_like_a_word_is_redacted():
    one = attrs.evolve(full(), spec=attrs.evolve(full().spec, data="images:/home/torch/x"))
    assert redact_result(one).spec.data.path == "/home/user/x"


def test_nothing_to_hide():
    one = attrs.evolve(result(hardware=()), repeats=(r.Repeat(1, (record(),)),))
    assert repr(redact_result(one)) == repr(one)


@settings(deadline=None, max_examples=20, suppress_health_check=list(HealthCheck))
@given(
    results(),
    st.from_regex(r"qq[a-z0-9.-]{1,8}", fullmatch=True),
    st.from_regex(r"zz[a-z]{1,9}", fullmatch=True),
)
def test_redacted_result_is_valid(one, host, user):
    noted = attrs.evolve(one, notes=(f"at {host} by {user}: /data/{user}/x",))
    shared = redact_result(noted, hosts=[host], users=[user])
    assert shared.notes == ("at host-1 by user: /data/user/x",)
    assert (shared.status, shared.repeats, shared.started_at) == (one.status, shared.repeats, one.started_at)
    assert len(shared.repeats) == len(one.repeats)
