"""Environments that are rebuilt from the lock of a result: what of it the plugin does not declare."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlperf_sdk import environments
from dlperf_sdk.errors import DocumentError, PluginError
from dlperf_sdk.interfaces.framework import EnvironmentSpec

LOCK = """\
# Made by a program that writes hashes.
--index-url https://example.invalid/simple
-c more.txt

toydep==2.1 \\
    --hash=sha256:aaaa \\
    --hash=sha256:bbbb
    # via toyframe
toyframe[extra]==1.0 ; python_version >= "3.7" --hash=sha256:cccc  # via -r requirements.in
toyurl @ https://example.invalid/toyurl.whl#sha256=dddd
"""


@pytest.fixture(autouse=True)
def _no_environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLPERF_CACHE_DIR", str(tmp_path / "cache"))


def unlisted(
    *pins: str, lock: Path | None = None, requirements: tuple[str, ...] = ("toyframe",)
) -> list[str]:
    declared = EnvironmentSpec(python=">=3.7", requirements=requirements, lock=lock)
    text = "".join(f"{pin}\n" for pin in pins)
    return environments.list_unlisted_packages("toy", "cpu", "3.11.7", text, declared)


def test_packages_of_a_lock_with_hashes_and_options_are_known(tmp_path: Path) -> None:
    (tmp_path / "lock.txt").write_text(LOCK)
    pins = ("toydep==2.4", "toyframe==1.0", "toyurl==1", "stranger==9")
    assert unlisted(*pins, lock=tmp_path / "lock.txt") == ["stranger==9"]


def test_a_lock_that_cannot_be_read_is_the_plugins_fault(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="The lock file that toy's plugin names cannot be read"):
        unlisted("toyframe==1.0", lock=tmp_path / "none.txt")
    (tmp_path / "lock.txt").write_text("not a requirement\n")
    with pytest.raises(PluginError, match="'not a requirement', which is not a requirement"):
        unlisted("toyframe==1.0", lock=tmp_path / "lock.txt")
    with pytest.raises(PluginError, match="which is not a requirement"):
        unlisted("toyframe==1.0", requirements=("not a requirement",))


@pytest.mark.parametrize(
    "line", ["a ==\t" * 10_000, "a==1," + "==1," * 10_000 + "==1"], ids=["invalid", "many"]
)
def test_a_long_line_of_a_lock_is_shortened_in_the_message(line: str) -> None:
    with pytest.raises(DocumentError, match="Line 1 of the lock is 'a ?==") as raised:
        unlisted(line)
    assert len(str(raised.value)) < 200
