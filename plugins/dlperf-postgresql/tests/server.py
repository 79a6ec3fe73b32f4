"""A PostgreSQL server of the tests' own: a new cluster on loopback, run by an unprivileged user, ended by its pid."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import closing
from pathlib import Path

import psycopg

PACKAGE = "postgresql"
PASSWORD = "s3cret-Geheim/@:x"
QUOTED = "s3cret-Geheim%2F%40%3Ax"
"""The password in a URL."""


def find_programs() -> Path | None:
    """Return the folder with the newest `postgres` and `initdb`; None if there is none."""
    on_path = shutil.which("postgres")
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    folders += [Path(on_path).parent] if on_path else []
    usable = [
        folder for folder in folders if all((folder / name).exists() for name in ("postgres", "initdb"))
    ]
    return usable[-1] if usable else None


def can_install() -> bool:
    """Return True if this user can install packages of the distribution: then the tests are not skipped."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def install() -> None:
    """Install the distribution's package if it is missing and can be installed, without a server of its own."""
    if find_programs() is not None or not can_install():
        return
    settings = Path("/etc/postgresql-common/createcluster.conf")
    if not settings.exists():
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text("create_main_cluster = false\n")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    options = ("--no-install-recommends", "-o", "Dpkg::Options::=--force-confold")
    for words in (("update", "-qq"), ("install", "-y", "-qq", *options, PACKAGE)):
        subprocess.run(["apt-get", *words], env=environment, capture_output=True, check=False)


class Server:
    """A server with the superuser `admin`, which has `PASSWORD`."""

    def __init__(self, programs: Path) -> None:
        self.programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="dlperf-postgresql-"))
        self._user = _unprivileged_user()
        if self._user is not None:
            os.chown(self.folder, pwd.getpwnam(self._user).pw_uid, -1)
        with closing(socket.socket()) as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        self._run(
            "initdb", "-U", "admin", "-A", "scram-sha-256", "--pwfile", str(secret), "--no-sync", "-E", "UTF8"
        )
        self.start()
        self.execute("CREATE DATABASE team", "postgres")

    def start(self) -> None:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": self.folder,
            "fsync": "off",
            "max_connections": 40,
        }
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        self.process = subprocess.Popen(
            [str(self.programs / "postgres"), "-D", str(self.folder / "data"), *words],
            user=self._user,
            extra_groups=[] if self._user else None,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 60
        while True:
            try:
                self.execute("SELECT 1", "postgres")
                return
            except psycopg.OperationalError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End the server: SIGINT as an administrator does, SIGQUIT as a crash."""
        self.process.send_signal(how)
        self.process.wait(60)

    def pause(self, backend: int) -> None:
        """Stop one of the server's processes, as a machine that hangs."""
        os.kill(backend, signal.SIGSTOP)

    def resume(self, backend: int) -> None:
        os.kill(backend, signal.SIGCONT)

    def close(self) -> None:
        if self.process.poll() is None:
            self.stop(signal.SIGQUIT)  # nothing has to reach the disk
        shutil.rmtree(self.folder)

    def empty_database(self) -> str:
        """Remove all results, and return the URL of the database without user and password."""
        self.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = 'team' AND pid <> pg_backend_pid(); DROP SCHEMA IF EXISTS dlperf CASCADE",
            "team",
        )
        return f"postgresql://127.0.0.1:{self.port}/team"

    def execute(self, sql: str, database: str) -> list[tuple]:
        """Run statements as the superuser, and return the rows of the last."""
        database = database.rpartition("/")[2]
        with psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user="admin",
            password=PASSWORD,
            dbname=database,
            autocommit=True,
        ) as connection:
            cursor = connection.execute(sql)
            while cursor.nextset():
                pass
            return cursor.fetchall() if cursor.description else []

    def _run(self, program: str, *words: str) -> None:
        subprocess.run(
            [str(self.programs / program), "-D", str(self.folder / "data"), *words],
            user=self._user,
            extra_groups=[] if self._user else None,
            cwd=self.folder,
            check=True,
            capture_output=True,
        )


def _unprivileged_user() -> str | None:
    """Return the user that runs the server: none for the current one, as PostgreSQL does not run as root."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"
