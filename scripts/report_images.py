"""Take the pictures of docs/reference/report and docs/images: reports in a browser, light, dark and on a phone.

    .venv/bin/python scripts/report_images.py [DIR]

DIR holds the runs of the pictures called `campaign`; without it only the pictures of published figures are taken. It
takes the browser that `make test-report` finds.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from browser import found
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from dlperf_sdk.cli import main as dlperf

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference" / "report"
IMAGES = FOLDER.parents[1] / "images"
FRONT = (960, 675)
"""Pixels of the picture on the first page of the docs."""
DESKTOP: dict[str, Any] = {"viewport": {"width": 1280, "height": 1700}, "device_scale_factor": 0.75}
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 1500}}
SIGHTS: dict[str, dict[str, Any]] = {
    "light": {**DESKTOP, "color_scheme": "light"},
    "dark": {**DESKTOP, "color_scheme": "dark"},
    "phone": {**PHONE, "color_scheme": "light"},
}
COLORS = 256
"""Of a picture."""
MARGIN = 24
"""Pixels around a section."""


def opened(browser: Browser, report: Path, sight: str) -> Page:
    """Open a report in a new page of a browser, and return the page once all plots are drawn.

    Args:
        browser: The browser.
        report: The HTML file.
        sight: The kind of window, a key of `SIGHTS`: `light`, `dark` or `phone`.

    Raises:
        playwright.sync_api.TimeoutError: The plots were not drawn within two minutes.
        KeyError: There is no such kind of window.
    """
    page = browser.new_context(**SIGHTS[sight]).new_page()
    page.goto(report.as_uri())
    page.wait_for_selector("html[data-plots=drawn]", state="attached", timeout=120_000)
    return page


def kept(path: Path) -> None:
    """Reduce the picture in a file to a palette of `COLORS` (256) colors, in place, and print the file's size."""
    with Image.open(path) as picture:
        reduced = picture.convert("RGB").quantize(
            COLORS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
        )
    reduced.save(path, optimize=True)
    print(f"{path.name}: {path.stat().st_size:,} bytes")


def main(runs: list[str]) -> int:
    """Write the pictures of docs/reference/report and docs/images, and return the exit code.

    It is 0, or that of `dlperf report` if a report fails.

    Args:
        runs: Directories of the runs of the pictures called `campaign`; empty to leave these pictures out.
    """
    reports = {
        **({"campaign": runs} if runs else {}),
        "dlperf-v1.0": ["--published", "dlperf-v1.0"],
        "tf-cnn-2017": ["--published", "tf-cnn-2017"],
    }
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found())
        for name, words in reports.items():
            report = Path(folder) / f"{name}.html"
            if code := dlperf(["report", *words, "--output", str(report)]):
                return code
            for sight in SIGHTS:
                page = opened(browser, report, sight)
                path = FOLDER / f"{name}-{sight}.png"
                page.screenshot(path=path)
                kept(path)
                if (name, sight) == ("dlperf-v1.0", "light"):
                    with Image.open(path) as picture:
                        picture.crop((0, 0, *FRONT)).save(IMAGES / "report.png", optimize=True)
                strong = page.locator("section", has=page.locator("h2", has_text="Strong scaling"))
                if sight == "light" and strong.count():
                    path = FOLDER / f"{name}-strong.png"
                    box = strong.bounding_box() or {"x": 0, "y": 0, "width": 1280, "height": 600}
                    clip = {
                        "x": max(0, box["x"] - MARGIN),
                        "y": box["y"],
                        "width": box["width"] + 2 * MARGIN,
                        "height": box["height"],
                    }
                    page.screenshot(path=path, clip=clip, full_page=True)
                    kept(path)
                page.context.close()
        browser.close()
    return 0


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
