"""A process's seat in a job, from the variables that real programs set, and what is refused."""

from __future__ import annotations

import pytest

from dlperf_sdk.launchers.joined.job_kinds import JOB_KINDS, find_job_kind, list_job_variables, read_seat

TORCHRUN = {
    **{"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "GROUP_RANK": "1"},
    **{"TORCHELASTIC_RUN_ID": "none", "MASTER_ADDR": "n1", "MASTER_PORT": "29500"},
}
OPENMPI = {
    **{"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "8"},
    **{"OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "4", "PMIX_NAMESPACE": "57344001"},
}
MPICH = {"PMI_RANK": "5", "PMI_SIZE": "8", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "4"}
SLURM = {
    **{"SLURM_PROCID": "5", "SLURM_LOCALID": "1", "SLURM_NODEID": "1", "SLURM_STEP_NUM_NODES": "2"},
    **{
        "SLURM_STEP_NUM_TASKS": "8",
        "SLURM_STEP_NODELIST": "n[1-2]",
        "SLURM_JOB_ID": "7",
        "SLURM_STEP_ID": "0",
    },
}
BY_HAND = {"RANK": "5", "WORLD_SIZE": "8", "MASTER_ADDR": "n1"}
JOBS = {
    "torchrun": TORCHRUN,
    "OpenMPI": OPENMPI,
    "MPICH": MPICH,
    "Slurm": SLURM,
    "started by hand": BY_HAND,
}


def seat_of(environ, nodes=2, devices=4):
    return read_seat(find_job_kind(environ), environ, nodes, devices)


def test_each_kind_of_job_is_in_this_test():
    assert [*JOBS] == [kind.name for kind in JOB_KINDS]


@pytest.mark.parametrize("name", JOBS)
def test_the_seat_of_a_process_in_each_kind_of_job(name):
    seat = seat_of(JOBS[name])
    assert seat.kind.name == name
    assert (seat.rank, seat.node, seat.local_rank, seat.nodes, seat.local_size) == (5, 1, 1, 2, 4)
    assert not seat.is_controller
    assert seat.describe() == "rank 5 (local rank 1 of node 1)"


@pytest.mark.parametrize("name", JOBS)
def test_rank_0_is_the_controller(name):
    ranks = (*(kind.rank for kind in JOB_KINDS), *(kind.local_rank for kind in JOB_KINDS))
    nodes = [kind.node for kind in JOB_KINDS]
    environ = {key: "0" if key in (*ranks, *nodes) else value for key, value in JOBS[name].items()}
    assert seat_of(environ).is_controller


@pytest.mark.parametrize("name", JOBS)
def test_a_missing_variable_is_named(name):
    kind = find_job_kind(JOBS[name])
    environ = {key: value for key, value in JOBS[name].items() if key != kind.size}
    with pytest.raises(
        ValueError,
        match=rf"^{kind.marker[0]} is set, so this process belongs to a job \({name}\), but {kind.size} is not set",
    ):
        read_seat(kind, environ, 2, 4)


def test_outside_of_a_job_there_is_no_kind():
    assert find_job_kind({"PATH": "/bin", "SLURM_PROCID": "0", "SLURM_JOB_ID": "7"}) is None  # a batch script


def test_a_job_inside_of_another_one_comes_first():
    batch = {**SLURM, "SLURM_PROCID": "1", "SLURM_LOCALID": "0", "SLURM_STEP_NUM_TASKS": "2"}
    assert find_job_kind({**batch, **TORCHRUN}).name == "torchrun"
    assert find_job_kind({**batch, **OPENMPI}).name == "OpenMPI"
    assert find_job_kind({**batch, **BY_HAND}).name == "Slurm"


def test_one_process_per_node_may_have_any_number_of_devices():
    environ = {"RANK": "1", "WORLD_SIZE": "2"}
    seat = seat_of(environ, 2, 8)
    assert (seat.node, seat.local_rank, seat.local_size) == (1, 0, 1)


def test_cyclic_tasks_of_slurm_have_seats():
    environ = {**SLURM, "SLURM_PROCID": "3", "SLURM_NODEID": "1", "SLURM_LOCALID": "1"}
    assert (seat_of(environ).node, seat_of(environ).local_rank) == (1, 1)


@pytest.mark.parametrize("shape", [(1, 4), (2, 2), (1, 1)])
def test_a_smaller_topology_fits(shape):
    assert seat_of(TORCHRUN, *shape).nodes == 2


@pytest.mark.parametrize("shape", [(3, 4), (2, 5)])
@pytest.mark.parametrize("name", ["torchrun", "OpenMPI", "MPICH", "Slurm"])
def test_a_larger_topology_is_refused(name, shape):
    with pytest.raises(ValueError, match="the job has 2 nodes with 4 processes each"):
        seat_of(JOBS[name], *shape)


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        (
            {**BY_HAND, "RANK": "8"},
            r"^The variables of the job \(started by hand\) contradict each other: RANK=8",
        ),
        ({**TORCHRUN, "RANK": "8"}, "contradict each other: RANK=8, WORLD_SIZE=8"),
        ({**TORCHRUN, "RANK": "0"}, "contradict"),
        ({**TORCHRUN, "LOCAL_RANK": "4"}, "contradict"),
        ({**TORCHRUN, "GROUP_RANK": "2"}, "contradict"),
        ({**TORCHRUN, "RANK": "one"}, "RANK is 'one'; expected a number"),
        ({**TORCHRUN, "RANK": "-1"}, "expected a number"),
        ({**TORCHRUN, "WORLD_SIZE": "6"}, "6 processes .* neither one per device nor one per node"),
        ({**TORCHRUN, "LOCAL_WORLD_SIZE": "0"}, "neither one per device"),
        ({**OPENMPI, "OMPI_COMM_WORLD_LOCAL_RANK": "2"}, "node by node.*--map-by ppr:N:node"),
        ({**SLURM, "SLURM_STEP_NUM_TASKS": "7"}, "--ntasks-per-node=N"),
        ({**SLURM, "SLURM_LOCALID": "4"}, "--ntasks-per-node=N"),
        ({**SLURM, "SLURM_STEP_NUM_NODES": "0"}, "neither one per device"),
        ({**OPENMPI, "OMPI_COMM_WORLD_SIZE": "9999996"}, "9,999,996 processes .* it may have 100,000"),
        ({**BY_HAND, "WORLD_SIZE": "4"}, "4 processes .* of 2 nodes with 4 devices each"),
    ],
)
def test_contradictions_are_refused_with_a_remedy(environ, message):
    with pytest.raises(ValueError, match=message):
        seat_of(environ)


def test_variables_of_all_kinds_are_kept_from_workers():
    names = list_job_variables()
    assert {"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= {*names}
    assert {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "TORCHELASTIC_RUN_ID"} <= {*names}
