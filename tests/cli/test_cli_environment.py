"""The program where things are not as usual: no home, another locale, odd names, files that are none."""

import json
import os
import resource
import stat
import subprocess
from pathlib import Path

import pytest
from cli_fixtures import dlperf as here  # noqa: F401
from cli_fixtures import stored  # noqa: F401
from test_cli_process import CASE, PROGRAM, dlperf, isolated_directory  # noqa: F401

from dlperf_sdk.results.store import ResultStore

pytestmark = pytest.mark.long


def paragraph(done, code):
    """What a failed command said: one paragraph, without a traceback, and the exit code."""
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith("Error: ")
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stdout + done.stderr
    assert "fault of dlperf-sdk" not in done.stderr
    return done.stderr


# -- the working directory, and names of files


@pytest.mark.parametrize("words", [CASE, ["env", "list"], ["report", "nothing"], ["list"]])
def test_a_working_directory_that_is_gone(words, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    line = 'cd "$1" && rmdir "$1" && shift && exec "$@"'
    done = subprocess.run(
        ["/bin/sh", "-c", line, "sh", str(gone), *PROGRAM, *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode:
        paragraph(done, 2)


LONG_NAME = "a" * 300


@pytest.mark.parametrize(
    "words",
    [
        ["run", LONG_NAME],
        ["plan", f"{LONG_NAME}.toml"],
        ["report", LONG_NAME],
        ["rerun", LONG_NAME],
        ["validate", f"{LONG_NAME}.json"],
        ["cost", LONG_NAME, "--per-kwh", "1"],
        ["gate", LONG_NAME, LONG_NAME],
        ["export", LONG_NAME, "--to", "csv"],
        ["ingest", LONG_NAME],
        ["campaign", "plan", f"{LONG_NAME}.toml"],
        ["campaign", "status", LONG_NAME],
        ["run", *CASE[1:], "--output", LONG_NAME],
        ["run", *CASE[1:], "--python", LONG_NAME, "--quiet"],
        ["import", "dlperf-log", LONG_NAME],
        ["bundle", "numpy", "linear", "-o", LONG_NAME],
    ],
)
def test_a_name_that_no_file_can_have(words, here):
    code, out, err = here(*words)
    assert code in (2, 3), err
    assert err.startswith("Error: ")
    assert "Traceback" not in out + err
    assert "fault of dlperf-sdk" not in err


def test_an_output_with_blanks_and_line_breaks_in_its_name(tmp_path):
    odd = "a b\n\x1b[31mc"
    done = dlperf(*CASE, "--output", odd)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    store = ResultStore(tmp_path / odd)
    (run_id,) = store.ids()
    assert store.load(run_id).status == "ok"
    again = dlperf("report", odd)
    assert again.returncode == 0
    assert "numpy linear" in again.stdout


def test_an_interpreter_with_blanks_and_line_breaks_in_its_name(tmp_path, monkeypatch):
    monkeypatch.setenv("DLPERF_CACHE_DIR", str(tmp_path / "cache"))
    odd = tmp_path / "a b\nc"
    odd.mkdir()
    (odd / "python").write_text(f'#!/bin/sh\nexec "{os.path.realpath("/proc/self/exe")}" "$@"\n')
    (odd / "python").chmod(0o700)
    actual = dlperf("env", "list", "--json")
    assert json.loads(actual.stdout) == {"environments": []}
    done = dlperf(*CASE, "--python", str(odd / "python"), "--json")
    # It has what the case needs, or says what it lacks: it is started either way.
    assert done.returncode in (0, 3), done.stderr
    assert "no such file" not in done.stderr


@pytest.mark.timeout(60)  # whoever opens the pipe waits for a writer
@pytest.mark.parametrize("suffix", [".json", ".toml", ".yaml"])
def test_spec_that_is_not_a_file_is_refused(suffix, here, tmp_path):
    pipe, folder, large = (tmp_path / f"{name}{suffix}" for name in ("pipe", "folder", "large"))
    os.mkfifo(pipe)
    folder.mkdir()
    with large.open("wb") as file:
        file.truncate(2 * 2**30)
    requested = [(command, path) for command in ("run", "plan") for path in (pipe, folder, large)]
    for command, path in [*requested, ("validate", pipe)]:
        done = subprocess.CompletedProcess((), *here(command, str(path)))
        assert ("larger than" if path == large else "is not a file") in paragraph(done, 2)


@pytest.mark.timeout(60)  # whoever opens the pipe waits for a reader
def test_an_output_that_is_a_pipe_is_not_replaced(here, tmp_path):
    os.mkfifo(tmp_path / "pipe.html")
    for command in (("report", "--published", "dlperf-v1.0"), ("bundle", "numpy", "linear")):
        done = subprocess.CompletedProcess((), *here(*command, "--output", str(tmp_path / "pipe.html")))
        assert "pipe.html is not a regular file" in paragraph(done, 2)
    assert stat.S_ISFIFO((tmp_path / "pipe.html").stat().st_mode)


def test_a_bundle_that_cannot_be_written_is_a_typed_error():
    limit = resource.RLIMIT_FSIZE, (1000, 1000)
    done = dlperf(
        "bundle", "numpy", "linear", "--output", "b.pyz", preexec_fn=lambda: resource.setrlimit(*limit)
    )
    assert "b.pyz cannot be written: File too large; raise `ulimit -f`." in paragraph(done, 2)


# -- variables


def surroundings(**changes):
    """This process's variables, changed; None takes one out."""
    actual = {**os.environ, **{name: value for name, value in changes.items() if value is not None}}
    return {name: value for name, value in actual.items() if changes.get(name, "") is not None}


@pytest.mark.parametrize("locale", ["C", "nowhere.UTF-8"])
def test_another_locale(locale, tmp_path):
    odd = "Ergebnisse-ü-№"
    variables = surroundings(LC_ALL=locale, LANG=locale, PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    done = dlperf(*CASE, "--output", odd, env=variables, encoding="utf-8", errors="replace")
    assert done.returncode == 0, done.stderr
    assert "numpy linear" in done.stdout
    assert len(ResultStore(tmp_path / odd).ids()) == 1
    assert "Traceback" not in done.stderr
    wrong = dlperf("run", "numpy", "linéar", env=variables, encoding="utf-8", errors="replace")
    assert paragraph(wrong, 2)


def test_a_folder_for_temporary_files_that_is_not_there(tmp_path):
    done = dlperf(*CASE, "--quiet", "--json", env=surroundings(TMPDIR=str(tmp_path / "nowhere")))
    assert done.returncode == 4, done.stderr
    failure = json.loads(done.stdout)["failure"]
    assert failure["kind"] == "unavailable"
    assert "nowhere" in failure["message"]


def test_no_home(tmp_path):
    variables = surroundings(HOME=None, DLPERF_CACHE_DIR=None, XDG_CACHE_HOME=None)
    done = dlperf(*CASE, env=variables)
    assert done.returncode == 0, done.stderr


def test_a_home_that_cannot_be_written_to():
    variables = surroundings(HOME="/proc/self", DLPERF_CACHE_DIR=None, XDG_CACHE_HOME=None)
    done = dlperf(*CASE, env=variables)
    assert done.returncode == 0, done.stderr
    assert "DLPERF_CACHE_DIR" in paragraph(dlperf("env", "list", env=variables), 3)


# -- what is asked of results


def test_showing_a_failed_run_succeeds(here, tmp_path):
    assert here("run", "faulty", *CASE[2:], "--set", "fault=exception", "--quiet")[0] == 4
    code, out, err = here("report")
    assert (code, err) == (0, "")
    assert "failed: crashed" in out
    second = [*CASE[2:-1], "2", "--set", "fault=hang-step-second", "--deadline", "step=0.5"]
    assert here("run", "faulty", *second, "--quiet")[0] == 5
    code, out, err = here("report")
    assert (code, err) == (0, "")
    assert here("report", "--format", "csv")[0] == 0
    assert here("export", "--to", "csv")[0] == 0


def test_redacting_takes_no_name(here, monkeypatch):
    import getpass

    def nobody():
        raise KeyError("getpwuid(): uid not found: 54321")

    monkeypatch.setattr(getpass, "getuser", nobody)
    code, out, err = here(*CASE, "--redact", "--quiet")
    assert (code, err) == (0, "")
    assert "numpy linear" in out


# -- bytes on standard output


def test_parquet_to_a_closed_pipe_is_not_a_crash(here, stored):
    stored()
    with subprocess.Popen(
        [*PROGRAM, "export", "--to", "parquet"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        program.stdout.close()
        err = program.stderr.read()
        assert program.wait(60) == 0
    assert err == ""


def test_parquet_on_a_full_disk_is_reported(here, stored):
    stored()
    with Path("/dev/full").open("w") as full:
        done = dlperf("export", "--to", "parquet", stdout=full, stderr=subprocess.PIPE, capture_output=False)
    assert done.returncode == 2
    assert done.stderr == "Error: Standard output cannot be written: No space left on device.\n"


def test_a_path_that_cannot_be_ingested_is_named_once(here, tmp_path):
    for path in (tmp_path / "nothing", tmp_path):
        code, _, err = here("ingest", str(path))
        assert code == 2
        assert err.count(str(tmp_path)) == 1
        assert err.endswith("cannot be read: No such file or directory.\n")


@pytest.mark.parametrize("text", ["", "text\n", "[" * 100_000 + "\n"], ids=["empty", "text", "nested"])
def test_a_file_without_an_event_of_a_run_is_named(text, here, tmp_path):
    path = tmp_path / "data.json"
    path.write_text(text)
    code, _, err = here("ingest", str(path))
    assert code == 2
    assert err.startswith(f"Error: {path}: No line is an event of a run. Expected the events.jsonl")
