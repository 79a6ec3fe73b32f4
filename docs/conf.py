"""Configuration of the documentation site: Sphinx, Markdown pages with MyST, the theme Furo.

Sphinx was chosen for its API reference from docstrings and its checked cross-references, MyST so that the pages are the
Markdown that a repository browser shows. Reference pages with a `GENERATED` mark get their content at build time.
"""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import dlperf_sdk
from dlperf_sdk.cli.app import build_app
from dlperf_sdk.results.verdicts import VERDICTS
from dlperf_sdk.spec.compiler import COMPILERS
from dlperf_sdk.spec.data_source import DATA_SOURCES
from dlperf_sdk.spec.part import PARTS
from dlperf_sdk.spec.precision import PRECISIONS
from dlperf_sdk.spec.strategy import STRATEGIES

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
# Pages of published figures begin with a heading of the second level; two errors have the same name in two modules.
suppress_warnings = ["myst.header", "ref.python"]

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


def schema_reference() -> str:
    """Return a table of the fields of each document."""
    parts = []
    for path in sorted((ROOT / "schemas").glob("*.schema.json")):
        schema = json.loads(path.read_text(encoding="utf-8"))
        required = schema.get("required", ())
        rows = [
            f"| `{name}` | {'yes' if name in required else 'no'} | {_cell(field.get('description', ''))} |"
            for name, field in schema.get("properties", {}).items()
        ]
        table = ["| field | required | meaning |", "|---|---|---|", *rows] if rows else []
        parts.append(
            "\n".join([f"## {schema['title']} (`{path.name}`)", "", schema["description"], "", *table])
        )
    return "\n\n".join(parts)


def verdict_reference() -> str:
    """Return a table of all checks that have a verdict."""
    rows = [f"| `{check.name}` | `{check.kind}` | {_cell(check.passes_if)} |" for check in VERDICTS]
    return "\n".join(["| check | kind | passes if |", "|---|---|---|", *rows])


def declared_reference() -> str:
    """Return a table of the declared objects for each of the settings that names one."""
    sections = (
        ("Precision", "precision", [(one.name, one.help) for one in PRECISIONS]),
        ("Compiler", "compiler", [(one.name, one.help) for one in COMPILERS]),
        ("Strategy", "strategy", [(one.name, one.help) for one in STRATEGIES]),
        ("Data source", "data", [(one.usage, one.help) for one in DATA_SOURCES]),
        ("Part of a step", "only", [(one.name, one.help) for one in PARTS]),
    )
    return "\n\n".join(
        "\n".join(
            [
                f"## {title}",
                "",
                f"The default is `--{flag} {rows[0][0]}`.",
                "",
                f"| `--{flag}` | meaning |",
                "|---|---|",
                *(f"| `{name}` | {_cell(text)} |" for name, text in rows),
            ]
        )
        for title, flag, rows in sections
    )


GENERATED = {
    "reference/api": api_reference,
    "reference/cli": cli_reference,
    "reference/run-settings": declared_reference,
    "reference/schemas": schema_reference,
    "reference/verdicts": verdict_reference,
}
"""Page → the function that returns its content."""


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())


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
