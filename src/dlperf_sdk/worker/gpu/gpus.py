"""This node's NVIDIA GPUs: the list of them, the processes that hold them, and the choice for an attempt."""

import os
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from dlperf_sdk.worker.gpu.nvml import LIBRARY, Nvml

_HIDDEN_MEMORY = 512 * 2**20
"""Bytes in use without any visible process, above which a process outside this container holds the GPU."""


class Gpu(NamedTuple):
    """One GPU. Values that the driver does not report are None."""

    number: int
    """Its index in the order of PCI addresses."""
    uuid: str
    name: Optional[str]
    memory: Optional[int]
    """Total memory in bytes."""
    driver: Optional[str]
    pci: Optional[str]
    numa: Optional[int]
    """The NUMA node of its slot."""


class Holder(NamedTuple):
    """A process that uses memory of a GPU."""

    pid: int
    """The process id; 0 if the process is not visible in this container."""
    name: str
    """The process's name, or a description if it cannot be read."""
    bytes: Optional[int]
    """Bytes of the GPU's memory that it uses; None if the driver does not report them."""


class Choice(NamedTuple):
    """The GPUs that were chosen, or the reason why there are too few."""

    uuids: Tuple[str, ...]
    """As many as were requested, or none."""
    busy: bool
    """True if other processes hold GPUs that were chosen or would be needed: waiting may help."""
    message: str
    """Sentences that name the processes that hold GPUs, or the number of missing GPUs; empty if idle GPUs sufficed."""


def list_gpus(library: str = LIBRARY, root: str = "/sys") -> List[Gpu]:
    """List all GPUs that the driver shows to this process, in the order of their PCI addresses.

    GPUs whose UUID cannot be read are left out. `CUDA_VISIBLE_DEVICES` has no effect.

    Args:
        library: The name or path of NVML, NVIDIA's management library.
        root: Where sysfs is mounted.

    Returns:
        The GPUs; empty without a driver.
    """
    nvml = Nvml.open(library)
    if nvml is None:
        return []
    try:
        driver, gpus = nvml.driver_version(), []
        for number, device in enumerate(nvml.devices()):
            uuid, memory, pci = nvml.uuid(device), nvml.memory(device), nvml.pci_bus_id(device)
            if uuid is not None:
                total = None if memory is None else memory.total
                gpus.append(Gpu(number, uuid, nvml.name(device), total, driver, pci, _numa(root, pci)))
        return gpus
    finally:
        nvml.close()


def holders(uuid: str, library: str = LIBRARY, proc: str = "/proc") -> List[Holder]:
    """Return the processes that compute on a GPU.

    If no process is visible but more than 512 MiB are in use, there is one holder with process id 0: in a container,
    the driver hides the processes of other containers, but not their memory.

    Args:
        uuid: The GPU's UUID.
        library: The name or path of NVML, NVIDIA's management library.
        proc: Where procfs is mounted.

    Returns:
        The processes; empty if there are none, without a driver, or if the GPU is unknown.
    """
    nvml = Nvml.open(library)
    if nvml is None:
        return []
    try:
        device = nvml.device(uuid)
        if device is None:
            return []
        processes = [
            Holder(pid, _process_name(proc, pid), used) for pid, used in nvml.processes(device) or []
        ]
        memory = nvml.memory(device)
        if not processes and memory is not None and memory.used > _HIDDEN_MEMORY:
            processes.append(Holder(0, "a process that is not visible from here", memory.used))
        return processes
    finally:
        nvml.close()


def visible(gpus: Sequence[Gpu], variable: Optional[str]) -> List[Gpu]:
    """Return the GPUs that the variable `CUDA_VISIBLE_DEVICES` selects, in the order of its entries.

    An entry is a GPU's number in the order of PCI addresses, or the beginning of its UUID. An entry is invalid if it
    fits no GPU, several GPUs, or a GPU that was named before; it and all entries after it are ignored. CUDA reads the
    variable in the same way if `CUDA_DEVICE_ORDER` is `PCI_BUS_ID` or all GPUs are of the same model.

    Args:
        gpus: All GPUs, as `list_gpus` returns them.
        variable: The variable's value; None if it is not set, which selects all GPUs. An empty value selects none.
    """
    if variable is None:
        return list(gpus)
    chosen: List[Gpu] = []
    for entry in map(str.strip, variable.split(",")):
        if re.match("[0-9]+$", entry):
            fitting = [gpu for gpu in gpus if gpu.number == int(entry)]
        else:
            fitting = [gpu for gpu in gpus if entry.startswith("GPU-") and gpu.uuid.startswith(entry)]
        if len(fitting) != 1 or fitting[0] in chosen:
            break
        chosen.append(fitting[0])
    return chosen


def choose(
    count: int,
    gpus: Sequence[Gpu],
    holders: Mapping[str, Sequence[Holder]],
    on_busy: str,
    variable: Optional[str] = None,
) -> Choice:
    """Choose `count` GPUs, idle ones first. The function has no side effects.

    Args:
        count: Number of GPUs.
        gpus: All GPUs, as `list_gpus` returns them.
        holders: UUID of each busy GPU → the processes that use its memory.
        on_busy: What to do if there are too few idle GPUs. `note` adds the busy GPUs whose holders use the least
            memory; `wait` and `refuse` choose no GPU.
        variable: The value of `CUDA_VISIBLE_DEVICES`; None if it is not set.

    Returns:
        The choice. Its `uuids` are in the order of `variable`, or of `gpus` without it; there are none if the node has
        too few GPUs, or too few idle ones under `wait` and `refuse`. Its `message` is empty if idle GPUs sufficed;
        otherwise it has sentences about the missing GPUs, about the processes that hold busy GPUs, or both.
    """
    candidates = visible(gpus, variable)
    if len(candidates) < count:
        source = "this node has" if variable is None else "CUDA_VISIBLE_DEVICES=%s leaves" % variable
        message = "%d GPU%s asked for, but %s %d." % (count, _s(count), source, len(candidates))
        return Choice((), False, message)
    idle = [gpu for gpu in candidates if not holders.get(gpu.uuid)]
    busy = [gpu for gpu in candidates if holders.get(gpu.uuid)]
    if len(idle) >= count:
        return Choice(tuple(gpu.uuid for gpu in idle[:count]), False, "")
    sentences = " ".join(_sentence(gpu, holders[gpu.uuid]) for gpu in busy)
    if on_busy == "note":
        # A holder of unknown memory may use all of it, so its GPU comes last.
        busy.sort(key=lambda gpu: sum(2**63 if h.bytes is None else h.bytes for h in holders[gpu.uuid]))
        chosen = sorted((idle + busy)[:count], key=candidates.index)
        return Choice(tuple(gpu.uuid for gpu in chosen), True, sentences)
    shortage = "%d GPU%s asked for, %d idle. %s" % (count, _s(count), len(idle), sentences)
    return Choice((), True, shortage)


def describe(gpu: Gpu) -> Dict[str, Any]:
    """Return the properties of a GPU that are not None, as a dict of JSON values by the name of the field of `Gpu`."""
    return {name: value for name, value in gpu._asdict().items() if value is not None}


def survey(count: int, on_busy: str, library: str = LIBRARY) -> Choice:
    """Choose `count` of this machine's GPUs among those in `CUDA_VISIBLE_DEVICES`, idle ones first.

    A GPU is idle if no process uses it now (`holders`). Without the variable, all GPUs are candidates.

    Args:
        count: Number of GPUs.
        on_busy: What to do if there are too few idle GPUs: `note` adds busy ones; `wait` and `refuse` choose none. This
            function does not wait.
        library: The name or path of NVML, NVIDIA's management library.

    Returns:
        The choice: the UUIDs of the GPUs, and sentences about busy ones. It has no UUIDs if there are too few GPUs, as
        without a driver, or too few idle ones under `wait` and `refuse`.
    """
    gpus = list_gpus(library)
    by_gpu = {gpu.uuid: holders(gpu.uuid, library) for gpu in gpus}
    return choose(count, gpus, by_gpu, on_busy, os.environ.get("CUDA_VISIBLE_DEVICES"))


def _sentence(gpu: Gpu, processes: Sequence[Holder]) -> str:
    names = []
    for holder in processes:
        process = "process %d (%s)" % (holder.pid, holder.name) if holder.pid else holder.name
        size = "" if holder.bytes is None else " with %.1f GiB" % (holder.bytes / 2.0**30)
        names.append(process + size)
    return "GPU %d (%s, %s) is held by %s." % (gpu.number, gpu.name or "unnamed", gpu.uuid, ", ".join(names))


def _s(count: int) -> str:
    return " is" if count == 1 else "s are"


def _process_name(proc: str, pid: int) -> str:
    try:
        with open(os.path.join(proc, str(pid), "comm"), encoding="utf-8", errors="replace") as file:
            return file.read().strip() or "unnamed"
    except OSError:
        return "of another user or container"


def _numa(root: str, pci: Optional[str]) -> Optional[int]:
    if pci is None:
        return None
    try:
        with open(os.path.join(root, "bus/pci/devices", pci, "numa_node"), encoding="ascii") as file:
            node = int(file.read())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None  # -1: the platform has no nodes
