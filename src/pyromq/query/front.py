"""`pyromq.sql` and `pyromq.arrow`: topics as tables of DuckDB, or as Arrow batches, for programs.

Light to import: DuckDB and Arrow are loaded by the calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..client.subscription import Filter
from ..client.subscription import sql as sql_filter
from ..model.names import is_system_topic
from .connecting import check_packages, open_tables

if TYPE_CHECKING:
    import duckdb

    from .sources import RowSource

Store = str | Path | Sequence[str | Path]


class Sql:
    """`pyromq.sql("region = 'eu'")` is a filter for consumers; `pyromq.sql.connect(...)` asks topics in SQL."""

    def __call__(self, expression: str) -> Filter:
        """Return a filter for messages whose properties fit an SQL92 expression; brokers evaluate it."""
        return sql_filter(expression)

    def connect(
        self,
        namesrv: str | Iterable[str] | None = None,
        *,
        store: Store | None = None,
        topics: Iterable[str] | None = None,
        files: Mapping[str, str | Path] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> duckdb.DuckDBPyConnection:
        """Return a DuckDB connection in which topics are tables: all but RocketMQ's own, unless they are named.

        Topics are those of the cluster behind these name servers (else PYROMQ_NAMESRV, NAMESRV_ADDR, 127.0.0.1:9876)
        or of `store` folders. `files` are further tables: Parquet, CSV, JSON, Delta by name. `options` are those of the
        Spark source: TLS, keys, `mode`. Each query reads what there is at its own time. PyroError says what is missing.
        """
        from .tables import Scans

        source = source_of(namesrv, store, options)
        found = [each for each in source.topics() if not is_system_topic(each)] if topics is None else list(topics)
        return open_tables(source, found, files or {}, Scans())


sql = Sql()


def arrow(
    topic: str,
    namesrv: str | Iterable[str] | None = None,
    *,
    store: Store | None = None,
    columns: Sequence[str] | None = None,
    filter: Any = None,
    options: Mapping[str, str] | None = None,
) -> Any:
    """Return a `pyarrow.RecordBatchReader` over the messages of a topic, read while its batches are taken.

    `filter` is an Arrow expression, such as `pyarrow.compute.field("tag") == "paid"`: what it leaves out by queue,
    offset, store time or tag is not read. The columns are those of `pyromq.sql.connect`, whose other arguments are
    taken too.
    """
    source = source_of(namesrv, store, options)
    from .tables import Scans, TopicTable

    return TopicTable(source, topic, Scans()).scanner(columns, filter).to_reader()


def source_of(
    namesrv: str | Iterable[str] | None, store: Store | None, options: Mapping[str, str] | None = None
) -> RowSource:
    """Return the brokers behind name servers, or the store folders. PyroError if a package is missing."""
    check_packages()
    from ..client.config import ClientConfig, credentials, name_servers
    from ..client.connect.tls_choice import from_environment
    from ..spark.connect.cluster import connection_words
    from .sources import BrokerSource, StoreSource

    if store is not None:
        folders = [store] if isinstance(store, (str, Path)) else list(store)
        return StoreSource([Path(fspath(each)) for each in folders], dict(options or {}))
    config = ClientConfig(
        name_servers=name_servers(namesrv), tls=from_environment().settings(), **cast(Any, credentials())
    )
    return BrokerSource({**connection_words(config), **(options or {})})
