"""A spec from a file is data: what it says is measured, and nothing that it says reaches beyond its directory.

People pass such files on, so whoever runs one need not have read it. Its fields may therefore name no program, no
variable but those that are known to load none, and no folder outside the file's own directory. On the command line
and in Python all of these can be given, by whoever runs it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dlperf_sdk.documents.json_values import shown
from dlperf_sdk.documents.reading import load_document
from dlperf_sdk.errors import DocumentError, SpecError

TUNING = re.compile(
    "|".join(
        (
            r"OMP_(NUM_THREADS|DYNAMIC|SCHEDULE|PROC_BIND|PLACES|WAIT_POLICY|STACKSIZE|THREAD_LIMIT|MAX_ACTIVE_LEVELS)",
            r"OMP_DISPLAY_(ENV|AFFINITY)|GOMP_(CPU_AFFINITY|SPINCOUNT|STACKSIZE)",
            r"KMP_(AFFINITY|BLOCKTIME|HW_SUBSET|LIBRARY|SETTINGS|STACKSIZE|TEAMS_THREAD_LIMIT)",
            r"(MKL|OPENBLAS|BLIS|NUMEXPR|VECLIB)_(NUM|MAXIMUM|MAX)_THREADS|MKL_DOMAIN_NUM_THREADS",
            r"MKL_(DYNAMIC|CBWR|ENABLE_INSTRUCTIONS|VERBOSE)|MALLOC_(ARENA_MAX|(TRIM|MMAP)_THRESHOLD_)",
            r"(ONEDNN|DNNL)_(VERBOSE|MAX_CPU_ISA|CPU_ISA_HINTS|DEFAULT_FPMATH_MODE|PRIMITIVE_CACHE_CAPACITY)",
            r"CUDA_(VISIBLE_DEVICES|DEVICE_ORDER|DEVICE_MAX_CONNECTIONS|LAUNCH_BLOCKING|MODULE_LOADING)",
            r"(HIP|ROCR)_VISIBLE_DEVICES|NVIDIA_TF32_OVERRIDE|CUBLAS_WORKSPACE_CONFIG|PYTORCH_(CUDA_)?ALLOC_CONF",
            r"NCCL_(DEBUG|DEBUG_SUBSYS|ALGO|PROTO|NTHREADS|BUFFSIZE|LAUNCH_MODE|NVLS_ENABLE|CROSS_NIC|CUMEM_ENABLE)",
            r"NCCL_(MIN|MAX)_(NCHANNELS|CTAS)|NCCL_NET_(GDR_LEVEL|GDR_READ|DISABLE_INTRA)|NCCL_SHM_DISABLE",
            r"NCCL_(IB_(DISABLE|HCA|GID_INDEX|TC|SL|TIMEOUT|RETRY_CNT|QPS_PER_CONNECTION|CUDA_SUPPORT))",
            r"NCCL_(P2P_(DISABLE|LEVEL|NET_CHUNKSIZE)|SOCKET_(IFNAME|FAMILY|NTHREADS)|NSOCKS_PERTHREAD)",
            r"(GLOO|TP)_SOCKET_IFNAME|UCX_(TLS|NET_DEVICES|LOG_LEVEL)|GRPC_(VERBOSITY|TRACE)|GLOG_(v|minloglevel)",
            r"TORCH_(CPP_LOG_LEVEL|DISTRIBUTED_DEBUG)|TORCH_NCCL_(AVOID_RECORD_STREAMS|HIGH_PRIORITY|BLOCKING_WAIT)",
            r"TF_(CPP_MIN_LOG_LEVEL|CPP_MAX_VLOG_LEVEL|ENABLE_ONEDNN_OPTS|NUM_INTEROP_THREADS|NUM_INTRAOP_THREADS)",
            r"TF_(GPU_THREAD_(MODE|COUNT)|GPU_ALLOCATOR|FORCE_GPU_ALLOW_GROWTH|CUDNN_USE_AUTOTUNE|DETERMINISTIC_OPS)",
            r"MXNET_(ENGINE_TYPE|[CG]PU_WORKER_NTHREADS|CUDNN_AUTOTUNE_DEFAULT|EXEC_BULK_EXEC_TRAIN)",
            r"MXNET_(GPU_MEM_POOL_(TYPE|RESERVE)|KVSTORE_(USETREE|BIGARRAY_BOUND|REDUCTION_NTHREADS))",
            r"ONEFLOW_ENABLE_NHWC|FLAGS_(allocator_strategy|fraction_of_gpu_memory_to_use|cudnn_exhaustive_search)",
            r"FLAGS_(conv_workspace_size_limit|cudnn_deterministic|cudnn_batchnorm_spatial_persistent)",
        )
    )
)
"""Variables that tune threads, memory, logging and transport. None names a program, a library or a file; what runs a
compiler (CXX), or loads a plugin or a kernel from a folder, is not among them, and nobody could list all of those."""

EXECUTED = re.compile(r"\w+_flags|agent_python|hostfile")
"""Options of engines that name programs, hand arguments to those that can run others, or read a file."""

_MOST = 5
"""Things that a refusal tells of; the rest are counted."""


def load_spec(path: Path, instead: Collection[str] = ()) -> dict[str, Any]:
    """The fields of a spec file, without those that are given `instead`; a relative folder belongs to the file's own.

    Raises:
        DocumentError: the file cannot be read or parsed, or breaks the schema: each mistake has a line of the message,
            which begins with FILE:LINE.
        SpecError: a field reaches beyond the file's directory, or names what is executed.
    """
    from dlperf_sdk.documents import diagnostics, schema, source_positions

    document = {name: value for name, value in load_document(path).items() if name not in instead}
    places = source_positions.lines_of(path.read_text(encoding="utf-8-sig"), path.suffix.lower())
    found = diagnostics.in_file(
        path, "run-spec", {"schema_version": schema.version("run-spec"), **document}, places
    )
    if found:
        raise DocumentError(diagnostics.told(found))
    return confined(document, path)


def confined(
    document: Mapping[str, Any], path: Path, elsewhere: str = "give {flag} where it is wanted"
) -> dict[str, Any]:
    """The fields of a run spec that stands in the file `path`, its data folder as an absolute path.

    `elsewhere` is the advice about what it may not say.

    Raises:
        SpecError: a field reaches beyond the file's directory, or names what is executed.
    """
    refused = next(_executed(document), None)
    if refused is not None:
        raise SpecError(
            f"{path} {refused.said}; a file may not say which program is run, or what it loads. Take `{refused.name}` "
            f"out of it, and {elsewhere.format(flag=refused.flag)}."
        )
    found = dict(document)
    if isinstance(found.get("data"), str):
        found["data"] = _inside(found["data"], path)
    return found


def allowed(cases: Iterable[Mapping[str, Any]], whose: str, allow: Collection[str]) -> None:
    """Hold the run specs of a result or a campaign that lies on the disk, `whose`, to what a file may say.

    Such a document may be somebody else's as well; but whoever gave a program on the command line has it there, and
    repeats its name in `allow`. A folder of data is taken as it is: it is read, and what is made of it stays here. A
    `lock` beside the fields is a list of distributions that would be installed.

    Raises:
        SpecError: they name what is executed, and it is not among `allow`.
    """
    refused = {each.said: each.name for case in cases for each in _executed(case) if each.name not in allow}
    if refused:
        said = "; ".join([*refused][:_MOST])
        said += f"; and {len(refused) - _MOST:,} more" if len(refused) > _MOST else ""
        names = dict.fromkeys(refused.values())
        raise SpecError(
            f"{whose} {said}. That decides which program is run here, or what it loads, and comes from a file that may "
            f"be somebody else's. If you gave it yourself, or know it, repeat the command with "
            f"{' '.join(f'--allow {name}' for name in names)} (in Python: allow={[*names]})."
        )


class _Executed(NamedTuple):
    """What decides which program is run, or what code it loads."""

    name: str
    said: str
    """A verb, what it is, and its value."""
    flag: str


def _executed(document: Mapping[str, Any]) -> Iterator[_Executed]:
    """All that a file may not say of what is executed."""
    if document.get("python") is not None:
        said = f"names the interpreter {shown(document['python'])}"
        yield _Executed("python", said, "--python PATH (in Python: python=PATH)")
    for name in ("container", "container_mounts", "container_devices"):
        if document.get(name) is not None:
            said = f"names the {name} {shown(document[name])}"
            yield _Executed(name, said, f"--{name.replace('_', '-')}")
    variables = document.get("env")
    for name in variables if isinstance(variables, Mapping) else ():  # their values may be secrets
        if isinstance(name, str) and not TUNING.fullmatch(name):
            said = (
                f"sets the variable {name}, which is not known to tune threads, memory, logging or transport and no "
                "more"
            )
            yield _Executed(name, said, f"--env {name}=VALUE")
    if document.get("lock"):
        pins = ", ".join(document["lock"][:_MOST]) + (", …" if len(document["lock"]) > _MOST else "")
        yield _Executed("lock", f"has {shown(pins)} installed, which the plugin's own environment lacks", "")
    options = document.get("options")
    for name, value in options.items() if isinstance(options, Mapping) else ():
        if isinstance(name, str) and EXECUTED.fullmatch(name):
            said = f"sets the option {name} to {shown(value)}, which decides what an engine executes or reads"
            yield _Executed(name, said, f"--set {name}=VALUE")


def _inside(data: str, path: Path) -> str:
    """`SOURCE:FOLDER` with the folder resolved against the file's directory; `SOURCE` as it is."""
    source, colon, folder = data.partition(":")
    if not colon or not folder or "\0" in folder:
        return data  # the field's own check says what is wrong with it
    home = path.resolve().parent
    there = (home / folder).resolve()
    if not there.is_relative_to(home):
        raise SpecError(
            f"{path} takes its data from {shown(folder)}, which is outside its own directory; a file may only name "
            f"what lies beside or below it. Move the folder there, or give --data {source}:FOLDER."
        )
    return f"{source}:{there}"
