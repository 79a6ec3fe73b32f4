"""`dlperf run --only`: the page in the docs, and cases that have no such part."""

from pathlib import Path

import pytest
from cli_fixtures import dlperf, isolated_directory  # noqa: F401 - fixtures
from code_blocks import blocks_of, execute

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "parts-of-a-step.md"


@pytest.mark.long
@pytest.mark.parametrize("block", blocks_of(PAGE), ids=str)
def test_the_page(block, tmp_path):
    execute(block, tmp_path)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--only", "input"], "With the data source synthetic, a step takes no input"),
        (["--only", "communication"], "no collective synchronizes gradients"),
        (["--only", "input", "--batch-size", "max"], "batch_size is max, which needs whole training steps"),
        (["--only", "inptu"], "input"),
    ],
)
def test_refused_part(dlperf, flags, message):
    code, out, err = dlperf("plan", "numpy", "linear", *flags)
    assert code != 0
    assert message in " ".join((out + err).split())


def test_the_plan_names_the_part(dlperf):
    code, out, _ = dlperf("plan", "numpy", "linear", "--topology", "1n2d", "--only", "communication")
    assert code == 0
    assert "averages arrays of the size of the gradients" in " ".join(out.split())
    assert "none: The part communication does not train" in " ".join(out.split())
