"""What tools ask of a controller (1007) and RocksDB (354, 355), of a broker on plain files without one, as in Java."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from ...errors import RequestRefused
from ...protocol.bodies.stats import CheckRocksdbCqWriteResult
from ...protocol.headers.admin import ExportRocksdbConfig
from ...transport.dispatch import Reply, Request, RequestOf

CANNOT = 3
NOTHING_TO_COMPARE = "this broker keeps its queues in files alone: there are none in RocksDB to compare them with"


@dataclass(slots=True, eq=False, repr=False)
class AbsentFeatures:
    """Event loop only. `tables`: how each is brought to disk, by the name that mqadmin has for it."""

    tables: Mapping[str, Callable[[], Awaitable[None]]]

    def compare_queues(self, request: Request) -> Reply:
        """Answer 354: queues in RocksDB with those in files."""
        return Reply(body=CheckRocksdbCqWriteResult(check_status=CANNOT, check_result=NOTHING_TO_COMPARE))

    async def export_tables(self, request: RequestOf[ExportRocksdbConfig, None]) -> Reply:
        """Answer 355: tables as JSON files.

        Ours are that already, and are on disk as they are now when this is answered.
        """
        wanted = [name.strip() for name in request.header.config_type.split(";") if name.strip()]
        known = {name.lower(): save for name, save in self.tables.items()}
        for name in wanted:
            if name.lower() not in known:
                raise RequestRefused(f"configType {name} is none of {', '.join(self.tables)}")
        for name in wanted:
            await known[name.lower()]()
        return Reply(remark="export done.")
