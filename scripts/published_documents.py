"""Write what the docs say of the published figures: docs/published.md and docs/prediction.md."""

from pathlib import Path

from dlperf_sdk.reports import markdown
from dlperf_sdk.reports.published.page import everywhere
from dlperf_sdk.reports.published.prediction_validation import validation

if __name__ == "__main__":
    docs = Path(__file__).resolve().parents[1] / "docs"
    for name, blocks in (("published", everywhere()), ("prediction", validation())):
        (docs / f"{name}.md").write_text(markdown.text_of(blocks), encoding="utf-8")
