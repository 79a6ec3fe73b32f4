"""The file through which the processes of a job meet: who may read it, and whose is trusted."""

from __future__ import annotations

import json
import os
import stat

import pytest

from dlperf_sdk.errors import UsageError
from dlperf_sdk.launchers.joined.job_kinds import find_job_kind, read_seat
from dlperf_sdk.launchers.joined.meeting import (
    JOIN_VARIABLE,
    Meeting,
    address_of_controller,
    close_meeting,
    find_meeting,
    listening_address,
    meeting_file,
    open_meeting,
)

JOB = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "1234"}
SLURM = {
    **{"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0", "SLURM_STEP_NUM_NODES": "2"},
    **{
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_NODELIST": "n[1-2]",
        "SLURM_JOB_ID": "7",
        "SLURM_STEP_ID": "0",
    },
}
SECRET = "0123456789abcdef" * 2


def seat_of(environ, nodes=2):
    return read_seat(find_job_kind(environ), environ, nodes, 1)


@pytest.fixture
def path(tmp_path):
    return meeting_file(str(tmp_path), seat_of(JOB), JOB)


def test_all_processes_of_a_job_and_no_other_look_for_the_same_file(tmp_path, path):
    other = {**JOB, "RANK": "1"}
    assert meeting_file(str(tmp_path), seat_of(other), other) == path
    later = {**JOB, "MASTER_PORT": "1235"}
    assert meeting_file(str(tmp_path), seat_of(later), later) != path
    steps = {
        meeting_file(str(tmp_path), seat_of(step), step) for step in (SLURM, {**SLURM, "SLURM_STEP_ID": "1"})
    }
    assert len(steps) == 2


def test_the_file_is_readable_by_its_user_only_and_removed_at_the_end(path):
    meeting = open_meeting(path, "10.0.0.1", {})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert find_meeting(path, "", {}) == meeting
    assert len(meeting.secret) >= 32
    close_meeting(path, meeting)
    assert not [*path.parent.iterdir()]


def test_a_file_that_an_earlier_job_has_left_is_replaced_and_not_removed_by_it(path):
    earlier = open_meeting(path, "10.0.0.1", {})
    later = open_meeting(path, "10.0.0.2", {})
    assert earlier.secret != later.secret
    close_meeting(path, earlier)
    assert find_meeting(path, "", {}) == later


@pytest.mark.parametrize("mode", [0o644, 0o620, 0o602])
def test_a_file_that_others_can_read_or_write_is_not_trusted(path, mode):
    open_meeting(path, "10.0.0.1", {})
    path.chmod(mode)
    with pytest.raises(ValueError, match="which no other user may read or write"):
        find_meeting(path, "", {})


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to another user")
def test_a_file_of_another_user_is_not_trusted(path):
    open_meeting(path, "10.0.0.1", {})
    os.chown(path, 12345, 12345)
    with pytest.raises(ValueError, match="must be a regular file of this user"):
        find_meeting(path, "", {})


def test_a_link_and_a_pipe_are_not_followed(path, tmp_path):
    open_meeting(tmp_path / "elsewhere", "10.0.0.1", {})
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="cannot be read"):
        find_meeting(path, "", {})
    path.unlink()
    os.mkfifo(path, 0o600)
    with pytest.raises(ValueError, match="must be a regular file of this user"):
        find_meeting(path, "", {})


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"secret": "short", "address": "a"}', json.dumps({"secret": SECRET})]
)
def test_a_damaged_file_is_refused(path, content):
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(ValueError, match="not a job file"):
        find_meeting(path, "", {})


def test_a_folder_that_cannot_be_written_is_named_with_both_remedies(tmp_path):
    with pytest.raises(UsageError, match=f"--set meeting=DIR.*{JOIN_VARIABLE}"):
        open_meeting(tmp_path / "nowhere" / "file", "10.0.0.1", {})


def test_a_secret_of_the_user_needs_no_file(path):
    meeting = open_meeting(path, "10.0.0.1", {JOIN_VARIABLE: SECRET})
    assert not path.exists()
    assert find_meeting(path, "10.0.0.1", {JOIN_VARIABLE: SECRET}) == meeting == Meeting(SECRET, "10.0.0.1")


def test_a_short_secret_and_one_without_an_address_are_refused(path):
    for meet in (open_meeting, find_meeting):
        with pytest.raises(UsageError, match="has 8 characters; a secret needs at least 32"):
            meet(path, "10.0.0.1", {JOIN_VARIABLE: "password"})
    with pytest.raises(UsageError, match="--set address=HOST"):
        find_meeting(path, "", {JOIN_VARIABLE: SECRET})


@pytest.mark.parametrize(
    ("environ", "nodes", "given", "expected"),
    [
        (JOB, 2, "", "10.0.0.1"),
        (JOB, 2, "n9", "n9"),
        (SLURM, 2, "", "n1"),
        ({"RANK": "0", "WORLD_SIZE": "1"}, 1, "", "127.0.0.1"),
    ],
)
def test_the_address_of_rank_0_comes_from_the_user_or_the_job(environ, nodes, given, expected):
    assert address_of_controller(seat_of(environ, nodes), given, environ) == expected


@pytest.mark.parametrize("hosts", ["n[1-", "n[2-1]", "", "n1,,n2"])
@pytest.mark.parametrize("find", [address_of_controller, listening_address])
def test_a_malformed_list_of_hosts_is_named_with_its_variable(hosts, find):
    environ = {**SLURM, "SLURM_STEP_NODELIST": hosts}
    with pytest.raises(UsageError, match=r"The variable SLURM_STEP_NODELIST .*--set address=HOST"):
        find(seat_of(environ), "", environ)
    assert address_of_controller(seat_of(environ), "n9", environ) == "n9"


def test_an_impossible_name_of_rank_0_is_replaced_by_an_address_of_this_node():
    named = {**JOB, "MASTER_ADDR": "a..b"}
    try:
        address = listening_address(seat_of(named), "", named)
    except UsageError:
        pytest.skip("this machine has the loopback interface only")
    assert not address.startswith("127.")


def test_a_name_that_stands_for_loopback_is_replaced_by_an_address_of_this_node():
    """A pod's first process may have MASTER_ADDR=localhost, which the others cannot use."""
    named = {**JOB, "MASTER_ADDR": "localhost"}
    try:
        address = listening_address(seat_of(named), "", named)
    except UsageError:
        pytest.skip("this machine has the loopback interface only")
    assert not address.startswith("127.")
    digits = {**JOB, "MASTER_ADDR": "127.0.0.1"}
    assert listening_address(seat_of(digits), "", digits) == "127.0.0.1"
