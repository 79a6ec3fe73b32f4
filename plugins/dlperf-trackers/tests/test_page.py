"""The how-to page works: every code block is executed, in order."""

from pathlib import Path

import pytest
from code_blocks import blocks_of, execute
from libraries import requires

ROOT = Path(__file__).resolve().parents[3]


@requires("mlflow", "flask", "prometheus_client", "tensorboard", "wandb")
@pytest.mark.timeout(1200)
def test_the_page_works(tmp_path):
    blocks = blocks_of(ROOT / "docs" / "how-to" / "trackers.md")
    assert [block.language for block in blocks] == ["sh", "sh", "python", "python"]
    output = "".join(execute(block, tmp_path) for block in blocks)
    assert output.rstrip().endswith("img/s")
    assert len(list(tmp_path.glob("logs/*/events.out.tfevents.*"))) == 1
    assert len(list(tmp_path.glob("metrics/*.prom"))) == 1
    assert len(list(tmp_path.glob("wandb/offline-run-*"))) == 1
