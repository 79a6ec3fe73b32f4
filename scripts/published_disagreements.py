"""Write docs/published.md: every cell in which a source disagrees with its own figures."""

from pathlib import Path

from dlperf_sdk.report import markdown
from dlperf_sdk.report.published.page import everywhere

if __name__ == "__main__":
    target = Path(__file__).resolve().parents[1] / "docs" / "published.md"
    target.write_text(markdown.text_of(everywhere()), encoding="utf-8")
