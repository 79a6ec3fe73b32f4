"""A site in a real browser, from files: search, links, plots, a phone, and no request but for its own files."""

from __future__ import annotations

import pytest
from history_samples import fill, is_invalid
from test_html_browser import browser  # noqa: F401

from dlperf_sdk.reports.html.site import write_site
from dlperf_sdk.results.index import Index
from dlperf_sdk.results.store import ResultStore

pytestmark = pytest.mark.browser
RUNS = 300


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """The first page of a site on 300 results."""
    folder = tmp_path_factory.mktemp("site")
    write_site(Index(ResultStore(fill(folder / "store", RUNS))), folder / "site", reports=1)
    return folder / "site" / "index.html"


@pytest.fixture(params=[(1400, 1000), (390, 844)], ids=["desktop", "phone"])
def page(browser, index, request):
    """The first page; what it says on the console and requests is on it."""
    width, height = request.param
    context = browser.new_context(viewport={"width": width, "height": height}, is_mobile=width < 500)
    page = context.new_page()
    page.said, page.asked = [], []
    page.on("console", lambda message: page.said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: page.said.append(f"error: {error}"))
    page.on("request", lambda request: page.asked.append(request.url))
    page.on("dialog", lambda dialog: (page.said.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.goto(index.as_uri())
    page.wait_for_selector("html[data-plots]", state="attached", timeout=120_000)
    yield page
    context.close()


def wait_for_plots(page):
    page.wait_for_selector("html[data-plots=drawn]", state="attached", timeout=120_000)
    assert page.locator(".plot[data-drawn=yes]").count() >= 1
    assert page.locator(".plot[data-drawn=no]").count() == 0


def test_from_the_search_to_a_case_to_a_report_and_back(page, index):
    assert page.locator("h1").inner_text() == "Benchmark history"
    cases = page.locator(".sortable").first
    cases.get_by_role("searchbox").fill("1N1D torch")
    cases.get_by_text("1 found of 6").wait_for()
    assert cases.locator("tbody tr").count() == 1
    assert "slower" in cases.locator("tbody tr").inner_text()
    cases.locator("tbody a").click()
    wait_for_plots(page)
    assert page.locator("h1").inner_text() == "torch resnet50 1n1d b32 fp32"
    assert page.locator(".plot svg [class*=mark-symbol] path").count() == sum(
        not is_invalid(number) for number in range(0, RUNS, 6)
    )
    assert page.locator(".plot svg [class*=mark-line] path").count() == 2
    assert "framework_version 2.4 → 2.5" in page.locator("main").inner_text()
    page.locator(".sortable tbody a").first.click()
    wait_for_plots(page)
    assert "/runs/" in page.url
    page.get_by_text("← History of the case").click()
    wait_for_plots(page)
    page.get_by_text("← All cases").click()
    page.wait_for_url(index.as_uri())
    assert page.said == []
    assert {address.rsplit("/", 1)[0] for address in page.asked} <= {
        folder.as_uri() for folder in (index.parent, index.parent / "cases", index.parent / "runs")
    }


def test_cases_can_be_filtered_and_sorted(page):
    cases = page.locator(".sortable").first
    if page.viewport_size["width"] < 500:
        cases.get_by_role("button", name="Filter and sort").click()
    cases.get_by_label("state").select_option("slower")
    cases.get_by_text("1 found of 6").wait_for()
    cases.get_by_label("state").select_option("")
    cases.locator("thead th", has_text="runs").locator("button").click()
    assert cases.locator("thead th", has_text="runs").get_attribute("aria-sort") == "descending"


def test_no_page_is_wider_than_the_screen(page):
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    page.locator(".sortable tbody a").first.click()
    wait_for_plots(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
