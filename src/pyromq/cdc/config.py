"""Settings of `pyromq cdc`."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from pathlib import Path

from ..config import JavaKeys, check_ranges, setting
from ..config.parts import including, part_of
from ..config.settings import option
from ..errors import ConfigError
from ..metrics.settings import MetricsSettings
from .address import ServerAddress, read_address
from .rules import Rules

CDC_KEYS = JavaKeys()
_STATE_DIR = Path("cdc")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
@including(MetricsSettings)
class CdcConfig:
    """One source, its topics, and where the position is kept."""

    name: str = option("cdc", help="name of the source, in events and to brokers. Keep it, and give no other the same")
    database_url: str = option(
        "", help="mariadb://USER@HOST:PORT, mysql://USER@HOST:PORT or postgresql://USER@HOST:PORT/DATABASE"
    )
    database_password: str = setting("", help="password of the user; better in PYROMQ_CDC_DATABASE_PASSWORD")
    database_tls_ca: str = setting(
        "", help="file of the authority that signed the database's certificate; empty: no TLS"
    )
    namesrv: str = option("", help="name servers, HOST:PORT with ; between; empty: PYROMQ_NAMESRV, else this machine's")
    state_dir: Path = option(_STATE_DIR, help="folder of the position and of messages under way")
    include: tuple[str, ...] = option(("*",), help="tables, as shop.orders or shop.*")
    exclude: tuple[str, ...] = option((), help="tables that are not captured")
    rename: tuple[str, ...] = setting((), help="TABLE=TOPIC, for topics of other names")
    leave_out: tuple[str, ...] = setting((), help="columns that no event has, as shop.users.password")
    mask: tuple[str, ...] = setting((), help="columns whose values are shown as ****")
    prefix: str = option("cdc", help="first word of the topics: cdc-shop-orders")
    tombstones: bool = option(False, help="send a message with the body null behind each delete")
    schemas: bool = option(False, help="give each event the schema part of Kafka Connect's JSON")
    transactions: bool = option(
        False, help="tell each event's place in its transaction, and of their begins and ends in a topic of their own"
    )
    heartbeat_s: int = setting(
        0, low=0, high=86_400, flag=True, help="seconds between heartbeats, messages of a source that is quiet; 0: none"
    )
    snapshot: bool = option(True, help="read all rows before the stream")
    chunk_rows: int = setting(1000, low=1, high=10_000, help="rows of a snapshot that are read and sent at a time")
    server_id: int = setting(
        0, low=0, high=4294967295, wide=True, help="number among MariaDB's or MySQL's replicas; 0: of the name"
    )

    slot: str = setting("", help="PostgreSQL's replication slot; empty: pyromq_NAME")
    publication: str = setting("", help="PostgreSQL's publication; empty: pyromq_NAME. Made if it is missing")

    def __post_init__(self) -> None:
        check_ranges(self)
        if _NAME.fullmatch(self.name) is None:
            raise ConfigError(f"name = {self.name!r}: write letters, digits and _ . - (at most 64)")
        self.rules.check()
        if self.database_url:
            self.database  # noqa: B018 - refused here, where a file is checked

    @property
    def database(self) -> ServerAddress:
        """Return where the database is. ConfigError if databaseUrl does not say, or names one that is not captured."""
        return read_address(self.database_url, self.database_password, self.database_tls_ca)

    @property
    def metrics(self) -> MetricsSettings:
        return part_of(self, MetricsSettings)

    @property
    def rules(self) -> Rules:
        return Rules(
            include=self.include, exclude=self.exclude, rename=self.rename, leave_out=self.leave_out, mask=self.mask,
            prefix=self.prefix, tombstones=self.tombstones, schemas=self.schemas, transactions=self.transactions,
        )  # fmt: skip

    @property
    def replica_number(self) -> int:
        """Return our number among replicas: the same after a restart, so that the server ends an older stream."""
        return self.server_id or 1_000_000 + zlib.crc32(self.name.encode()) % 1_000_000_000
