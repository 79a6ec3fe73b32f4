"""Build the environment variables of a worker process: an allow-list, the user's variables, and launch variables.

A worker must not inherit variables by accident that change its throughput (`OMP_*`, `LD_PRELOAD`, `PYTHONPATH`, a
framework's own switches), and a result must record what was set. So a worker inherits little, and the user requests
the rest.
"""

from typing import Dict, Mapping, Optional

INHERITED = (
    "PATH",  # compilers, and the tools that frameworks call
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "XDG_CACHE_HOME",  # caches of compiled kernels
    "LD_LIBRARY_PATH",  # drivers and MPI where a site keeps them; module systems set it
)
"""Variables that a worker inherits, in addition to those that begin with one of `INHERITED_PREFIXES`.

Left out on purpose are all variables of a proxy, a package index or a certificate store (a worker does not need the
network), `PYTHON*`, `LD_PRELOAD`, thread and device settings (the agent sets those), and credentials of any kind.
"""

INHERITED_PREFIXES = ("LC_",)


def worker_environment(
    environ: Mapping[str, str], requested: Mapping[str, Optional[str]], process: Mapping[str, str]
) -> Dict[str, str]:
    """Return all environment variables of one worker process. The function has no side effects.

    Args:
        environ: Variables of the process that starts the worker. Only those in `INHERITED`, or with a prefix in
            `INHERITED_PREFIXES`, are passed on.
        requested: The user's variables by name. A value of None (`--env NAME`) stands for the value in `environ`; the
            variable is left out if `environ` lacks it. The user's variables take precedence over those of `environ`.
        process: The variables that the plugin sets for this process. They take precedence over the user's.

    Returns:
        A new dict, name → value.
    """
    result = {}
    for name, value in environ.items():
        if name in INHERITED or name.startswith(INHERITED_PREFIXES):
            result[name] = value
    for name, requested_value in requested.items():
        if requested_value is not None:
            result[name] = requested_value
        elif name in environ:
            result[name] = environ[name]
    result.update(process)
    return result
