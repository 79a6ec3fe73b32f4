"""A cluster on this machine: nodes in network namespaces of their own, with a private /tmp each, under real Slurm,
OpenMPI and sshd. Needs root.

The bridge's end with the address .254 is this machine, where the controller and slurmctld run. Several clusters are
told apart by a number, and know nothing of each other.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

NAMES = ("n1", "n2", "n3", "n4")
CONTROLLER_PORT = 6817
"""Of the first cluster's slurmctld; they all listen on this machine."""
PACKAGES = ("slurm-wlm", "openmpi-bin", "openssh-server", "openssh-client", "iproute2")
HYDRA = "mpirun.mpich"
"""The mpirun that is refused; what Debian calls it beside OpenMPI's."""
OPTIONAL = {HYDRA: "mpich", "runc": "runc", "podman": "podman", "catatonit": "catatonit"}
"""Programs and their packages without which there is a cluster still, and some tests are skipped. podman runs with
runc: crun, which it brings, does not know machines with both kinds of control groups."""
PROGRAMS = ("slurmctld", "slurmd", "srun", "mpirun", "sshd", "ssh", "ip", "nsenter")

_CONF = """\
ClusterName=test{number}
SlurmctldHost={host}({network}.254)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool/%n
SlurmctldPidFile={home}/run/slurmctld.pid
SlurmdPidFile={home}/run/slurmd-%n.pid
SlurmctldLogFile={home}/log/slurmctld.log
SlurmdLogFile={home}/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=15
SlurmdTimeout=10
MessageTimeout=5
MinJobAge=3600
JobRequeue=0
NodeName=n[1-4] NodeAddr={network}.[1-4] CPUs=8 RealMemory=4000 State=UNKNOWN
PartitionName=main Nodes=n[1-4] Default=YES MaxTime=INFINITE State=UP
"""

CHECKOUT = Path(__file__).resolve().parents[2]
"""Nodes see it also where it lies below /tmp, of which each node has its own."""
_NODE = """\
hostname "$1"
case "$3" in
  /tmp/*) mount --bind "$3" "$4" && mount -t tmpfs -o size=256m tmpfs /tmp && mkdir -p "$3" && mount --bind "$4" "$3";;
  *) mount -t tmpfs -o size=256m tmpfs /tmp;;
esac
mount --bind "$2" /etc/hosts
echo ready
exec sleep infinity
"""


def missing() -> str | None:
    """Why a cluster cannot be made here, in a sentence; pytest's first process installs what apt can install."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    first = "PYTEST_XDIST_WORKER" not in os.environ
    there = all(shutil.which(program) for program in (*PROGRAMS, *OPTIONAL))
    if first and not there and shutil.which("apt-get"):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        install = ("install", "-y", "-qq", "--no-install-recommends")
        for words in (
            ("update", "-qq"),
            (*install, *PACKAGES),
            *((*install, one) for one in OPTIONAL.values()),
        ):
            subprocess.run(["apt-get", *words], env=environment, capture_output=True, check=False)
    absent = [program for program in PROGRAMS if not shutil.which(program)]
    if absent:
        return f"{', '.join(absent)} cannot be installed"
    name = f"dlp-probe-{os.getpid()}"
    probe = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if probe.returncode:
        return f"network namespaces cannot be made: {probe.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", name], check=False)
    return None


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Node:
    """One node: its namespaces are held by a process that does nothing."""

    def __init__(self, cluster: Cluster, index: int) -> None:
        self.name, self.index, self._cluster = NAMES[index], index, cluster
        self.address = f"{cluster.network}.{index + 1}"
        self._space, self._link = _names(cluster.number, index)
        space, link = self._space, self._link
        _ip("netns", "add", space)
        _ip("-n", space, "link", "set", "lo", "up")
        _ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", space)
        _ip("link", "set", link, "master", cluster.bridge, "up")
        _ip("-n", space, "addr", "add", f"{self.address}/24", "dev", "eth0")
        _ip("-n", space, "link", "set", "eth0", "up")
        self._holder = subprocess.Popen(
            [
                *("nsenter", f"--net=/run/netns/{space}", "unshare", "-u", "-m", "--propagation", "private"),
                *("sh", "-c", _NODE, "node", self.name, str(cluster.home / "hosts")),
                *(str(CHECKOUT), str(cluster.home / "checkout")),
            ],
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"ready\n"

    @property
    def enter(self) -> list[str]:
        """What runs a command on this node."""
        return ["nsenter", "-t", str(self._holder.pid), "-n", "-u", "-m"]

    def start(self, *command: str) -> subprocess.Popen:
        return subprocess.Popen(
            [*self.enter, *command],
            env={**os.environ, "SLURM_CONF": str(self._cluster.conf)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def run(self, *command: str) -> str:
        return subprocess.run([*self.enter, *command], capture_output=True, text=True, check=False).stdout

    def cut(self) -> None:
        """Take its link down."""
        _ip("link", "set", self._link, "down")

    def mend(self) -> None:
        _ip("link", "set", self._link, "up")

    def processes(self, marker: str) -> list[int]:
        """The living processes in its network namespace whose command line holds a text."""
        mine = Path(f"/proc/{self._holder.pid}/ns/net").readlink()
        actual = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and (entry / "ns/net").readlink() == mine:
                    line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    if marker in line and (entry / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                        actual.append(int(entry.name))
        return actual

    def close(self) -> None:
        self._holder.kill()
        self._holder.wait()
        if self._holder.stdout:
            self._holder.stdout.close()
        subprocess.run(["ip", "netns", "del", self._space], capture_output=True, check=False)


class Cluster:
    """Four nodes. `environment` holds what its users need in theirs."""

    def __init__(self, number: int) -> None:
        self.number, self.network, self.bridge = number, f"10.77.{number}", f"dlpbr{number}"
        self._remove_leftovers()
        self.home = Path(tempfile.mkdtemp(prefix="dlp-cluster-", dir="/var/tmp"))
        self.conf = self.home / "slurm.conf"
        for name in ("state", "run", "log", "checkout", *(f"spool/{node}" for node in NAMES)):
            (self.home / name).mkdir(parents=True)
        host = socket.gethostname().partition(".")[0]
        self.conf.write_text(
            _CONF.format(
                host=host,
                network=self.network,
                home=self.home,
                number=number,
                port=CONTROLLER_PORT + 10 * number,
            )
        )
        hosts = [f"{self.network}.{index + 1} {name}" for index, name in enumerate(NAMES)]
        (self.home / "hosts").write_text(
            "\n".join(["127.0.0.1 localhost", f"{self.network}.254 {host}", *hosts, ""])
        )
        _ip("link", "add", self.bridge, "type", "bridge")
        _ip("addr", "add", f"{self.network}.254/24", "dev", self.bridge)
        _ip("link", "set", self.bridge, "up")
        self.environment = {"SLURM_CONF": str(self.conf)}
        self.nodes: list[Node] = []
        self._daemons: list[subprocess.Popen] = []

    def start(self) -> None:
        """Nodes, sshd and Slurm; `close` ends what of them has started."""
        for index in range(len(NAMES)):
            self.nodes.append(Node(self, index))
        self._ssh()
        self._mpi()
        self.start_slurm()

    def start_slurm(self) -> None:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        environment = {**os.environ, **self.environment}
        self._daemons.append(subprocess.Popen(["slurmctld", "-D"], env=environment, **quiet))
        self._daemons += [node.start("slurmd", "-D", "-N", node.name) for node in self.nodes]
        self.wait_idle(30)

    def wait_idle(self, seconds: float) -> None:
        """Until all nodes can take a job."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self._sinfo("-h", "-o", "%t %D").split() == ["idle", "4"]:
                return
            time.sleep(0.2)
        raise AssertionError(f"Slurm's nodes are not idle:\n{self._sinfo('-N', '-o', '%N %t %H %E')}")

    def _sinfo(self, *flags: str) -> str:
        return subprocess.run(
            ["sinfo", *flags],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=False,
        ).stdout

    def _ssh(self) -> None:
        folder = self.home / "ssh"
        folder.mkdir(mode=0o700)
        for name in ("host", "user"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(command, check=True)
        shutil.copy(folder / "user.pub", folder / "authorized")
        (folder / "sshd_config").write_text(
            f"HostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized\nPidFile none\nUsePAM no\n"
            "StrictModes no\nPasswordAuthentication no\nPermitRootLogin yes\n"
        )
        lines = [
            f"IdentityFile {folder}/user",
            "StrictHostKeyChecking no",
            "UserKnownHostsFile /dev/null",
            "LogLevel ERROR",
        ]
        for node in self.nodes:
            lines += [f"Host {node.name} {node.address}", f"HostName {node.address}"]
        self.ssh_config = folder / "config"
        self.ssh_config.write_text("\n".join(lines) + "\n")
        Path("/run/sshd").mkdir(exist_ok=True)
        sshd = shutil.which("sshd")
        self._daemons += [node.start(sshd, "-D", "-f", str(folder / "sshd_config")) for node in self.nodes]

    def _mpi(self) -> None:
        """What mpirun calls in place of ssh: it enters the node's namespaces."""
        cases = "\n".join(f'{node.name}) exec {" ".join(node.enter)} sh -c "$*";;' for node in self.nodes)
        agent = self.home / "mpi-agent"
        agent.write_text(f'#!/bin/sh\nhost=$1; shift\ncase "$host" in\n{cases}\nesac\nexit 1\n')
        agent.chmod(0o700)
        self.environment |= {
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_plm_rsh_agent": str(agent),
            "OMPI_MCA_oob_tcp_if_include": f"{self.network}.0/24",
        }

    def options(self, launcher: str) -> dict[str, str]:
        """What a launcher needs to be told here."""
        nodes = ",".join(node.name for node in self.nodes)
        return {
            "ssh": {"hosts": nodes, "launcher_flags": f"-F {self.ssh_config}"},
            "mpi": {"hosts": nodes},
        }.get(launcher, {})

    def close(self) -> None:
        for daemon in reversed(self._daemons):
            daemon.send_signal(signal.SIGTERM)
        for daemon in self._daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        for node in self.nodes:
            for pid in node.processes(""):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            node.close()
        self._remove_leftovers()
        shutil.rmtree(self.home, ignore_errors=True)

    def _remove_leftovers(self) -> None:
        """Of a test run that was killed."""
        subprocess.run(["ip", "link", "del", self.bridge], capture_output=True, check=False)
        for index in range(len(NAMES)):
            space, link = _names(self.number, index)
            # A namespace goes with its last process, and its end of the link with it: that may take a while.
            subprocess.run(["ip", "link", "del", link], capture_output=True, check=False)
            subprocess.run(["ip", "netns", "del", space], capture_output=True, check=False)


def _names(number: int, index: int) -> tuple[str, str]:
    """A node's network namespace, and this machine's end of its link."""
    return f"dlp{number}-{NAMES[index]}", f"dlpv{number}-{index + 1}"
