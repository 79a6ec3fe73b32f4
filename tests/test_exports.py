"""The public names: importable, documented, and cheap until they are used."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys

import pytest

import dlperf_sdk


@pytest.mark.parametrize("name", dlperf_sdk.__all__)
def test_every_public_name_is_there_and_documented(name):
    value = getattr(dlperf_sdk, name)
    assert getattr(dlperf_sdk, name) is value
    assert name in dir(dlperf_sdk)
    if inspect.isclass(value) or inspect.isfunction(value):
        output = inspect.getdoc(value)
        assert output
        assert output.endswith(".") or "\n" in output
        assert value.__module__.startswith("dlperf_sdk.")
        for method_name, method in vars(value).items() if inspect.isclass(value) else ():
            if inspect.isfunction(method) and not method_name.startswith("_"):
                assert inspect.getdoc(method), f"{name}.{method_name}"


def test_a_name_that_is_none():
    with pytest.raises(AttributeError, match="module 'dlperf_sdk' has no attribute 'runn'"):
        dlperf_sdk.runn  # noqa: B018


def test_importing_it_loads_nothing():
    script = (
        "import sys; before = set(sys.modules); import dlperf_sdk; print(*sorted(set(sys.modules) - before))"
    )
    answer = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["dlperf_sdk"]


def test_the_front_door_loads_no_framework_and_no_plugin():
    """`run` is at hand, with all that it is made of: but no framework, no NumPy, no plugin's module."""
    script = (
        "import sys, json; from dlperf_sdk import run, dry_run, rerun; print(json.dumps(sorted(sys.modules)))"
    )
    answer = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True)
    loaded = set(json.loads(answer.stdout))
    roots = {name.partition(".")[0] for name in loaded}
    assert "dlperf_sdk.api" in loaded
    assert not roots & {"torch", "tensorflow", "jax", "numpy", "PIL", "tokenizers", "jinja2"}
    assert not {root for root in roots if root.startswith("dlperf_")} - {"dlperf_sdk"}
    assert not {name for name in loaded if name.startswith(("dlperf_sdk.models.", "dlperf_sdk.measurers."))}


def test_star_import_gives_the_public_names():
    scope = {}
    exec("from dlperf_sdk import *", scope)
    assert set(dlperf_sdk.__all__) <= set(scope)
