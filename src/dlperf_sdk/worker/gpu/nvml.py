"""NVIDIA's management library through ctypes: the few calls that choosing and sampling GPUs need.

Signatures and structures follow `nvml.h` of the CUDA toolkit, whose versioned symbols (`…_v2`, `…_v3`) are stable. A
value that the driver does not support on a device is None.
"""

import ctypes
from ctypes import byref, c_char, c_char_p, c_int, c_uint, c_ulonglong, c_void_p
from typing import Any, List, NamedTuple, Optional, Tuple

LIBRARY = "libnvidia-ml.so.1"

_SUCCESS = 0
_INSUFFICIENT_SIZE = 7
_NOT_AVAILABLE = 2**64 - 1
_CLOCK_SM = 1
_SENSOR_GPU = 0
_TEXT = 96
"""No text that is read here is longer (NVML_DEVICE_UUID_V2_BUFFER_SIZE, NVML_DEVICE_NAME_V2_BUFFER_SIZE)."""

POWER_CAP = 0x04
"""Bit of the throttle reasons: the software power cap, usual under full load."""
SLOWDOWNS = 0x08 | 0x20 | 0x40 | 0x80
"""Bits of the throttle reasons: hardware slowdown, software and hardware thermal slowdown, power brake."""


class _Memory(ctypes.Structure):
    _fields_ = [("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong)]


class _MemoryV2(ctypes.Structure):
    _fields_ = [
        ("version", c_uint),
        ("total", c_ulonglong),
        ("reserved", c_ulonglong),
        ("free", c_ulonglong),
        ("used", c_ulonglong),
    ]


class _Utilization(ctypes.Structure):
    _fields_ = [("gpu", c_uint), ("memory", c_uint)]


class _Pci(ctypes.Structure):
    _fields_ = [
        ("bus_id_legacy", c_char * 16),
        ("domain", c_uint),
        ("bus", c_uint),
        ("device", c_uint),
        ("pci_device_id", c_uint),
        ("pci_subsystem_id", c_uint),
        ("bus_id", c_char * 32),
    ]


class _Process(ctypes.Structure):
    _fields_ = [
        ("pid", c_uint),
        ("used", c_ulonglong),
        ("gpu_instance", c_uint),
        ("compute_instance", c_uint),
    ]


class Memory(NamedTuple):
    """Device memory in bytes."""

    total: int
    used: int
    """Memory in use, without what the driver reserves for itself if the driver reports that separately."""


class Nvml:
    """The opened and initialized library. Create it with `Nvml.open()`."""

    def __init__(self, library: Any) -> None:
        self._library = library

    @classmethod
    def open(cls, path: str = LIBRARY) -> "Optional[Nvml]":
        """Load and initialize the library, and return it; return None if that fails, as without a driver.

        Args:
            path: The name or path of NVML's shared library.
        """
        try:
            library = ctypes.CDLL(path)
        except OSError:
            return None
        opened = cls(library)
        return opened if opened._call("nvmlInit_v2", []) == _SUCCESS else None

    def close(self) -> None:
        """Shut the library down; no other method may be called afterwards."""
        self._call("nvmlShutdown", [])

    def driver_version(self) -> Optional[str]:
        """Return the driver's version, such as `550.54.15`; None if it cannot be read."""
        return self._text("nvmlSystemGetDriverVersion", [], [])

    def devices(self) -> List[Any]:
        """Return NVML's handles of all GPUs that the driver shows to this process, in the order of PCI addresses.

        `CUDA_VISIBLE_DEVICES` has no effect here. MIG instances are not listed, only their GPUs. GPUs that the driver
        cannot open are left out. The list is empty if there are none, or if their number cannot be read.
        """
        count = c_uint(0)
        if self._call("nvmlDeviceGetCount_v2", [c_void_p], byref(count)) != _SUCCESS:
            return []
        handles = []
        for index in range(count.value):
            handle = c_void_p()
            if (
                self._call("nvmlDeviceGetHandleByIndex_v2", [c_uint, c_void_p], index, byref(handle))
                == _SUCCESS
            ):
                handles.append(handle)
        return handles

    def device(self, uuid: str) -> Optional[Any]:
        """Return NVML's handle of the GPU or MIG instance whose UUID is `uuid`; None if there is none."""
        handle = c_void_p()
        code = self._call("nvmlDeviceGetHandleByUUID", [c_char_p, c_void_p], uuid.encode(), byref(handle))
        return handle if code == _SUCCESS else None

    def uuid(self, device: Any) -> Optional[str]:
        """Return the device's UUID, such as `GPU-…`; None if it cannot be read.

        `device` is NVML's handle of a GPU.
        """
        return self._text("nvmlDeviceGetUUID", [c_void_p], [device])

    def name(self, device: Any) -> Optional[str]:
        """Return the device's product name; None if it cannot be read.

        `device` is NVML's handle of a GPU.
        """
        return self._text("nvmlDeviceGetName", [c_void_p], [device])

    def pci_bus_id(self, device: Any) -> Optional[str]:
        """Return the device's PCI address as sysfs writes it, such as `0000:3b:00.0`; None if it cannot be read.

        `device` is NVML's handle of a GPU.
        """
        pci = self._read("nvmlDeviceGetPciInfo_v3", _Pci, device)
        if pci is None:
            return None
        return "%04x:%02x:%02x.0" % (pci.domain, pci.bus, pci.device)

    def memory(self, device: Any) -> Optional[Memory]:
        """Return the device's total and used memory in bytes; None if they cannot be read.

        `device` is NVML's handle of a GPU.
        """
        newer = _MemoryV2()
        newer.version = ctypes.sizeof(_MemoryV2) | 2 << 24
        if self._call("nvmlDeviceGetMemoryInfo_v2", [c_void_p, c_void_p], device, byref(newer)) == _SUCCESS:
            return Memory(newer.total, newer.used)
        older = self._read("nvmlDeviceGetMemoryInfo", _Memory, device)
        return None if older is None else Memory(older.total, older.used)

    def energy(self, device: Any) -> Optional[float]:
        """Return the joules that the device has used since the driver was loaded; None if they cannot be read.

        GPUs before Volta do not report it. `device` is NVML's handle of a GPU.
        """
        millijoules = self._read("nvmlDeviceGetTotalEnergyConsumption", c_ulonglong, device)
        return None if millijoules is None else millijoules.value / 1000.0

    def power(self, device: Any) -> Optional[float]:
        """Return the power that the device draws, in watts; None if it cannot be read.

        On Ampere and later GPUs, except the GA100, it is the mean over the last second. `device` is NVML's handle of a
        GPU.
        """
        milliwatts = self._read("nvmlDeviceGetPowerUsage", c_uint, device)
        return None if milliwatts is None else milliwatts.value / 1000.0

    def utilization(self, device: Any) -> Optional[float]:
        """Return the percentage of the last sample period in which a kernel ran; None if it cannot be read.

        `device` is NVML's handle of a GPU.
        """
        rates = self._read("nvmlDeviceGetUtilizationRates", _Utilization, device)
        return None if rates is None else float(rates.gpu)

    def clock(self, device: Any) -> Optional[float]:
        """Return the streaming multiprocessors' clock in MHz; None if it cannot be read.

        `device` is NVML's handle of a GPU.
        """
        return self._read_kind("nvmlDeviceGetClockInfo", device, _CLOCK_SM)

    def temperature(self, device: Any) -> Optional[float]:
        """Return the device's temperature in degrees Celsius; None if it cannot be read.

        `device` is NVML's handle of a GPU.
        """
        return self._read_kind("nvmlDeviceGetTemperature", device, _SENSOR_GPU)

    def throttle_reasons(self, device: Any) -> Optional[int]:
        """Return the bit mask of the reasons why clocks are lowered now; None if it cannot be read.

        The constants `POWER_CAP` and `SLOWDOWNS` of this module select bits of it. `device` is NVML's handle of a GPU.
        """
        reasons = self._read("nvmlDeviceGetCurrentClocksThrottleReasons", c_ulonglong, device)
        return None if reasons is None else reasons.value

    def processes(self, device: Any) -> Optional[List[Tuple[int, Optional[int]]]]:
        """Return the processes that compute on a device, and the device memory that each of them uses.

        `device` is NVML's handle of a GPU.

        Returns:
            A list with a pair (process id, bytes in use) per process, in the driver's order. The bytes are None if the
            driver does not report them. The result is None if the list cannot be read.
        """
        name, types = "nvmlDeviceGetComputeRunningProcesses_v3", [c_void_p, c_void_p, c_void_p]
        room = 32
        # Processes may start between two calls; after four doublings the buffer exceeds what a device can run.
        for _ in range(5):
            count, buffer = c_uint(room), (_Process * room)()
            code = self._call(name, types, device, byref(count), buffer)
            if code == _SUCCESS:
                return [(p.pid, None if p.used == _NOT_AVAILABLE else p.used) for p in buffer[: count.value]]
            if code != _INSUFFICIENT_SIZE:
                return None
            room = max(2 * room, count.value + 8)
        return None

    def _call(self, name: str, types: List[Any], *arguments: Any) -> Optional[int]:
        """Return the call's return code; None if this driver has no such call."""
        try:
            function = getattr(self._library, name)
        except AttributeError:
            return None
        function.argtypes, function.restype = types, c_int
        code: int = function(*arguments)
        return code

    def _read(self, name: str, kind: Any, device: Any) -> Optional[Any]:
        value = kind()
        return value if self._call(name, [c_void_p, c_void_p], device, byref(value)) == _SUCCESS else None

    def _read_kind(self, name: str, device: Any, kind: int) -> Optional[float]:
        value = c_uint(0)
        code = self._call(name, [c_void_p, c_int, c_void_p], device, kind, byref(value))
        return float(value.value) if code == _SUCCESS else None

    def _text(self, name: str, types: List[Any], arguments: List[Any]) -> Optional[str]:
        buffer = ctypes.create_string_buffer(_TEXT)
        code = self._call(name, types + [c_char_p, c_uint], *(arguments + [buffer, _TEXT]))
        return buffer.value.decode("utf-8", "replace") if code == _SUCCESS else None
