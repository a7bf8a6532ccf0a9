"""A MySQL server of the tests' own. Debian 12 has none: PYROMQ_TEST_MYSQLD names the program, wherever it came from."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from pyromq.cdc.address import ServerAddress
from tests.cdc.mariadb import MariaDb
from tests.interop.peers.process import Program
from tests.support import free_ports, require

SETTINGS = (
    "--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--binlog-row-metadata=FULL", "--log-bin=log", "--server-id=1",
    "--innodb-buffer-pool-size=32M", "--mysqlx=OFF", "--secure-file-priv=",
)  # fmt: skip


def require_mysqld() -> str:
    program = os.environ.get("PYROMQ_TEST_MYSQLD", "")
    require(bool(program), "PYROMQ_TEST_MYSQLD names no mysqld (docs/cdc.md says where one was found)")
    return program


class MySql(MariaDb):
    """One server. `kill` and `start` it again as often as a test wants."""

    def __init__(self, folder: Path, mysqld: str) -> None:
        self.folder, self.mysqld = folder, mysqld
        (self.port,) = free_ports(1)
        self.program: Program | None = None
        data = f"--datadir={folder / 'data'}"
        subprocess.run([mysqld, "--initialize-insecure", "--user=root", data], check=True, capture_output=True)
        self.start()
        self.run("CREATE USER cdc IDENTIFIED BY 'secret'")
        self.run("GRANT SELECT, RELOAD, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO cdc")
        self.run("CREATE DATABASE shop")

    @property
    def address(self) -> ServerAddress:
        return ServerAddress(kind="mysql", host="127.0.0.1", port=self.port, user="cdc", password="secret")

    @property
    def url(self) -> str:
        return f"mysql://cdc:secret@127.0.0.1:{self.port}"

    def start(self) -> None:
        self.program = Program(
            [self.mysqld, "--user=root", f"--datadir={self.folder / 'data'}", f"--port={self.port}",
             f"--socket={self.folder / 's'}", "--bind-address=127.0.0.1", f"--pid-file={self.folder / 'pid'}",
             *SETTINGS],
            name="mysqld",
        )  # fmt: skip
        self.program.wait_for("ready for connections")
