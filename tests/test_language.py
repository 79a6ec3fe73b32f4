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
        Abort Accept Add Adjust Admit Advance Allow Answer Append Apply Arrange Ask Assemble Assess Assign Attach
        Attempt Attend Average Become Begin Bind Block Bound Build Call Cancel Capture Cast Change Check Choose
        Classify Clear Clip Close Collect Combine Compare Compile Compose Compute Configure Connect Construct
        Consume Continue Convert Cool Copy Count Cover Create Decide Decode Define Delete Deliver Derive
        Describe Detach Detect Determine Disable Discard Display Distribute Divide Do Download Draw Drop Embed
        Enable Encode End Enqueue Ensure Enter Enumerate Erase Escape Estimate Evaluate Exchange Exclude Execute
        Exit Expand Explain Export Extend Extract Fail Fetch Fill Filter Find Finish Fit Flatten Flush Follow
        Forget Format Forward Freeze Gather Generate Get Give Go Group Guard Hand Handle Have Hide Hold Identify
        Ignore Import Include Indicate Infer Initialize Insert Inspect Install Interpolate Iterate Join Keep
        Kill Launch Leave Let Limit Link List Listen Load Lock Log Look Make Mark Mask Match Measure Merge
        Modify Move Multiply Name Normalize Note Notify Obtain Open Order Override Pack Pair Parse Partition
        Pass Patch Perform Perturb Place Plan Plant Plot Poll Predict Prepare Preserve Print Probe Process
        Produce Propagate Prove Provide Publish Pull Push Put Query Quote Raise Rank Reach Read Rebuild Receive
        Recognize Record Redact Reduce Refresh Refuse Regenerate Register Reject Release Remove Rename Render
        Repeat Replace Replay Report Request Require Rerun Reserve Reset Reshape Resolve Restore Restrict Retry
        Return Reuse Rewrite Rotate Round Run Sample Save Scale Scan Scatter Schedule Search See Seed Select
        Send Separate Serve Set Shorten Show Shrink Shuffle Shut Sign Signal Simulate Skip Sort Split Spread
        Start State Step Stop Store Stream Strip Submit Substitute Subtract Suggest Sum Summarize Supply
        Suppress Swap Switch Synchronize Take Tell Terminate Test Tokenize Trace Track Train Transfer Transform
        Translate Transpose Trim Truncate Try Turn Undo Unlock Unpack Unwrap Update Upload Use Validate Vary Verify
        Visit Wait Warm Warn Watch Widen Wrap Write Yield
        """,
    )
)
"""Verbs that summaries begin with. Add a new one here, if it is a verb: "Return", not "Result" or "Whether"."""

RIDDLES = frozenset(
    re.findall(
        r"\w+",
        """
        about again ahead alike among apart around asked at began begun beyond both by can counted
        doing each elsewhere enough every everyone everything everywhere evidenced excused far few fewest found further
        given gone grown has having heard held here homeless how in_effect instead its kept lack lacks lasting made many
        me mine more most near nothing noted nowhere of offered often once one ones ours over own refuses said same saw
        seen several shown since still such taken takers theirs then there together told took twice unasked
        unsaid until unwanted wanted was went what where which who why within without wrong
        """,
    )
)
"""Participles, pronouns, quantifiers, prepositions and question words: no whole names of functions or variables."""


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


def test_names_are_plain():
    wrong = [f"{place} {name}" for place, name, _ in definitions() if name.strip("_") in RIDDLES]
    assert not wrong, "\n".join(wrong)


def test_language_checks_detect_violations():
    assert not {"What", "Whether", "The", "A", "Returns", "Result"} & VERBS
    assert len(definitions()) > 10_000 and len(SOURCES) > 300
