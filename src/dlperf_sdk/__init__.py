"""dlperf-sdk: verified training-throughput benchmarks for deep-learning frameworks.

The public names are loaded when they are first used, so that `import dlperf_sdk` is fast, imports no framework and
loads no plugin. This file also travels to the nodes, where only `dlperf_sdk.worker` is: Python 3.7 syntax.
"""

_PUBLIC = {
    "campaign": "dlperf_sdk.api",
    "Capabilities": "dlperf_sdk.interfaces.framework",
    "DataSpec": "dlperf_sdk.spec.values",
    "DlperfError": "dlperf_sdk.errors",
    "dry_run": "dlperf_sdk.api",
    "EnvironmentSpec": "dlperf_sdk.interfaces.framework",
    "Framework": "dlperf_sdk.interfaces.framework",
    "hookimpl": "dlperf_sdk.hookspecs",
    "Input": "dlperf_sdk.interfaces.model",
    "Matrix": "dlperf_sdk.campaigns.matrix",
    "Measured": "dlperf_sdk.interfaces.measurer",
    "Measurer": "dlperf_sdk.interfaces.measurer",
    "Metric": "dlperf_sdk.interfaces.measurer",
    "Model": "dlperf_sdk.interfaces.model",
    "Optimizer": "dlperf_sdk.interfaces.model",
    "Parameter": "dlperf_sdk.interfaces.model",
    "Plan": "dlperf_sdk.planning.plan",
    "Progress": "dlperf_sdk.progress.watching",
    "Protocol": "dlperf_sdk.spec.protocol",
    "PROTOCOLS": "dlperf_sdk.spec.protocol",
    "Registry": "dlperf_sdk.registry.plugins",
    "rerun": "dlperf_sdk.api",
    "resume": "dlperf_sdk.api",
    "Result": "dlperf_sdk.results.result",
    "ResultStore": "dlperf_sdk.results.store",
    "run": "dlperf_sdk.api",
    "RunFailed": "dlperf_sdk.errors",
    "RunSpec": "dlperf_sdk.spec.run_spec",
    "Term": "dlperf_sdk.interfaces.model",
    "to_arrow": "dlperf_sdk.results.frames",
    "to_pandas": "dlperf_sdk.results.frames",
    "to_polars": "dlperf_sdk.results.frames",
    "Topology": "dlperf_sdk.interfaces.topology",
    "TopologySpec": "dlperf_sdk.spec.values",
    "Verdict": "dlperf_sdk.results.result",
    "verify": "dlperf_sdk.execution.verification",
}

__version__ = "0.1.0"
__all__ = sorted(_PUBLIC)


def __getattr__(name):  # type: ignore[no-untyped-def]
    if name not in _PUBLIC:
        raise AttributeError("module %r has no attribute %r" % (__name__, name))
    from importlib import import_module

    value = getattr(import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__():  # type: ignore[no-untyped-def]
    return sorted([*globals(), *_PUBLIC])
