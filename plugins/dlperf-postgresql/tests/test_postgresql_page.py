"""The how-to page works: every code block is executed, in order, on a server of the tests'."""

import os
from pathlib import Path

import attrs
from code_blocks import blocks_of, execute
from server import PASSWORD

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "share-results.md"


def test_the_page_works(server, tmp_path, monkeypatch):
    settings = {"PGHOST": "127.0.0.1", "PGPORT": str(server.port), "PGUSER": "admin", "PGPASSWORD": PASSWORD}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", str(server.programs), prepend=os.pathsep)
    *blocks, sql = blocks_of(PAGE)
    assert [block.language for block in (*blocks, sql)] == ["sh", "sh", "sh", "python", "sql"]
    for block in blocks:
        # Here the framework is one that needs no environment of its own.
        text = block.text.replace("torch resnet50", "numpy linear").replace("resnet50", "linear")
        execute(attrs.evolve(block, text=text), tmp_path)
    assert server.execute("SELECT count(*) FROM dlperf.results WHERE framework = 'numpy'", "benchmarks") == [
        (2,)
    ]
    server.empty_database()
    server.execute(sql.text, "team")
