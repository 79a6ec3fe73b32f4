"""Docstrings of functions begin with an imperative verb, and names explain themselves."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = [
    path
    for folder in (ROOT / "src", *(ROOT / "plugins").glob("*/src"), *(ROOT / "examples").glob("*/src"))
    for path in sorted(folder.rglob("*.py"))
]

VERBS = frozenset(
    re.findall(
        r"\w+",
        """
        Accept Add Adjust Allow Answer Append Apply Ask Assemble Assess Attempt Attend Average Become Begin Block Build
        Call Cancel Change Check Choose Classify Clear Clip Close Collect Compare Compile Compose Compute Configure
        Connect Construct Continue Convert Cool Copy Count Create Decide Decode Delete Derive Describe Detect Determine
        Disable Discard Divide Do Draw Embed Enable Encode End Enqueue Escape Estimate Evaluate Exclude Execute Expand
        Explain Export Extend Extract Fail Fetch Fill Filter Find Finish Fit Flatten Flush Follow Forget Format Gather
        Generate Get Give Go Group Hand Handle Have Hide Hold Ignore Import Initialize Insert Inspect Install
        Interpolate Join Keep Launch Leave Let List Listen Load Lock Look Make Mark Match Measure Merge Move
        Name Normalize Note Obtain Open Order Pack Pair Parse Partition Pass Perform Place Plan Plot Predict Prepare
        Print Probe Process Produce Provide Publish Put Query Quote Raise Rank Read Receive Recognize Record Redact
        Reduce Refuse Regenerate Register Reject Release Remove Rename Render Repeat Replace Replay Report Request
        Require Reserve Reset Reshape Resolve Restore Restrict Retry Return Reuse Round Run Sample Save Scale Scan
        Schedule Search See Select Send Separate Serve Set Show Shorten Shuffle Simulate Skip Sort Split Start Step Stop
        Store Strip Submit Subtract Suggest Sum Summarize Suppress Synchronize Take Tell Test Tokenize Trace Track Train
        Translate Truncate Try Turn Undo Unpack Update Use Validate Vary Verify Visit Wait Warm Watch Wrap Write Yield
        """,
    )
)
"""Verbs that summaries begin with. Add a new one here, if it is a verb: "Return", not "Result" or "Whether"."""

RIDDLES = frozenset(
    re.findall(
        r"\w+",
        """
        apart asked each found given heard held here kept mine ours said seen such theirs then told twice what which
        who why
        """,
    )
)
"""Participles, pronouns and question words that name no value: not the whole name of a function or a variable."""


@cache
def definitions():
    """Return (`FILE:LINE`, name, node) of each function, parameter and variable of the distributions."""
    result = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = (
                node.name
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                else node.arg
                if isinstance(node, ast.arg)
                else node.id
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
                else None
            )
            if name:
                result.append((f"{path.relative_to(ROOT)}:{node.lineno}", name, node))
    return result


def test_summaries_of_functions_begin_with_a_verb():
    wrong = []
    for place, name, node in definitions():
        # A property's summary names a value, and that of a test of the conformance suites makes a claim.
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not name.startswith("test_"):
            is_property = any("property" in ast.unparse(line) for line in node.decorator_list)
            summary = (ast.get_docstring(node) or "").partition("\n")[0]
            if summary and not is_property and re.split(r"\W", summary, maxsplit=1)[0] not in VERBS:
                wrong.append(f"{place} {name}: {summary}")
    assert not wrong, "\n".join(wrong)


def test_names_are_no_riddles():
    wrong = [f"{place} {name}" for place, name, _ in definitions() if name.strip("_") in RIDDLES]
    assert not wrong, "\n".join(wrong)


def test_the_checks_find_what_they_are_for():
    assert not {"What", "Whether", "The", "A", "Returns", "Result"} & VERBS
    assert len(definitions()) > 10_000 and len(SOURCES) > 300
