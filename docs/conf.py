"""Configuration of the documentation site: Sphinx, Markdown pages with MyST, the theme Furo.

Sphinx was chosen for its API reference from docstrings and its checked cross-references, MyST so that the pages are the
Markdown that a repository browser shows. The pages about the API and the command line get their content at build time;
`scripts/reference_tables.py` writes the tables of other reference pages.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING

import dlperf_sdk
from dlperf_sdk.cli.app import build_app

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parent.parent
MARK = "<!-- GENERATED -->"

project = "dlperf-sdk"
author = "the dlperf-sdk authors"
version = release = dlperf_sdk.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = f"dlperf-sdk {release}"
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["site.css"]

myst_heading_anchors = 4
myst_links_external_new_tab = True
# Two errors have the same name in two modules.
suppress_warnings = ["ref.python"]

# In docstrings a single backtick marks code, as in Markdown.
default_role = "literal"
smartquotes = False
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_class_signature = "separated"
autodoc_preserve_defaults = True
maximum_signature_line_length = 88
add_module_names = False
toc_object_entries = False

API = {
    "Errors": ["dlperf_sdk.errors"],
    "Analysis": ["dlperf_sdk.analysis"],
    "Observer hooks": ["dlperf_sdk.hookspecs"],
    "Worker half of a framework plugin": [
        "dlperf_sdk.worker.interface",
        "dlperf_sdk.worker.trainer_hooks",
        "dlperf_sdk.worker.base_trainer",
    ],
}
"""Section → its modules, besides the names that `dlperf_sdk` exports."""


def cli_reference() -> str:
    """Return the reference of all commands."""
    text = build_app().generate_docs(output_format="markdown")
    return text[text.index("## dlperf run") :]


def api_reference() -> str:
    """Return autodoc directives for the names that `dlperf_sdk` exports, and for the modules in `API`."""
    exported = {name: getattr(dlperf_sdk, name) for name in dlperf_sdk.__all__}
    sections = {
        "Functions": [
            f".. autofunction:: dlperf_sdk.{n}" for n, v in exported.items() if inspect.isfunction(v)
        ],
        "Classes": [
            f".. autoclass:: dlperf_sdk.{name}\n   :members:"
            for name, value in exported.items()
            if inspect.isclass(value) and not issubclass(value, Exception)
        ],
        **{title: [f".. automodule:: {n}\n   :members:" for n in modules] for title, modules in API.items()},
    }
    return "\n".join(
        f"## {title}\n\n```{{eval-rst}}\n" + "\n\n".join(directives) + "\n```\n"
        for title, directives in sections.items()
    )


GENERATED = {
    "reference/api": api_reference,
    "reference/cli": cli_reference,
}
"""Page → the function that returns its content."""


def _fill_in(app: Sphinx, page: str, source: list[str]) -> None:
    if page in GENERATED:
        source[0] = source[0].replace(MARK, GENERATED[page]())
    # A page outside the site becomes a file to download.
    folder = Path(app.srcdir, page).parent

    def download(match: re.Match[str]) -> str:
        inside = (folder / match[1]).resolve().is_relative_to(app.srcdir)
        return match[0] if inside else f"](path:{match[1]})"

    source[0] = re.sub(r"\]\(((?:\.\./)+[^)#:]+)\)", download, source[0])


def _mark_examples(
    app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    """Mark indented paragraphs of docstrings as code: Markdown needs no mark for them, reStructuredText does."""
    text = "\n".join(lines)
    marked = re.sub(r"(?<!::)\n\n(?=    \S)", "\n\n::\n\n", text) if "\n\n    " in text else text
    lines[:] = marked.split("\n")


def setup(app: Sphinx) -> None:
    """Fill in the generated pages, and mark the examples in docstrings."""
    app.connect("source-read", _fill_in)
    app.connect("autodoc-process-docstring", _mark_examples, priority=400)
