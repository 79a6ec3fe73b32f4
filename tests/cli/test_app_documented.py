"""Commands that README and docs mention in a sentence or a table: they exist, and have the flags."""

import re
from pathlib import Path

import pytest

from dlperf_sdk.cli import main
from dlperf_sdk.cli.app import COMMANDS, build_app

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
FEATURES = ROOT / "docs/reference/features.md"
SPAN = re.compile(r"(?<!`)`dlperf ([^`]+)`(?!`)")
OF_EVERY_COMMAND = {"--help", "--version"}


def unknown(typed):
    """Return the words of a command, without `dlperf`, that name no command or no flag of it."""
    words = typed.split()
    flags = {word.partition("=")[0] for word in words if word.startswith("--")}
    if words[0] not in COMMANDS:
        return flags - OF_EVERY_COMMAND | ({words[0]} - flags)
    command = build_app(words[0])[words[0]]
    if len(words) > 1 and words[1].isalpha() and words[1] in command:
        command = command[words[1]]
    if command.default_command is None:
        return flags - OF_EVERY_COMMAND
    known = {
        name
        for argument in command.assemble_argument_collection(parse_docstring=False)
        for name in argument.names
    }
    return flags - known - OF_EVERY_COMMAND


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_text_exist(page):
    wrong = {span: words for span in SPAN.findall(page.read_text()) if (words := unknown(span))}
    assert not wrong


def test_a_wrong_command_or_flag_is_found():
    assert unknown("runn torch") == {"runn"}
    assert unknown("run torch resnet50 --batch-siz 2") == {"--batch-siz"}
    assert unknown("campaign resume --every") == {"--every"}
    assert not unknown("campaign resume DIR")


@pytest.mark.parametrize("case", re.findall(r"`dlperf run (torch [^`]+)`", FEATURES.read_text()))
def test_cases_of_the_features_page_can_be_planned(case):
    if case.endswith("--batch-size max"):
        pytest.skip("only a measurement finds the largest batch size")
    assert main(["run", *case.split(), "--dry-run"]) == 0


def test_the_fleet_of_the_features_page_can_choose_its_nodes():
    (typed,) = re.findall(r"`dlperf fleet ([^`]+)`", FEATURES.read_text())
    assert "--topology 1n1d@ssh" in typed
