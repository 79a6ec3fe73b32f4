"""Reject settings of a document that would decide which program is run here, or which file is read.

Users share spec files, campaign files, results and campaign directories, and may run one without having read it. A
field or option that names a program, its flags or a file declares this in its metadata
(`dlperf_sdk.spec.fields`): plugins for their options, `RunSpec` for its fields. Such a setting is taken from the
command line and from Python, and from a document only if `--allow` names it. The checks are made on cases, after
everything is merged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import attrs
from attrs import frozen

from dlperf_sdk.documents.json_values import format_value
from dlperf_sdk.documents.reading import load_document
from dlperf_sdk.errors import DocumentError, PluginError, SpecError, UnknownName
from dlperf_sdk.folders import follow_links
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.spec.fields import has_effect
from dlperf_sdk.spec.run_spec import SPEC_VERSION, RunSpec
from dlperf_sdk.spec.values import TopologySpec

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
            r"(HIP|ROCR)_VISIBLE_DEVICES|NVIDIA_TF32_OVERRIDE|CUBLAS_WORKSPACE_CONFIG",
            r"NCCL_(DEBUG|DEBUG_SUBSYS|ALGO|PROTO|NTHREADS|BUFFSIZE|LAUNCH_MODE|NVLS_ENABLE|CROSS_NIC|CUMEM_ENABLE)",
            r"NCCL_(MIN|MAX)_(NCHANNELS|CTAS)|NCCL_NET_(GDR_LEVEL|GDR_READ|DISABLE_INTRA)|NCCL_SHM_DISABLE",
            r"NCCL_(IB_(DISABLE|HCA|GID_INDEX|TC|SL|TIMEOUT|RETRY_CNT|QPS_PER_CONNECTION|CUDA_SUPPORT))",
            r"NCCL_(P2P_(DISABLE|LEVEL|NET_CHUNKSIZE)|SOCKET_(IFNAME|FAMILY|NTHREADS)|NSOCKS_PERTHREAD)",
            r"GLOO_SOCKET_IFNAME|UCX_(TLS|NET_DEVICES|LOG_LEVEL)|GRPC_(VERBOSITY|TRACE)|GLOG_(v|minloglevel)",
        )
    )
)
"""Variables of libraries that several frameworks use, which only tune threads, memory, logging and transport. A
framework's own variables are in `Framework.tuning_variables`. None names a program, a library or a file.
Variables that run a compiler (CXX), or load a plugin or a kernel from a folder, are left out, and no list of
those could be complete."""

_SUSPECT = re.compile(r"(\w+_)?(flags|file|python|command)|hostfile")
"""Names of options that are restricted even without metadata: their plugin may not be installed, or may lack the
metadata."""

_MAX_LISTED = 5
"""Settings that a refusal lists; the rest are counted."""

NOT_FROM_A_FILE = "A file may not decide which program is run, what it loads, or which other file is read."


@frozen
class Declarations:
    """A plugin's declarations about the settings of a case."""

    options: Mapping[str, Mapping[str, Any]]
    """Option → its attrs metadata."""
    tuning_variables: frozenset[str] = frozenset()
    """Names of environment variables that only tune."""


LookUp = Callable[[str, str], Declarations]
"""Group of plugins (`frameworks`, `models` or `topologies`) and name of a plugin → its declarations."""


@frozen
class Restricted:
    """A setting of a case that decides what is executed or read."""

    name: str
    """Name of the setting for `--allow`."""
    field: str
    """The name of the field, or `options.NAME`, or `env.NAME`."""
    value: Any
    """Value of the setting."""
    description: str
    """A predicate: a verb, the setting and its value."""
    flag: str
    """The flag that sets it on the command line."""
    reads: bool = False
    """True if the setting names a file that planning reads."""


def load_spec(
    path: Path, fields: Mapping[str, Any] | None = None, registry: Registry | None = None
) -> RunSpec:
    """Read a run spec from a file: JSON, TOML, or YAML in its safe subset.

    A relative data folder in the file is relative to the file's directory.

    Args:
        path: The file.
        fields: Name of a field of `RunSpec` → value that replaces the file's. These values come from the user, so they
            may decide what is executed or read. None: no field is replaced.
        registry: The plugins, which declare the options that decide what is executed or read; None for the installed
            ones.

    Raises:
        DocumentError: The file cannot be read or parsed, or it does not follow the schema `run-spec`. For a file that
            breaks the schema, the message has a line that begins with FILE:LINE for each mistake.
        SpecError: A field has an impossible value; or the file sets a field, variable or option that decides what is
            executed or read, or names a data folder outside the file's directory.
        UnknownName: A field has a value that is none of its fixed names, such as an unknown protocol.
    """
    from dlperf_sdk.documents import diagnostics, source_positions

    fields = fields or {}
    document = {name: value for name, value in load_document(path).items() if name not in fields}
    required = {
        field.name: fields[field.name]
        for field in attrs.fields(RunSpec)
        if field.default is attrs.NOTHING and field.name in fields
    }
    places = source_positions.lines_of(path.read_text(encoding="utf-8-sig"), path.suffix.lower())
    errors = diagnostics.list_file_errors(
        path, "run-spec", {"schema_version": SPEC_VERSION, **required, **document}, places
    )
    if errors:
        raise DocumentError(diagnostics.join_errors(errors))
    spec = attrs.evolve(RunSpec.from_dict({**required, **resolve_data(document, path)}), **fields)
    plugins = {"framework": spec.framework, "model": spec.model, "topology": spec.topology}
    for setting in list_restricted_settings(
        {**document, **plugins}, declaration_lookup(registry or Registry())
    ):
        location = source_positions.location(path, places, tuple(setting.field.split(".", 1)))
        raise SpecError(
            f"{location}: The file {setting.description}. {NOT_FROM_A_FILE} Remove `{setting.name}` from it, and give "
            f"{setting.flag}."
        )
    return spec


def check_allowed(
    cases: Iterable[Mapping[str, Any]], source: str, allow: Collection[str], registry: Registry
) -> None:
    """Check that the user has allowed every setting in `cases` that decides what is executed or read.

    The cases come from a result or a campaign directory. A data folder needs no permission: it is read, but the data
    made from it stays with this user. The field `lock`, a list of distributions to install, needs permission.

    Args:
        cases: The fields of each case's run spec as JSON values. `framework` is required if `env` is set; `framework`
            and `model` are required if `options` is set.
        source: The subject of the error message's first sentence, such as a file's name.
        allow: Names of the settings that the user has allowed: of a field, an option or a variable.
        registry: The plugins, which declare the options that decide what is executed or read.

    Raises:
        SpecError: A setting decides what is executed or read, and is not in `allow`; or a case has options, and its
            topology is malformed.
    """
    look_up = declaration_lookup(registry)
    refused = {
        setting.description: setting.name
        for case in cases
        for setting in list_restricted_settings(case, look_up)
        if setting.name not in allow
    }
    if refused:
        listed = "; ".join([*refused][:_MAX_LISTED])
        listed += f"; and {len(refused) - _MAX_LISTED:,} more" if len(refused) > _MAX_LISTED else ""
        names = dict.fromkeys(refused.values())
        raise SpecError(
            f"{source} {listed}. That decides which program is run here, what it loads, or which file is read, and "
            "comes from a file that you may not trust. If you wrote it yourself, or trust it, repeat the command "
            f"with {' '.join(f'--allow {name}' for name in names)} (in Python: allow={[*names]})."
        )


def declaration_lookup(registry: Registry) -> LookUp:
    """Return a function that looks up a plugin's declarations, and loads each plugin once.

    The function takes a group of plugins (`frameworks`, `models` or `topologies`) and a plugin's name, and returns the
    plugin's `Declarations`. They are empty for a plugin that cannot be loaded: its case is refused when it is planned.

    Args:
        registry: The plugins.
    """

    @cache
    def look_up(group: str, name: str) -> Declarations:
        try:
            plugin = registry.load(group, name)
            with registry.wrap_plugin_errors(group, name, "list its options"):
                options = {field.name: field.metadata for field in attrs.fields(plugin.Options)}
                return Declarations(options, frozenset(getattr(plugin, "tuning_variables", ())))
        except (PluginError, UnknownName):
            return Declarations({})

    return look_up


def tunes_only(name: str, tuning_variables: Collection[str]) -> bool:
    """Return True if an environment variable is known to tune only threads, memory, logging or transport.

    Args:
        name: Name of the variable.
        tuning_variables: Names of such variables that the framework's plugin declares, in addition to the names that
            match the pattern `TUNING`.
    """
    return name in tuning_variables or TUNING.fullmatch(name) is not None


def list_restricted_settings(case: Mapping[str, Any], look_up: LookUp) -> Iterator[Restricted]:
    """Yield the settings of a case that decide what is executed or read.

    First come fields, then environment variables, then `lock` (a list of distributions to install), then options.

    A variable is yielded unless it is known to tune only threads, memory, logging or transport. An option is yielded if
    its plugin declares it so, or if its name is suspect, such as `command`. The data folder is never yielded:
    `resolve_data` checks it.

    Args:
        case: The fields of a run spec as JSON values. `framework` is required if `env` is set; `framework` and `model`
            are required if `options` is set.
        look_up: Function that returns a plugin's declarations, from `declaration_lookup`.

    Raises:
        SpecError: The case has options, and its topology is malformed.
    """
    for field in attrs.fields(RunSpec):
        value = case.get(field.name)
        if value is not None and has_effect(field.metadata):
            flag = f"--{field.name.replace('_', '-')}"
            yield Restricted(
                field.name, field.name, value, f"sets {field.name} to {format_value(value)}", flag
            )
    variables = case.get("env") or {}
    tuning = look_up("frameworks", case["framework"]).tuning_variables if variables else frozenset()
    for name, value in variables.items():
        if not tunes_only(name, tuning):  # the value may be a secret
            description = (
                f"sets the variable {name}, which is not known to tune only threads, memory or transport"
            )
            yield Restricted(name, f"env.{name}", value, description, f"--env {name}=VALUE")
    if lock := case.get("lock"):
        pins = ", ".join(lock[:_MAX_LISTED]) + (", …" if len(lock) > _MAX_LISTED else "")
        description = f"has {format_value(pins)} installed, which the plugin's own environment lacks"
        yield Restricted("lock", "lock", lock, description, "--allow lock")
    options = case.get("options") or {}
    declared = _declared_options(case, look_up) if options else {}
    for name, value in options.items():
        option = declared.get(name, {})
        if has_effect(option) or _SUSPECT.fullmatch(name):
            description = f"sets the option {name} to {format_value(value)}"
            flag = f"--set {name}=VALUE"
            yield Restricted(name, f"options.{name}", value, description, flag, bool(option.get("reads")))


def _declared_options(case: Mapping[str, Any], look_up: LookUp) -> dict[str, Mapping[str, Any]]:
    """Return the metadata of all options that the plugins of a case declare."""
    launcher = TopologySpec.parse(case.get("topology", "1n1d")).launcher
    return {
        **look_up("models", case["model"]).options,
        **look_up("frameworks", case["framework"]).options,
        **look_up("topologies", launcher).options,
    }


def resolve_data(fields: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return the fields of a run spec, with the folder in `data` as an absolute path without links.

    A relative folder is relative to the directory of the file that has the fields. If `data` is missing, malformed or
    has no folder, it stays as it is.

    Args:
        fields: The fields, which are not changed.
        path: The file that contains them.

    Raises:
        SpecError: The folder is outside the file's directory.
    """
    source, colon, folder = (
        data.partition(":") if isinstance(data := fields.get("data"), str) else ("", "", "")
    )
    if not colon or not folder or "\0" in folder:
        return dict(fields)  # the field's own check rejects it
    home = follow_links(path).parent
    resolved = follow_links(home / folder)
    if not resolved.is_relative_to(home):
        raise SpecError(
            f"{path} takes its data from {format_value(folder)}, which is outside its own directory; a file "
            f"may only name what lies beside or below it. Move the folder there, or give --data {source}:FOLDER."
        )
    return {**fields, "data": f"{source}:{resolved}"}
