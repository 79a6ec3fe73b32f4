"""What a node knows of itself."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from nvml_library import FIRST, FakeNvml, nvml  # noqa: F401

from dlperf_sdk.worker.agent.hardware import cpu_limit, describe, memory_limit


def write(root: Path, files: dict[str, str]) -> str:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n")
    return str(root)


@pytest.fixture
def proc(tmp_path: Path) -> str:
    return write(
        tmp_path / "proc",
        {
            "sys/kernel/random/boot_id": "11111111-2222-3333-4444-555555555555",
            "cpuinfo": "processor\t: 0\nmodel name\t: AMD EPYC 9654 96-Core Processor\nflags\t\t: fpu avx\n\n"
            "processor\t: 1\nmodel name\t: other",
            "meminfo": "MemTotal:       1000 kB\nMemFree: 1 kB",
            "loadavg": "0.10 0.20 0.30 1/2 3",
            "self/cgroup": "0::/",
        },
    )


@pytest.fixture
def sys(tmp_path: Path) -> str:
    """Two sockets of two cores with two threads each."""
    files = {"devices/system/cpu/online": "0-7", "devices/system/node/online": "0-1"}
    for cpu in range(8):
        core = cpu % 4
        files[f"devices/system/cpu/cpu{cpu}/topology/physical_package_id"] = str(core // 2)
        files[f"devices/system/cpu/cpu{cpu}/topology/core_id"] = str(core % 2)
    files["devices/system/cpu/cpu0/cpufreq/scaling_governor"] = "performance"
    files["devices/system/cpu/intel_pstate/no_turbo"] = "0"
    files["class/dmi/id/sys_vendor"] = "Dell Inc."
    files["class/dmi/id/product_name"] = "PowerEdge R7625"
    return write(tmp_path / "sys", files)


def test_a_described_node(nvml: FakeNvml, proc: str, sys: str) -> None:
    facts = describe(proc, sys, nvml.path)
    assert facts["boot_id"].startswith("11111111")
    assert facts["memory"] == 1000 * 1024
    assert facts["load"] == [0.1, 0.2, 0.3]
    assert facts["numa_nodes"] == 2
    cpu = facts["cpu"]
    assert cpu["model"] == "AMD EPYC 9654 96-Core Processor"
    assert (cpu["sockets"], cpu["cores"], cpu["governor"], cpu["turbo"]) == (2, 4, "performance", True)
    assert cpu["usable"] == len(os.sched_getaffinity(0))
    assert facts["virtualisation"]["hypervisor"] is False
    assert facts["virtualisation"]["machine"] == "Dell Inc. PowerEdge R7625"
    assert facts["gpus"][0]["uuid"] == FIRST
    assert "limit" not in cpu and "memory_limit" not in facts
    assert json.loads(json.dumps(facts)) == facts


def test_unreadable_facts_are_absent(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere")
    facts = describe(nowhere, nowhere, "libno-such-library.so.1")
    unreadable = {"boot_id", "numa_nodes", "memory", "memory_limit", "load", "gpus"}
    assert not unreadable & set(facts)
    assert not {"model", "sockets", "cores", "governor", "turbo", "limit"} & set(facts["cpu"])
    assert None not in facts.values()


def test_incomplete_topology_gives_no_core_count(proc: str, sys: str) -> None:
    (Path(sys) / "devices/system/cpu/cpu5/topology/core_id").unlink()
    assert "cores" not in describe(proc, sys, "none")["cpu"]


def test_the_tightest_group_of_version_2_limits(proc: str, sys: str) -> None:
    (Path(proc) / "self/cgroup").write_text("0::/slurm/job_7/step_0\n")
    group = "fs/cgroup/slurm/job_7"
    write(
        Path(sys),
        {
            f"{group}/cpu.max": "400000 100000",
            f"{group}/step_0/cpu.max": "max 100000",
            "fs/cgroup/slurm/cpu.max": "1600000 100000",
            f"{group}/memory.max": "8589934592",
            f"{group}/step_0/memory.max": "max",
            "fs/cgroup/slurm/memory.max": "17179869184",
        },
    )
    assert cpu_limit(proc, sys) == 4.0
    assert memory_limit(proc, sys) == 8589934592
    facts = describe(proc, sys, "none")
    assert facts["cpu"]["limit"] == 4.0 and facts["memory_limit"] == 8589934592


def test_version_1_limits(proc: str, sys: str) -> None:
    lines = ["5:memory:/docker/abc", "4:cpu,cpuacct:/docker/abc", "0::/"]
    (Path(proc) / "self/cgroup").write_text("\n".join(lines) + "\n")
    write(
        Path(sys),
        {
            "fs/cgroup/cpu/cpu.cfs_quota_us": "150000",
            "fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            "fs/cgroup/memory/docker/abc/memory.limit_in_bytes": "9223372036854771712",
            "fs/cgroup/memory/memory.limit_in_bytes": "1073741824",
        },
    )
    assert cpu_limit(proc, sys) == 1.5
    assert memory_limit(proc, sys) == 1073741824


@pytest.mark.parametrize("quota", ["-1", "max", "", "nonsense"])
def test_missing_limit_is_not_a_limit(proc: str, sys: str, quota: str) -> None:
    write(Path(sys), {"fs/cgroup/cpu.max": f"{quota} 100000", "fs/cgroup/memory.max": quota})
    assert cpu_limit(proc, sys) is None
    assert memory_limit(proc, sys) is None


def test_a_path_outside_the_container_is_not_followed(proc: str, sys: str) -> None:
    (Path(proc) / "self/cgroup").write_text("0::/../../etc\n")
    write(Path(sys), {"etc/memory.max": "1", "fs/memory.max": "2", "fs/cgroup/memory.max": "4096"})
    assert memory_limit(proc, sys) == 4096


def test_this_machine() -> None:
    facts = describe()
    assert facts["host"] == os.uname().nodename
    assert facts["kernel"] == os.uname().release
    assert facts["cpu"]["logical"] == os.cpu_count()
    assert facts["memory"] > 2**28
    json.dumps(facts)
