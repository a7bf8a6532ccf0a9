"""A MariaDB server of the tests' own: in its own folder, on a free port, with or without a log that can be captured."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pymysql

from pyromq.cdc.address import ServerAddress
from tests.interop.peers.process import Program
from tests.support import free_ports, require

LOGGING = ("--log-bin=log", "--binlog-format=ROW", "--binlog-row-metadata=FULL", "--server-id=1")


def require_mariadb() -> None:
    require(shutil.which("mariadbd") is not None, "`mariadbd` is not installed: apt-get install mariadb-server")


class MariaDb:
    """One server. `kill` and `start` it again as often as a test wants."""

    def __init__(self, folder: Path, options: Sequence[str] = LOGGING) -> None:
        self.folder, self.options = folder, options
        (self.port,) = free_ports(1)
        self.program: Program | None = None
        subprocess.run(
            ["mariadb-install-db", "--no-defaults", f"--datadir={folder / 'data'}",
             "--auth-root-authentication-method=normal",
             "--skip-test-db", f"--user={_user()}"],
            check=True, capture_output=True,
        )  # fmt: skip
        self.start()
        self.run("CREATE USER cdc@'%' IDENTIFIED BY 'secret'")
        self.run("GRANT SELECT, RELOAD, REPLICATION SLAVE, REPLICATION CLIENT, BINLOG MONITOR ON *.* TO cdc@'%'")
        self.run("CREATE DATABASE shop CHARACTER SET utf8mb4")

    @property
    def address(self) -> ServerAddress:
        return ServerAddress(host="127.0.0.1", port=self.port, user="cdc", password="secret")

    @property
    def url(self) -> str:
        return f"mariadb://cdc:secret@127.0.0.1:{self.port}"

    def start(self) -> None:
        self.program = Program(
            ["mariadbd", "--no-defaults", f"--datadir={self.folder / 'data'}", f"--port={self.port}",
             f"--user={_user()}", f"--socket={self.folder / 's'}", "--bind-address=127.0.0.1",
             "--innodb-flush-log-at-trx-commit=1",
             "--innodb-buffer-pool-size=32M",
             "--sync-binlog=1", "--skip-name-resolve", *self.options],
            name="mariadbd",
        )  # fmt: skip
        self.program.wait_for("ready for connections")

    def kill(self) -> None:
        if self.program is not None:
            self.program.kill()
            self.program = None

    @contextmanager
    def session(self, database: str = "shop") -> Iterator[Any]:
        connection = pymysql.connect(
            unix_socket=str(self.folder / "s"), user="root", database=database or None, charset="utf8mb4"
        )
        try:
            with connection.cursor() as cursor:
                yield cursor
            connection.commit()
        finally:
            connection.close()

    def run(self, *statements: str) -> None:
        with self.session("") as cursor:
            for statement in statements:
                cursor.execute(statement)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with self.session("") as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())


def _user() -> str:
    return "root" if os.getuid() == 0 else os.environ.get("USER", "")
