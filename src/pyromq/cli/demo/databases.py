"""A database of this machine for the demo of `pyromq cdc`: in its own folder, on a free loopback port, thrown away."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...ambient import Clock
from ...errors import PyroError

TABLE = "shop.orders"
_USER, _PASSWORD = "cdc", "demo"
_MISSING = {
    "mariadb": "MariaDB is not installed. On Debian: apt-get install mariadb-server",
    "postgresql": "PostgreSQL is not installed. On Debian: apt-get install postgresql",
}
_MOST_SOCKET_PATH = 107  # bytes, of Linux
_LONGEST_SOCKET = len("/.s.PGSQL.65535")


def find_program(name: str, *places: str) -> str:
    """Return where a program is, also of those that Debian has on no path; empty if it is nowhere."""
    found = [str(path) for place in places for path in sorted(Path("/").glob(place.lstrip("/")))]
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin") or (found or [""])[-1]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@dataclass(frozen=True)
class MariaDb:
    """`admin` is whoever the server runs as: its socket lets him in without a password."""

    folder: Path
    port: int
    kind = "mariadb"
    table = TABLE

    @property
    def url(self) -> str:
        return f"mariadb://{_USER}:{_PASSWORD}@127.0.0.1:{self.port}"

    @property
    def settings(self) -> Sequence[str]:
        return ("--include", "shop.*")

    def make(self) -> None:
        """Make the files of a new server."""
        words = [find_program("mariadb-install-db"), "--no-defaults", f"--datadir={self.folder / 'data'}"]
        words += ["--auth-root-authentication-method=normal", "--skip-test-db", f"--user={_own_name()}"]
        _do(words)

    @property
    def words(self) -> list[str]:
        return [
            find_program("mariadbd"), "--no-defaults", f"--datadir={self.folder / 'data'}", f"--port={self.port}",
            f"--socket={self.folder / 'socket'}", f"--user={_own_name()}", "--bind-address=127.0.0.1", "--server-id=1",
            "--log-bin=log", "--binlog-format=ROW", "--binlog-row-metadata=FULL", "--sync-binlog=1",
            "--innodb-flush-log-at-trx-commit=1", "--skip-name-resolve",
        ]  # fmt: skip

    def connect(self, database: str = "shop") -> Any:
        import pymysql

        where = str(self.folder / "socket")
        return pymysql.connect(unix_socket=where, user="root", database=database or None, connect_timeout=5)

    def prepare(self) -> None:
        """Make the user of the capture, and the table."""
        rights = "SELECT, RELOAD, REPLICATION SLAVE, REPLICATION CLIENT, BINLOG MONITOR"
        self.run(f"CREATE USER {_USER} IDENTIFIED BY '{_PASSWORD}'", f"GRANT {rights} ON *.* TO {_USER}", database="")
        self.run("CREATE DATABASE shop CHARACTER SET utf8mb4", database="")
        self.run(
            "CREATE TABLE orders (id int PRIMARY KEY, customer varchar(40), price decimal(10,2), paid datetime(3))"
        )

    def run(self, *statements: str, database: str = "shop") -> None:
        """Run statements in one transaction."""
        with closing(self.connect(database)) as connection:
            with connection.cursor() as cursor:
                for each in statements:
                    cursor.execute(each)
            connection.commit()


@dataclass(frozen=True)
class Postgres:
    """It does not run as root: then as the user whom Debian's package makes."""

    folder: Path
    port: int
    kind = "postgresql"
    table = "shop.public.orders"

    @property
    def url(self) -> str:
        return f"postgresql://{_USER}:{_PASSWORD}@127.0.0.1:{self.port}/shop"

    @property
    def settings(self) -> Sequence[str]:
        return ("--include", "shop.public.*")

    @property
    def user(self) -> str | None:
        return "postgres" if os.getuid() == 0 else None

    def make(self) -> None:
        """Make the files of a new server."""
        if self.user is not None:
            self.folder.parent.chmod(0o711)  # of the demo, for this user to come through
            os.chown(self.folder, pwd.getpwnam(self.user).pw_uid, pwd.getpwnam(self.user).pw_gid)
        words = [_postgres("initdb"), "-D", str(self.folder / "data"), "-U", "demo", "-A", "trust", "-E", "UTF8"]
        _do([*words, "--locale=C.UTF-8"], self.user)

    @property
    def words(self) -> list[str]:
        return [
            *_as_user(self.user), _postgres("postgres"), "-D", str(self.folder / "data"), "-p", str(self.port),
            "-k", str(self.folder), "-c", "listen_addresses=127.0.0.1", "-c", "wal_level=logical",
        ]  # fmt: skip

    def connect(self, database: str = "shop") -> Any:
        import psycopg2

        found = psycopg2.connect(host=str(self.folder), port=self.port, user="demo", dbname=database or "postgres")
        found.autocommit = not database  # a database is made in no transaction
        return found

    def prepare(self) -> None:
        """Make the user of the capture, and the table."""
        self.run(f"CREATE ROLE {_USER} LOGIN REPLICATION PASSWORD '{_PASSWORD}'", "CREATE DATABASE shop", database="")
        self.run(
            "CREATE TABLE orders (id int PRIMARY KEY, customer text, price numeric(10,2), paid timestamp(3))",
            f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {_USER}",
            f"CREATE PUBLICATION pyromq_{_USER} FOR TABLE orders",
        )

    def run(self, *statements: str, database: str = "shop") -> None:
        """Run statements in one transaction."""
        with closing(self.connect(database)) as connection:
            with connection.cursor() as cursor:
                for each in statements:
                    cursor.execute(each)
            connection.commit()


Database = MariaDb | Postgres


def choose_database(kind: str, folder: Path) -> Database:
    """Return a database that is not made yet: of this kind, or, without one, of what is there. PyroError if none is."""
    there = {"mariadb": find_program("mariadbd"), "postgresql": _postgres("postgres")}
    chosen = kind or next((name for name, program in there.items() if program), "")
    if not chosen:
        raise PyroError("no database is installed. On Debian: apt-get install mariadb-server (or postgresql)")
    if not there[chosen]:
        raise PyroError(_MISSING[chosen])
    place = folder / "database"
    if len(os.fsencode(place)) + _LONGEST_SOCKET > _MOST_SOCKET_PATH:
        raise PyroError(f"{folder} is too long a path for the sockets of databases: set TMPDIR to a short one, as /tmp")
    place.mkdir()
    return MariaDb(place, free_port()) if chosen == "mariadb" else Postgres(place, free_port())


async def until_it_answers(what: Callable[[], object], clock: Clock) -> None:
    """Wait until a server takes connections. Whoever calls bounds the wait."""
    while True:
        try:
            await asyncio.to_thread(what)
            return
        except Exception:  # each client has errors of its own
            await clock.sleep(0.2)


def _postgres(name: str) -> str:
    return find_program(name, f"/usr/lib/postgresql/*/bin/{name}")


def _own_name() -> str:
    return pwd.getpwuid(os.getuid()).pw_name


def _as_user(name: str | None) -> list[str]:
    """Return the words before a command that make it another user's."""
    if name is None:
        return []
    who = pwd.getpwnam(name)
    return ["setpriv", f"--reuid={who.pw_uid}", f"--regid={who.pw_gid}", "--clear-groups"]


def _do(words: list[str], user: str | None = None) -> None:
    done = subprocess.run(words, capture_output=True, text=True, user=user, cwd="/", check=False)
    if done.returncode:
        raise PyroError(f"{' '.join(words[:1])} ended with {done.returncode}: {(done.stderr or done.stdout)[-500:]}")
