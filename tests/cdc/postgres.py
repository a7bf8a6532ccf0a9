"""A PostgreSQL server of the tests' own: in its own folder, on a free port, with a log that can be decoded."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg2

from pyromq.cdc.address import ServerAddress
from pyromq.cdc.postgres.connection import PostgresConnection
from tests.interop.peers.process import Program
from tests.support import free_ports, require

LOGGING = ("-c", "wal_level=logical", "-c", "max_replication_slots=20", "-c", "max_wal_senders=20")
_PLACES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))  # Debian has it on no path


def require_postgres() -> None:
    require(bool(_PLACES), "PostgreSQL is not installed: apt-get install postgresql")


class Postgres:
    """One server. `kill` and `start` it again as often as a test wants. It does not run as root."""

    def __init__(self, options: Sequence[str] = LOGGING) -> None:
        self.folder, self.options = Path(tempfile.mkdtemp(prefix="pyromq-pg-", dir="/tmp")), options
        (self.port,) = free_ports(1)
        self.program: Program | None = None
        self.user = pwd.getpwnam("postgres") if os.getuid() == 0 else None
        if self.user is not None:
            os.chown(self.folder, self.user.pw_uid, self.user.pw_gid)
        made = [str(_PLACES[-1] / "initdb"), "-D", self.data, "-U", "admin", "-A", "md5", "-E", "UTF8"]
        made += ["--no-sync", "--locale=C.UTF-8", f"--pwfile={self._password_file()}"]
        self._do(made)
        self.start()
        self.run("CREATE DATABASE shop", database="postgres")
        self.run("CREATE ROLE cdc LOGIN REPLICATION PASSWORD 'secret'")

    def _password_file(self) -> Path:
        file = self.folder / "password"
        file.write_text("admin secret")
        file.chmod(0o644)
        return file

    def _do(self, words: list[str]) -> None:
        name = None if self.user is None else self.user.pw_name
        subprocess.run(words, check=True, capture_output=True, user=name, cwd="/")

    @property
    def data(self) -> str:
        return str(self.folder / "data")

    @property
    def address(self) -> ServerAddress:
        return ServerAddress(
            kind="postgresql", host="127.0.0.1", port=self.port, user="cdc", password="secret", database="shop"
        )

    @property
    def url(self) -> str:
        return f"postgresql://admin:admin%20secret@127.0.0.1:{self.port}/shop"

    def start(self) -> None:
        words = [
            str(_PLACES[-1] / "postgres"), "-D", self.data, "-p", str(self.port), "-k", str(self.folder),
            "-c", "listen_addresses=127.0.0.1", "-c", "shared_buffers=32MB", *self.options,
        ]  # fmt: skip
        if self.user is not None:
            words = ["setpriv", f"--reuid={self.user.pw_uid}", f"--regid={self.user.pw_gid}", "--clear-groups", *words]
        self.program = Program(words, name="postgres", cwd=Path("/"))
        self.program.wait_for("database system is ready to accept connections")

    def kill(self) -> None:
        if self.program is not None:
            self.program.kill()
            self.program = None

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextmanager
    def session(self, database: str = "shop") -> Iterator[Any]:
        connection = psycopg2.connect(
            host="127.0.0.1", port=self.port, user="admin", password="admin secret", dbname=database
        )
        connection.autocommit = database != "shop"
        try:
            with connection.cursor() as cursor:
                yield cursor
            connection.commit()
        finally:
            connection.close()

    def run(self, *statements: str, database: str = "shop") -> None:
        """Run each statement in a transaction of its own."""
        for statement in statements:
            with self.session(database) as cursor:
                cursor.execute(statement)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with self.session() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def connect(self) -> PostgresConnection:
        return PostgresConnection(self.address)

    def clear(self) -> None:
        """Leave the database as it was made: no tables, slots, publications."""
        self.run(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active",
            "DROP SCHEMA public CASCADE",
            "CREATE SCHEMA public",
            "GRANT USAGE ON SCHEMA public TO cdc",
            "ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO cdc",
        )
        for (name,) in self.rows("SELECT pubname FROM pg_publication"):
            self.run(f'DROP PUBLICATION "{name}"')
        self.run("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active")
