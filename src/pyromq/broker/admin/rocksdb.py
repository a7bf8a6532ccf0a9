"""What tools ask of RocksDB (requests 354 and 355), of a broker whose queues and tables are plain files."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from ...errors import RequestRefused
from ...protocol.bodies.stats import CheckRocksdbCqWriteResult
from ...protocol.headers.admin import ExportRocksdbConfig
from ...transport.dispatch import Reply, Request, RequestOf

CANNOT = 3
NOTHING_TO_COMPARE = "this broker keeps its queues in files alone: there are none in RocksDB to compare them with"


class RocksDbAdmin:
    """Event loop only. `tables`: how each is brought to disk, by the name that mqadmin has for it."""

    def __init__(self, tables: Mapping[str, Callable[[], Awaitable[None]]]) -> None:
        self._tables = tables

    def compare(self, request: Request) -> Reply:
        """Answer 354: queues in RocksDB with those in files."""
        return Reply(body=CheckRocksdbCqWriteResult(check_status=CANNOT, check_result=NOTHING_TO_COMPARE))

    async def export(self, request: RequestOf[ExportRocksdbConfig, None]) -> Reply:
        """Answer 355: tables as JSON files.

        Ours are that already, and are on disk as they are now when this is answered.
        """
        wanted = [name.strip() for name in request.header.config_type.split(";") if name.strip()]
        known = {name.lower(): save for name, save in self._tables.items()}
        for name in wanted:
            if name.lower() not in known:
                raise RequestRefused(f"configType {name} is none of {', '.join(self._tables)}")
        for name in wanted:
            await known[name.lower()]()
        return Reply(remark="export done.")
