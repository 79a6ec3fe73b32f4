"""The HTML report in a real browser: it draws, sorts, searches, turns dark, fits a phone, prints, asks for nothing."""

from __future__ import annotations

import base64
import os
import random
import re
import shutil
import time
from pathlib import Path

import pytest
from report_samples import case, many
from test_html import hostile_results

from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.reports import html

pytestmark = pytest.mark.browser
ROOT = Path(__file__).resolve().parents[3]
REPORTS = ("campaign", "dlperf-v1.0", "tf-cnn-2017")
COLLECTIONS = (*REPORTS[1:], "tensorpack")
PHONE = {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def browser():
    """A Chromium; `make test-report` finds or installs one."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="The browser tests need playwright: `make test-report` brings it."
    )
    known = ROOT / ".venv" / "browser"
    path = os.environ.get("DLPERF_BROWSER") or (known.read_text().strip() if known.exists() else "")
    path = path or shutil.which("chromium") or shutil.which("google-chrome")
    if not path:
        pytest.skip("The browser tests need Chromium or Chrome: `make test-report` finds or installs one.")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=path)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The reports, and one over results that are hostile, and one over thousands."""
    folder = tmp_path_factory.mktemp("reports")
    documents = {
        "campaign": lambda: html.report_on_results([*(actual := list(many(100)))[:30], *actual[80:]]),
        "hostile": lambda: html.report_on_results(hostile_results()),
        "thousands": lambda: html.report_on_results(list(many(3000))),
        "strong": lambda: html.report_on_results(
            strong_results(), published=Registry().collection("dlperf-v1.0")
        ),
        **{
            name: lambda name=name: html.report_on_collection(Registry().collection(name))
            for name in COLLECTIONS
        },
    }

    def file(name):
        path = folder / f"{name}.html"
        if not path.exists():
            path.write_text(documents[name](), encoding="utf-8")
        return path

    return file


def strong_results():
    chance = random.Random(3)
    batches = {"1n1d": 512, "1n2d": 256, "1n4d": 128, "1n8d": 64, "2n8d": 32}
    fields = [
        {"framework": framework, "topology": topology, "batch_size": batch}
        for framework in ("torch", "oneflow")
        for topology, batch in batches.items()
    ]
    return [case(number, chance, item) for number, item in enumerate(fields)]


@pytest.fixture
def opened(browser, files):
    """Open a report: the page, when all its plots are drawn. Complaints and requests are gathered on it."""
    contexts = []

    def open_(name, **options):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.said, page.asked = [], []
        page.on("console", lambda message: page.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: page.said.append(f"error: {error}"))
        page.on("request", lambda request: page.asked.append(request.url))
        page.on("dialog", lambda dialog: (page.said.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.goto(files(name).as_uri())
        page.wait_for_selector("html[data-plots=drawn]", state="attached", timeout=120_000)
        return page

    yield open_
    for context in contexts:
        context.close()


def shown(page, caption):
    """The rows of the sortable table with this caption."""
    table = page.locator(".sortable table").filter(has=page.locator("caption", has_text=re.compile(caption)))
    cells = "body => [...body.rows].map(row => [...row.cells].map(cell => cell.textContent))"
    return table, lambda: table.locator("tbody").evaluate(cells)


def box_of(table):
    return table.locator("xpath=ancestor::*[contains(@class, 'sortable')]")


@pytest.mark.parametrize("name", REPORTS)
def test_page_is_complete_without_network_requests(opened, files, name):
    page = opened(name)
    for folded in page.locator("details.folded:has(.plot), details.part").all():
        folded.evaluate("each => { each.open = true; each.hidden = false; }")
    page.wait_for_selector(".plot:not([data-drawn])", state="detached", timeout=120_000)
    assert page.locator(".plot").count() >= 5
    assert page.locator(".plot:not([data-drawn=yes])").count() == 0
    for drawing in page.locator(".plot .drawing").all():
        box = drawing.locator("svg").bounding_box()
        assert box["width"] > 200
        assert box["height"] > 40
        marks = "[class*=mark-symbol] path, [class*=mark-rect] path, [class*=mark-line] path"
        assert drawing.locator(marks).count() >= 1
        assert "NaN" not in drawing.inner_html()
    for title in page.locator("section h2").all_inner_texts():
        assert page.locator("nav a", has_text=title).count() == 1
    assert page.said == []
    assert page.asked == [files(name).as_uri()]


def test_sections_of_a_campaign_begin_with_questions_and_end_folded(opened):
    page = opened("campaign")
    titles = [
        "Fastest framework",
        "Results",
        "Throughput",
        "Scaling",
        "Batch sizes",
        "Effects",
        "Verdicts",
        "Step times",
        "Memory and energy",
        "What is not comparable",
        "Environment and hardware",
        "Every result in full",
        "Intervals",
    ]
    assert page.locator("section h2").all_inner_texts() == titles
    assert page.locator("details.part h2").all_inner_texts() == titles[-6:]
    page.locator("nav a", has_text="Memory and energy").click()
    page.wait_for_selector("details.part[open] h2 >> text=Memory and energy")


def test_the_contents_stand_beside_the_page_and_the_first_table_on_the_first_screen(opened):
    page = opened("dlperf-v1.0", viewport={"width": 1400, "height": 900})
    contents, heading = page.locator("nav").bounding_box(), page.locator("h1").bounding_box()
    assert contents["x"] + contents["width"] <= heading["x"]
    rows = page.locator("tbody tr")
    assert rows.first.bounding_box()["y"] < 900
    assert "oneflow" in rows.first.inner_text()
    assert page.evaluate("document.documentElement.scrollHeight") < 15_000


@pytest.mark.parametrize("caption", ["50 results", "Each figure"])
def test_the_throughput_is_visible_without_scrolling_a_table(opened, caption):
    page = opened("campaign" if "results" in caption else "dlperf-v1.0")
    table, _ = shown(page, caption)
    head = table.locator("thead th", has_text="throughput").first.bounding_box()
    assert head["x"] + head["width"] <= 1280


def test_on_a_phone_the_contents_are_on_the_first_screen_and_one_tap_away(opened):
    page = opened("dlperf-v1.0", viewport={"width": 390, "height": 844}, is_mobile=True)
    for link in page.locator("nav a").all():
        box = link.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 390 and box["y"] + box["height"] < 400
    assert page.locator(".tile").first.bounding_box()["y"] < 844
    page.locator("nav a", has_text="Effects").click()
    page.wait_for_function("document.querySelector('nav').getBoundingClientRect().bottom < 0")
    page.locator(".to-contents").click()
    page.wait_for_function("document.querySelector('nav').getBoundingClientRect().top >= 0")


QUESTIONS = {
    "fastest at 4n8d for BERT, fp32, batch 32": (
        None,
        ".tile",
        "bert-base · 4n8d · fp32 · batch 32",
        "≈1.09× mxnet",
    ),
    "how far the fastest leads for ResNet-50 on 1n1d": (
        "Fastest framework",
        "tr",
        r"resnet50\s*128\s*fp32",
        "≈1.01× mxnet",
    ),
    "fastest at 4n8d for ResNet-50 with AMP": (
        None,
        ".tile",
        "resnet50 · 4n8d · amp-fp16 · batch 256",
        "≈1.20× mxnet",
    ),
    "does XLA help, by how much, how certain": (
        "Effects",
        "tr",
        "xla ÷ no compiler, resnet50",
        "tensorflow 1.15.2: 5 topologies of one case, all faster",
    ),
    "why fp16 is not ranked with amp-fp16": (
        "What is not comparable",
        "tr",
        "^\\s*precision\\s*fp32, amp-fp16, fp16",
        "fp16 also stores weights, activations and gradients",
    ),
    "what gains what from AMP": (
        "Effects",
        "tr",
        "fp32, bert-base",
        "oneflow 2.68×, mxnet 2.72×, paddle 1.74×",
    ),
    "what gradient clipping costs": ("Effects", "tr", "clip norm 1.0 ÷ no clipping", "0.93×"),
    "what scales worst": ("Scaling", "tr", r"bert-base\s*amp-fp16\s*lowest on 4n8d", "36.8%"),
    "from where it scales badly": (
        "Scaling",
        "tr",
        r"bert-base\s*amp-fp16\s*lowest on 4n8d",
        "1n1d → 1n4d: 16.1",
    ),
    "which figures deviate from the protocol": (
        "Coverage and protocol",
        "p",
        "The source prescribes",
        "169 deviate",
    ),
    "largest topology": (None, "p", "Oneflow-Inc/DLPerf", "Largest topology measured: 4n8d (32 devices)"),
    "largest batch": (None, "p", "Oneflow-Inc/DLPerf", "320 (resnet50)"),
    "gain of AMP at equal batch size": ("Effects", "tr", "fp32, resnet50", "batch size 128"),
    "how many leads have an interval": (
        "Fastest framework",
        "p",
        "leads have",
        "5 of 52 leads have an interval, none without",
    ),
    "best batch size of ResNet-50 for TensorFlow": (
        "Batch sizes: resnet50",
        "tr",
        r"1n1d\W*tensorflow 2",
        "256 (1.15×)",
    ),
    "how often the source contradicts itself": (
        "Source disagreements",
        ".answer",
        "Wrong of 728 printed cells",
        "9 numbers and 57 labels",
    ),
}
"""Question → the link that is followed, the element with the answer, its beginning, and the answer."""
OF_OTHERS = {
    "tensorpack": {
        "tensorpack against tf_cnn_benchmarks": (
            None,
            ".tile",
            "Fastest: resnet50-v1 · 1n8d",
            "≈1.03× tensorflow1 (tf_cnn_benchmarks) 1,605, both with strategy parameter_server, input pipeline "
            "constant",
        ),
        "the same with another strategy": (
            "Framework pairs",
            "tr",
            r"replicated \(all_reduce\)\s*tensorpack",
            "≈1.01×",
        ),
        "replicated against parameter_server": (
            "Effects",
            "tr",
            r"strategy parameter_server ÷ replicated \(all_reduce\)",
            "1.00×; pairs 0.97× to 1.05×",
        ),
    },
    "tf-cnn-2017": {
        "real against synthetic data on eight GPUs": (
            None,
            ".tile",
            "Real over synthetic data on 1n8d",
            "0.94× to 1.00×",
        ),
        "real against synthetic data": (
            "Effects",
            "tr",
            r"real \(images\) ÷ synthetic",
            "1.00×; pairs 0.92× to 1.02×",
        ),
        "effect of the batch size": ("Effects", "tr", "batch size 64 ÷ 32", "1.08×; pairs 1.02× to 1.17×"),
    },
}
WIDE = {
    "how many figures deviate from the protocol": (
        None,
        ".tile",
        "Figures that deviate from the prescribed protocol",
        "169 of 323",
    ),
    "best throughput with AMP and batches of 128": (
        "Fastest framework",
        "tr",
        r"resnet50\s*128\s*amp-fp16",
        "tensorflow 5,735",
    ),
    "best throughput with AMP and the greatest batch": (
        "Fastest framework",
        "tr",
        r"resnet50\s*320\s*amp-fp16",
        "tensorflow 7,115",
    ),
    "which frameworks have no gain of AMP at equal batch size": (
        "Effects",
        "p",
        "No pair at equal batch size",
        "mxnet (batch 256 ÷ 128)",
    ),
}
"""Questions whose answers are on the first screen of a section on a wide screen, and further down on a phone."""


IN_VIEW = """(element, [answer, top, bottom]) => {
  // The innermost element that has the whole answer.
  for (let inner = element, child = element; ; inner = child) {
    child = [...inner.children].find((each) => each.innerText && each.innerText.includes(answer));
    if (!child) {
      const box = inner.getBoundingClientRect();
      return top <= box.top && box.top < box.bottom && box.bottom <= bottom;
    }
  }
}"""


@pytest.mark.parametrize("name", ["dlperf-v1.0", *OF_OTHERS])
@pytest.mark.parametrize("viewport", [(1400, 900), (390, 844)], ids=["desktop", "phone"])
def test_questions_are_answered_on_a_screen_one_click_away(opened, viewport, name):
    width, height = viewport
    page = opened(name, viewport={"width": width, "height": height}, is_mobile=width < 500)
    questions = OF_OTHERS.get(name) or {**QUESTIONS, **(WIDE if width > 500 else {})}
    unanswered = []
    # The bar with the search covers the first lines.
    bar = page.locator(".bar").bounding_box()["height"]
    for question, (link, kind, beginning, answer) in questions.items():
        page.evaluate("window.scrollTo(0, 0)")
        if link:
            page.locator("nav a", has_text=re.compile(f"^{re.escape(link)}$")).click()
        element = page.locator(f"main {kind}").filter(has_text=re.compile(beginning)).first
        # A link to a folded section opens it after the click, and scrolls to it again when its plots are drawn.
        element.wait_for()
        assert answer in element.inner_text(), question
        deadline = time.monotonic() + 10
        while not element.evaluate(IN_VIEW, [answer, bar, height]):
            if time.monotonic() > deadline:
                unanswered.append(question)
                break
            page.wait_for_timeout(50)
    assert unanswered == []


def test_on_a_phone_a_table_of_three_columns_is_complete(opened):
    page = opened("tf-cnn-2017", viewport={"width": 390, "height": 844}, is_mobile=True)
    section = page.locator("section", has=page.locator("h2", has_text="Effects"))
    cell = section.locator("td", has_text="8 cases on 4 topologies").first
    box = cell.bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 390


IS_PLAIN = """async screenshot => {
  const picture = await createImageBitmap(await (await fetch('data:image/png;base64,' + screenshot)).blob());
  const pen = new OffscreenCanvas(picture.width, picture.height).getContext('2d');
  pen.drawImage(picture, 0, 0);
  const points = new Uint32Array(pen.getImageData(0, 0, picture.width, picture.height).data.buffer);
  return points.every(point => point === points[0]);
}"""


def test_on_a_phone_a_table_that_fits_has_no_line_at_its_right_edge(opened):
    page = opened(
        "dlperf-v1.0", viewport={"width": 390, "height": 844}, is_mobile=True, device_scale_factor=2
    )
    blank = page.context.new_page()
    for title in ("oneflow", "xla ÷ no compiler, resnet50, tensorflow only"):
        row = page.locator(".wide tbody tr:visible", has_text=title).first
        row.scroll_into_view_if_needed()
        table = row.locator("xpath=ancestor::div[@class='wide']")
        assert table.evaluate("box => box.scrollWidth === box.clientWidth")
        box, edge = row.bounding_box(), table.bounding_box()
        clip = {
            "x": edge["x"] + edge["width"] - 1,
            "width": 4,
            "y": box["y"] + 4,
            "height": box["height"] - 8,
        }
        picture = base64.b64encode(page.screenshot(clip=clip)).decode()
        assert blank.evaluate(IS_PLAIN, picture), title


def test_on_a_phone_tables_and_legends_are_complete(opened):
    page = opened("dlperf-v1.0", viewport={"width": 390, "height": 844}, is_mobile=True)
    for table in page.locator("table.stacked:visible").all():
        box = table.bounding_box()
        assert box["x"] + box["width"] <= 390
    cell = page.locator("table.stacked td[data-label=throughput]").first
    assert cell.evaluate("cell => getComputedStyle(cell, '::before').content") == '"throughput"'
    for entry in page.locator(".legend li:visible").all():
        box = entry.bounding_box()
        assert box["x"] + box["width"] <= 390
        assert entry.evaluate("entry => entry.scrollWidth <= entry.clientWidth")
    assert "…" not in "".join(page.locator(".plot svg text").all_text_contents())


def test_strong_scaling_and_published_figures_are_there(opened):
    page = opened("strong", viewport=PHONE)
    section = page.locator("section", has=page.locator("h2", has_text="Strong scaling"))
    assert section.locator(".plot[data-drawn=yes]").count() == 3
    _, rows = shown(page, "[0-9]+ results compared with [0-9]+ figures")
    assert {row[4] for row in rows()} >= {"yours"} and all(
        row[0].startswith(("torch", "oneflow")) for row in rows()
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert page.said == []


def test_sorting_by_a_click_and_by_the_keyboard(opened):
    page = opened("campaign")
    table, rows = shown(page, "50 results")
    head = table.locator("thead th", has_text="throughput")
    at = table.locator("thead th").all_inner_texts().index(head.inner_text())

    def numbers():
        return [float(row[at].replace(",", "")) for row in rows()]

    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert numbers() == sorted(numbers(), reverse=True)
    head.locator("button").focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert numbers() == sorted(numbers())
    table.locator("thead th", has_text="topology").locator("button").click()
    assert head.get_attribute("aria-sort") is None
    actual = [row[2] for row in rows()]
    assert actual == sorted(actual)


def test_a_heading_of_two_lines_sorts_wherever_it_is_clicked(opened):
    page = opened("dlperf-v1.0")
    table, _ = shown(page, "249 pairs")
    head = table.locator("thead th", has_text="ratio")
    head.scroll_into_view_if_needed()
    box = head.bounding_box()
    for x in (2, box["width"] - 2):
        for y in (2, box["height"] - 3):
            head.evaluate("head => head.removeAttribute('aria-sort')")
            head.click(position={"x": x, "y": y})
            assert head.get_attribute("aria-sort") in ("ascending", "descending"), (x, y)


def test_searching_and_filtering(opened):
    page = opened("campaign")
    table, rows = shown(page, "50 results")
    box = box_of(table)
    box.get_by_label("framework").select_option("torch")
    assert {row[0] for row in rows()} == {"torch"}
    box.get_by_role("searchbox").fill("2N8D amp")
    box.get_by_text("Rows 1 to 2 of 2 found of 50").wait_for()
    assert {(row[0], row[2], row[4]) for row in rows()} == {("torch", "2n8d", "amp-bf16")}
    box.get_by_role("searchbox").fill("torch topology 2n8d vs precision amp")
    box.get_by_text("Rows 1 to 2 of 2 found of 50").wait_for()
    box.get_by_role("searchbox").fill("torch splendid")
    box.get_by_text(
        "No row matches the search and the filters. The table does not have “splendid”."
    ).wait_for()
    assert rows() == []


def test_a_word_of_a_search_is_a_whole_token_if_there_is_one(opened):
    page = opened("dlperf-v1.0")
    table, rows = shown(page, "Each figure")
    box_of(table).get_by_role("searchbox").fill("resnet50 fp32 4n8d 128")
    box_of(table).get_by_text("found of 323").wait_for()
    assert rows() and {tuple(row[2:6]) for row in rows()} == {("resnet50", "4n8d", "128", "fp32")}


def test_a_phrase_in_quotes_is_found_as_it_stands(opened):
    page = opened("dlperf-v1.0")
    table, rows = shown(page, "Each figure")
    search = box_of(table).get_by_role("searchbox")
    search.fill('"19 + 100 steps" fp32')
    box_of(table).get_by_text("20 found of 323").wait_for()
    assert rows() and all("19 + 100 steps, 7 repeats" in row and "fp32" in row for row in rows())
    search.fill('"100 steps + 19"')
    box_of(table).get_by_text("No row matches the search and the filters.").wait_for()


def test_figures_that_deviate_from_the_protocol_are_listed(opened):
    page = opened("dlperf-v1.0", viewport={"width": 1400, "height": 900})
    table, rows = shown(page, "Each figure")
    box_of(table).get_by_label("protocol check").select_option("deviates")
    box_of(table).get_by_text("169 found of 323").wait_for()
    assert all("deviates" in row for row in rows())
    for title in ("spread", "protocol check", "source"):
        head = table.locator("thead th", has_text=title).bounding_box()
        assert head["x"] + head["width"] <= 1400


@pytest.mark.parametrize(
    ("other", "name"), [("PyTorch", "torch"), ("TF", "tensorflow"), ("rn50", "resnet50")]
)
def test_other_names_are_found(opened, other, name):
    page = opened("dlperf-v1.0")
    table, rows = shown(page, "Each figure")
    box_of(table).get_by_role("searchbox").fill(f"{other} 1n8d")
    box_of(table).get_by_role("status").filter(has_text="found of 323").wait_for()
    assert rows() and all(name in row and "1n8d" in row for row in rows())


def test_two_frameworks_are_found_by_their_names(opened):
    page = opened("dlperf-v1.0")
    table, rows = shown(page, "pairs of implementations")
    box_of(table).get_by_role("searchbox").fill("PyTorch TensorFlow 1n8d resnet50 fp32")
    box_of(table).get_by_role("status").filter(has_text="found of").wait_for()
    assert rows() and all(row[0] == "tensorflow and torch" and row[1] == "1n8d" for row in rows())


def test_the_first_pair_that_a_search_finds_has_the_leading_figure(opened):
    page = opened("dlperf-v1.0")
    table, rows = shown(page, "pairs of implementations")
    box_of(table).get_by_role("searchbox").fill("oneflow bert-base fp32 32 4n8d")
    box_of(table).get_by_role("status").filter(has_text="found of").wait_for()
    assert rows()[0][6].startswith("oneflow 0.2.0") and rows()[0][8].startswith("≈1.09×")


def test_a_caption_counts_what_is_found(opened):
    page = opened("dlperf-v1.0")
    table, rows = shown(page, "pairs of implementations")
    caption = table.locator("caption")
    assert caption.inner_text().startswith("249 pairs")
    box_of(table).get_by_role("searchbox").fill("PyTorch TensorFlow 1n8d resnet50 fp32")
    box_of(table).get_by_role("status").filter(has_text="found of").wait_for()
    assert caption.inner_text().startswith(f"{len(rows())} of 249 pairs")
    box_of(table).get_by_role("searchbox").fill("")
    caption.filter(has_text=re.compile("^249 pairs")).wait_for()


@pytest.mark.parametrize("caption", ["pairs of implementations", "What was measured", "Each figure"])
def test_columns_keep_their_widths_on_all_pages(opened, caption):
    page = opened("dlperf-v1.0", viewport={"width": 1400, "height": 900})
    table, rows = shown(page, caption)
    widths = (
        "table => [...table.tHead.rows[0].cells].map(cell => Math.round(cell.getBoundingClientRect().width))"
    )
    # The section may be folded.
    table.evaluate("table => { const part = table.closest('details.part'); if (part) part.open = true; }")
    first, before = rows(), table.evaluate(widths)
    box_of(table).get_by_role("button", name="Next").click()
    assert rows() != first
    assert all(abs(a - b) <= 12 for a, b in zip(table.evaluate(widths), before, strict=True))


@pytest.mark.parametrize("viewport", [(1400, 900), (390, 844)], ids=["desktop", "phone"])
def test_turning_a_page_keeps_the_head_of_the_table_in_view(opened, viewport):
    width, height = viewport
    page = opened("dlperf-v1.0", viewport={"width": width, "height": height}, is_mobile=width < 500)
    table, rows = shown(page, "pairs of implementations")
    first = rows()
    button = box_of(table).get_by_role("button", name="Next")
    button.scroll_into_view_if_needed()
    assert table.bounding_box()["y"] < 0
    button.click()
    assert rows() != first
    page.wait_for_function("table => table.getBoundingClientRect().top >= 0", arg=table.element_handle())
    assert table.bounding_box()["y"] < height


def test_cells_of_the_overview_have_two_lines(opened):
    page = opened("dlperf-v1.0", viewport={"width": 1400, "height": 900})
    table = page.locator("table").filter(has=page.locator("caption", has_text="Fastest framework, its"))
    heights = table.locator("tbody td:not(.key)").evaluate_all(
        """cells => cells.map(cell => {
          const range = document.createRange();
          range.selectNodeContents(cell);
          return new Set([...range.getClientRects()].map(box => Math.round(box.top))).size;
        })"""
    )
    assert len(heights) > 50 and max(heights) == 2


def test_the_overview_fits_a_narrow_desktop(opened):
    page = opened("dlperf-v1.0", viewport={"width": 1280, "height": 900})
    table = page.locator("table").filter(has=page.locator("caption", has_text="Fastest framework, its"))
    right = table.locator("thead th", has_text="4n8d").evaluate("cell => cell.getBoundingClientRect().right")
    assert right <= 1280


def test_the_batch_sizes_of_the_chosen_topology_are_plotted(opened):
    page = opened("dlperf-v1.0", viewport={"width": 1400, "height": 900})
    page.locator("nav a", has_text="Batch sizes: bert-base").click()
    part = page.locator("section", has=page.locator("h2", has_text="Batch sizes: bert-base"))
    part.get_by_label("topology").select_option("1n8d")
    part.get_by_role("heading", name="Batch size: bert-base, 1n8d, fp32: throughput").wait_for()
    assert {row.split()[0] for row in part.locator(".sortable tbody tr").all_inner_texts()} == {"1n8d"}


def test_a_tile_leads_to_its_reservations(opened):
    page = opened("dlperf-v1.0", viewport={"width": 390, "height": 844}, is_mobile=True)
    page.locator(".tile a", has_text="with reservations").first.click()
    notes = page.locator("#reservations-1")
    page.wait_for_function(
        "notes => Math.abs(notes.getBoundingClientRect().top) < 100", arg=notes.element_handle()
    )
    assert "stated by one side" in notes.inner_text()


def test_a_search_without_result_names_the_closed_box_that_has_the_answer(opened):
    page = opened("dlperf-v1.0", viewport={"width": 1400, "height": 900})
    table, _ = shown(page, "The same effects by framework")
    box_of(table).get_by_role("searchbox").fill("1.5.0a0")
    folded = page.locator("details.folded", has=page.locator("summary", has_text="Every pair"))
    assert folded.get_attribute("open") is None
    box_of(table).get_by_role("button", name=re.compile("^Show .* in “Every pair”")).click()
    assert folded.get_attribute("open") is not None
    assert folded.get_by_role("searchbox").input_value() == "1.5.0a0"
    assert set(folded.locator("tbody tr td:nth-child(2)").all_inner_texts()) == {"torch"}
    box_of(table).get_by_role("searchbox").fill("no such word")
    page.wait_for_function(
        "box => !box.querySelector('[role=status] button')", arg=box_of(table).element_handle()
    )


@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize(
    ("searched", "place", "answer"),
    [
        (
            "AMP oneflow 1n8d",
            "The precision and its batch",
            "oneflow 0.2.0 · resnet50 · 256 ÷ 128 · 1n8d: 3.40×",
        ),
        ("pytorch resnet-50 amp 4n8d", "The precision and its batch", "4n8d: 2.07×"),
        (
            "XLA",
            "effect",
            "xla ÷ no compiler, resnet50, tensorflow only · ratio: 1.24×; pairs 1.18× to 1.27×",
        ),
        ("best batch size torch resnet50 fp32", "Throughput (img/s) by batch", "best: 128 (only one)"),
        # On a phone the long name is cut off, not the answer.
        ("mxnet resnet50 amp 4n8d efficiency", "Efficiency of each", "efficiency: 67.2%"),
        ("worst scaling bert amp", "Lowest and highest", "bert-base · amp-fp16 · lowest on 4n8d"),
        ("BERT OOM 96", "Throughput (seq/s) by batch", "batch 96: out of memory (OOM)"),
        ("oom paddle", "15 of 67 series have a figure", "why: out of memory (OOM)"),
        ("out of memory 224", "Throughput (img/s) by batch", "batch 224: out of memory (OOM)"),
    ],
)
def test_one_search_finds_the_answer_in_all_tables(opened, width, searched, place, answer):
    page = opened("dlperf-v1.0", viewport={"width": width, "height": 844}, is_mobile=width < 500)
    # The search is there wherever the page was scrolled to.
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    page.locator("#find").fill(searched)
    hit = page.locator("#found button", has_text=place).first
    assert answer in hit.inner_text()
    hit.click()
    assert not page.locator("#found").is_visible()
    rows = page.locator(
        "tbody tr:visible", has_text=re.search(r"OOM|only one|lowest|[.0-9]+[×%]$", answer)[0]
    )
    assert any(0 <= row.bounding_box()["y"] < 844 for row in rows.all())


@pytest.mark.parametrize("width", [1400, 390])
def test_a_search_names_the_word_that_no_row_has_and_finds_the_others(opened, width):
    page = opened("dlperf-v1.0", viewport={"width": width, "height": 844}, is_mobile=width < 500)
    hits, found = page.locator("#found button"), page.locator("#found")
    page.locator("#find").fill("splendid")
    found.get_by_text("No row has “splendid”.").wait_for()
    assert hits.count() == 0
    page.locator("#find").fill("slowest framework bert")
    found.get_by_text("No row has “slowest”; without it: ").wait_for()
    assert hits.first.inner_text().startswith("Fastest framework, ")
    # No row has the word, but a section does.
    page.locator("#find").fill("noise")
    found.get_by_text("No row has “noise”.").wait_for()
    assert hits.all_inner_texts()[0].startswith("Fastest framework")
    assert "no interval, perhaps noise" in hits.first.inner_text()
    page.locator("#find").fill("hardware")
    found.get_by_text("All figures have: hardware Tesla V100-SXM2-16GB.").wait_for()
    page.locator("#find").fill("figures that follow the protocol")
    found.get_by_text("99 more do not state all of these; 55 follow them.").wait_for()
    page.locator("#find").fill("noise")
    found.get_by_text("No row has “noise”.").wait_for()
    hits.first.click()
    page.wait_for_function(
        "() => Math.abs(document.getElementById('section-1').getBoundingClientRect().top) < 200"
    )
    # Rows have either word, none has both.
    page.locator("#find").fill("bert-base resnet50 4n8d 96")
    found.get_by_text("No row has all of these words; without “bert-base”: ").wait_for()
    hits.first.click()
    page.locator("tbody tr:visible", has_text="96").first.wait_for()


def test_a_search_for_the_fastest_begins_with_the_table_of_the_fastest(opened):
    page = opened("dlperf-v1.0")
    page.locator("#find").fill("fastest")
    page.locator("#found").wait_for()
    first, second, *others = page.locator("#found button b").all_inner_texts()
    assert first == second == "Fastest framework" not in others
    assert "oneflow 0.2.0" in page.locator("#found button").first.inner_text()
    # Words that only a sentence needs are no part of the search.
    page.locator("#find").fill("which framework is the fastest for bert on 4n8d")
    page.locator(
        "#found button",
        has_text="bert-base · 32 · fp32 · no clipping · fastest: oneflow 0.2.0 · throughput: 4,019 seq/s",
    ).wait_for()


def test_the_column_that_a_search_names_precedes_the_others_of_the_row(opened):
    page = opened("dlperf-v1.0")
    first = page.locator("#found button").first
    page.locator("#find").fill("batch 64 bert 4n8d oneflow")
    first.get_by_text("oneflow 0.1.9 fp32 · batch 64: 4,310 · batch 24: 3,312").wait_for()
    page.locator("#find").fill("efficiency torch 4n8d")
    first.get_by_text("highest on 4n8d · 4n8d: 87.8% · case: torch 1.5.0a0").wait_for()


def test_a_search_for_a_compiler_finds_nothing_that_was_not_compiled(opened):
    page = opened("dlperf-v1.0")
    page.locator("#find").fill("efficiency tensorflow xla resnet50 4n8d")
    page.locator("#found").wait_for()
    hits = page.locator("#found button").all_inner_texts()
    assert len(hits) == 2 and all("efficiency: 76.1%" in hit for hit in hits)
    page.locator("#find").fill("efficiency tensorflow without xla resnet50 4n8d")
    page.locator("#found button", has_text="lowest on 4n8d · 4n8d: 82.0%").wait_for()


def test_the_best_batch_size_and_the_hint_of_the_search_are_not_cut_off(opened):
    page = opened("dlperf-v1.0", viewport={"width": 1400, "height": 900})
    for title in ("img/s", "seq/s"):
        table, rows = shown(page, f"Throughput \\({title}\\) by batch size")
        table.evaluate("table => { table.closest('details.part').open = true; }")
        assert table.evaluate("table => table.offsetWidth <= table.parentElement.clientWidth")
        assert any(row[2].endswith("×)") for row in rows())
    page = opened("tensorpack", viewport={"width": 1400, "height": 900})
    table, _ = shown(page, "Throughput \\(img/s\\) by batch size")
    table.evaluate("table => { table.closest('details.part').open = true; }")
    overlapping = """cells => cells.filter(cell => {
      const range = document.createRange();
      range.selectNodeContents(cell);
      const end = cell.getBoundingClientRect().right - parseFloat(getComputedStyle(cell).paddingRight);
      return range.getBoundingClientRect().right > end + 1;
    }).map(cell => cell.textContent)"""
    assert table.locator("tbody td").evaluate_all(overlapping) == []
    page = opened("dlperf-v1.0", viewport={"width": 360, "height": 740}, is_mobile=True)
    is_clipped = """field => {
      const style = getComputedStyle(field);
      const pen = document.createElement('canvas').getContext('2d');
      pen.font = style.font;
      const room = field.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
      return pen.measureText(field.placeholder).width > room;
    }"""
    assert page.locator("#find").evaluate(is_clipped) is False


@pytest.mark.parametrize("word", ["BERT", "OOM", "out of memory", "bert-base oom"])
@pytest.mark.parametrize("caption", ["Throughput \\(seq/s\\) by batch size", "15 of 67 series"])
def test_a_table_is_searched_for_its_model_and_for_what_ran_out_of_memory(opened, word, caption):
    page = opened("dlperf-v1.0", viewport={"width": 1400, "height": 900})
    page.evaluate("document.querySelectorAll('details.part').forEach(each => { each.open = true; })")
    table, rows = shown(page, caption)
    box_of(table).get_by_role("searchbox").fill(word)
    box_of(table).get_by_role("status").filter(has_text=re.compile("Rows 1")).wait_for()
    page.wait_for_timeout(300)
    assert rows()
    if word != "BERT":
        assert all(any("OOM" in cell for cell in row) for row in rows())
    box_of(table).get_by_role("searchbox").fill("resnet152")
    box_of(table).get_by_text("The table does not have “resnet152”.").wait_for()


def test_the_page_of_a_phone_is_short_and_its_search_stays_in_view(opened):
    page = opened("dlperf-v1.0", viewport={"width": 390, "height": 844}, is_mobile=True)
    assert page.evaluate("document.documentElement.scrollHeight") < 15_000
    lines = page.locator("table.stacked:visible tbody tr:visible").evaluate_all(
        "rows => rows.map(row => row.getBoundingClientRect().height / parseFloat(getComputedStyle(row).fontSize) / 1.5)"
    )
    assert len(lines) > 30 and max(lines) < 13 and sorted(lines)[len(lines) // 2] < 8
    answers = page.locator("details.part:not([open]) .answer").all_inner_texts()
    assert "7 cases ran out of memory (OOM); 52 of 67 series lack a topology." in answers
    assert "169 of 323 figures deviate from the prescribed protocol." in answers
    page.evaluate("window.scrollTo(0, 6000)")
    for name in ("#find", ".to-contents"):
        box = page.locator(name).bounding_box()
        assert 0 <= box["y"] < 60 and box["x"] + box["width"] <= 390
    # A long table and long notes begin with their first rows.
    table = page.locator("table", has=page.locator("caption", has_text="Fastest framework, its"))
    assert table.locator("tbody tr:visible").count() == 6
    page.get_by_role("button", name="Show all 34").click()
    assert table.locator("tbody tr:visible").count() == 34


@pytest.mark.parametrize("width", [1400, 1280, 390])
def test_a_mark_stays_on_the_line_of_its_number(opened, width):
    page = opened("dlperf-v1.0", viewport={"width": width, "height": 900}, is_mobile=width < 500)
    broken = page.evaluate(
        """() => [...document.querySelectorAll('td')].flatMap(cell => {
          const node = cell.firstChild;
          const marked = node && node.data ? [...node.data.matchAll(/\\S+[ \\u00a0](\\*|\\[\\d+\\])(?=$|\\n)/g)] : [];
          return marked.filter(found => {
            const range = document.createRange();
            range.setStart(node, found.index);
            range.setEnd(node, found.index + found[0].length);
            const boxes = [...range.getClientRects()].filter(box => box.width);
            return new Set(boxes.map(box => Math.round(box.top))).size > 1;
          }).map(found => found[0]);
        })"""
    )
    assert broken == []


def test_the_strategy_of_a_source_is_found_by_the_source_s_name(opened):
    page = opened("tensorpack", viewport={"width": 1400, "height": 900})
    table, rows = shown(page, "Each figure")
    box_of(table).get_by_role("searchbox").fill("replicated 1n8d")
    box_of(table).get_by_text("found of 37").wait_for()
    assert rows() and all("replicated (all_reduce)" in row for row in rows())
    head = table.locator("thead th", has_text="strategy").bounding_box()
    assert head["x"] + head["width"] <= 1400


@pytest.mark.parametrize("width", [1400, 390])
def test_no_version_is_broken_into_lines(opened, width):
    page = opened("dlperf-v1.0", viewport={"width": width, "height": 900}, is_mobile=width < 500)
    broken = page.evaluate(
        """version => {
          const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
          const found = [];
          while (texts.nextNode()) {
            const node = texts.currentNode;
            for (let at = node.data.indexOf(version); at >= 0; at = node.data.indexOf(version, at + 1)) {
              const range = document.createRange();
              range.setStart(node, at);
              range.setEnd(node, at + version.length);
              const lines = new Set([...range.getClientRects()].filter(box => box.width).map(box => box.top));
              if (lines.size > 1) found.push(node.data);
            }
          }
          return found;
        }""",
        "1.8.3.post107",
    )
    assert broken == []


def test_plots_reserve_their_height(opened):
    page = opened("dlperf-v1.0", viewport={"width": 1400, "height": 900})
    heights = page.locator(".plot[data-drawn=yes] .drawing").evaluate_all(
        "all => all.map(each => [each.offsetHeight, parseFloat(each.style.minHeight)])"
    )
    assert len(heights) >= 4 and all(abs(drawn - reserved) <= 12 for drawn, reserved in heights), heights


@pytest.mark.parametrize("number", ["5,716.79", "5716.79"])
def test_a_number_is_found_with_and_without_commas(opened, number):
    page = opened("dlperf-v1.0")
    table, rows = shown(page, "Each figure")
    box_of(table).get_by_role("searchbox").fill(f"torch, {number}")
    box_of(table).get_by_text("1 found of 323").wait_for()
    assert "5,716.79 img/s" in rows()[0]


def test_on_a_phone_one_row_more_than_a_page_has_takes_no_second_page(opened):
    page = opened("dlperf-v1.0", viewport={"width": 390, "height": 844}, is_mobile=True)
    table, rows = shown(page, "Throughput \\(seq/s\\) by batch size")
    table.evaluate("table => { table.closest('details.part').open = true; }")
    box = box_of(table)
    assert len(rows()) == 6 and box.get_by_role("button", name="Next").is_visible()
    box.get_by_role("searchbox").fill("fp32 batch 32 1n8d")
    box.get_by_text("Rows 1 to 7 of 7 found of 76").wait_for()
    assert len(rows()) == 7 and not box.get_by_role("button", name="Next").is_visible()


def test_on_a_phone_filters_are_shown_on_request(opened):
    page = opened("dlperf-v1.0", viewport={"width": 390, "height": 844}, is_mobile=True)
    table, rows = shown(page, "Each figure")
    box = box_of(table)
    choice = box.get_by_label("framework")
    assert not choice.is_visible() and not table.locator("thead").is_visible()
    box.get_by_role("button", name="Filter and sort").click()
    choice.select_option("torch")
    assert {row[0] for row in rows()} == {"torch"} and table.locator("thead").is_visible()
    label = "row => getComputedStyle(row, '::before').content"
    assert table.locator("thead tr").evaluate(label) == '"Sort by"'


@pytest.mark.parametrize("caption", ["Each figure", "pairs of implementations"])
def test_wide_tables_show_that_they_can_be_sorted(opened, caption):
    page = opened("dlperf-v1.0", viewport={"width": 1400, "height": 900})
    table, _ = shown(page, caption)
    arrows = "heads => heads.map(head => getComputedStyle(head, '::after').content.split(' ')[0])"
    assert set(table.locator("thead button").evaluate_all(arrows)) == {'"↕"'}


def test_one_choice_shows_plots_and_a_filter_moves_it(opened):
    page = opened("dlperf-v1.0")
    section = page.locator("section", has=page.locator("h2", has_text=re.compile("^Scaling$")))
    assert section.locator(".choice > details[open]").count() == 1
    section.locator("summary", has_text="Every series").click()
    table, _ = shown(page, "Efficiency of each series")
    box_of(table).get_by_label("workload").select_option("resnet50, 224 per device")
    section.locator(".choice > details[open] .plot[data-drawn=yes]").first.wait_for()
    assert "resnet50, 224 per device" in section.locator(".choice > details[open] .plot").first.inner_text()
    assert section.locator(".choice .legend:visible").count() == 1


def test_a_link_to_a_folded_section_brings_its_heading_to_the_top(opened):
    page = opened("tensorpack", viewport={"width": 1400, "height": 900})
    page.locator("nav a", has_text="Throughput").click()
    page.wait_for_selector("nav a[aria-current] >> text=Throughput")
    assert page.locator("h2", has_text="Throughput").bounding_box()["y"] < 200


def test_thousands_of_rows_come_in_pages(opened):
    page = opened("thousands")
    table, rows = shown(page, "3,000 results")
    box = box_of(table)
    first = rows()
    assert len(first) == 25
    box.get_by_role("button", name="Next").click()
    assert box.get_by_role("status").inner_text() == "Rows 26 to 50 of 3,000"
    assert rows() != first
    box.get_by_role("searchbox").fill("000bb7")
    box.get_by_text("Rows 1 to 1 of 1 found of 3,000").wait_for()
    assert rows()[0][-1].endswith("-000bb7")
    # Answering to the reader's hand takes what it takes to sort three thousand rows, not to draw them.
    assert page.locator("tbody tr").count() < 1000


def test_dark_and_light(opened):
    page = opened("campaign", color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(background)
    toggle = page.locator("#theme")
    assert toggle.inner_text() == "Light"
    toggle.focus()
    page.keyboard.press("Space")
    assert page.evaluate(background) == "rgb(255, 255, 255)" != dark
    label = page.locator(".role-axis-label text").first
    assert label.evaluate("each => getComputedStyle(each).fill") == "rgb(26, 31, 38)"
    toggle.click()
    assert page.evaluate(background) == dark
    assert label.evaluate("each => getComputedStyle(each).fill") == "rgb(231, 234, 239)"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", REPORTS)
def test_it_is_accessible(opened, name, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python")
    page = opened(name, color_scheme=scheme)
    actual = axe.Axe().run(page)
    assert actual.violations_count == 0, actual.generate_report()


@pytest.mark.parametrize("name", [*REPORTS, "hostile"])
def test_a_phone_needs_no_scrolling_sideways(opened, name):
    page = opened(name, viewport=PHONE, is_mobile=True, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    for drawing in page.locator(".plot .drawing svg").all():
        box = drawing.bounding_box()
        assert box["x"] + box["width"] <= PHONE["width"]


def test_on_paper(opened):
    page = opened("campaign", color_scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert not page.locator(".bar").is_visible()
    assert not page.locator(".tools").first.is_visible()
    assert page.locator(".plot svg").first.is_visible()
    assert page.pdf(format="A4").startswith(b"%PDF")
    # On paper no numbers are folded away, and afterwards the page is as it was.
    folded = page.locator("details.numbers:not([open])").count()
    assert folded > 0
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details.numbers:not([open])").count() == 0
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator("details.numbers:not([open])").count() == folded


def test_hostile_results_execute_nothing(opened, files):
    page = opened("hostile")
    # Whatever is hidden is shown, and every plot's tooltips are asked for.
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    page.wait_for_selector(".plot:not([data-drawn])", state="detached")
    for symbol in page.locator(".plot [class*=mark-symbol] path").all()[:40]:
        symbol.hover(force=True)
    page.locator("#find").fill("<img src=x onerror=alert(1)>")
    page.locator("#found").wait_for()
    page.keyboard.press("Escape")
    page.locator(".sortable").get_by_role("searchbox").first.fill("<img src=x onerror=alert(1)>")
    page.get_by_text("No row matches the search and the filters.").first.wait_for()
    assert page.title() == "Benchmark report · dlperf"
    assert page.locator("img").count() == 0
    assert page.evaluate(
        "[...document.querySelectorAll('*')].every(each => !each.onerror && !each.onload || each === document.body)"
    )
    assert page.said == []
    assert page.asked == [files("hostile").as_uri()]


def test_the_policy_is_in_force(opened):
    """What gets past everything else still runs nothing and reaches nobody."""
    page = opened("campaign")
    page.evaluate(
        """() => {
          const image = document.createElement('img'); image.src = 'http://192.0.2.1/x.png';
          const script = document.createElement('script'); script.textContent = "document.title = 'stolen'";
          document.body.append(image, script);
          fetch('http://192.0.2.1/').catch(() => {});
        }"""
    )
    end = time.monotonic() + 30
    while len([output for output in page.said if "Content Security Policy" in output]) < 3:
        assert time.monotonic() < end, page.said
        page.wait_for_timeout(100)
    assert page.title() == "Benchmark report · dlperf"


def test_tooltip_shows_the_numbers(opened):
    page = opened("campaign")
    page.locator(".plot .role-mark.mark-symbol path").first.hover(force=True)
    tooltip = page.locator("#vg-tooltip-element.visible")
    tooltip.wait_for()
    assert "img/s" in tooltip.inner_text()
