"""Users and permissions of a name server: their file, the gate before all handlers, what signs its own requests."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from ..access.administration import AccessAdmin
from ..access.file_rows import FileRows
from ..access.gate import AccessGate
from ..access.sealing import SivSeal, key_in
from ..access.sharing.stamps import Stamps
from ..access.signatures import inner_sign
from ..access.table import AccessTable
from ..ambient import Clock
from ..transport.address import is_loopback
from .config import NamesrvConfig
from .kv_config import RunBlocking


class NamesrvAccess:
    """Event loop only. `gate` None: nobody is asked who he is."""

    def __init__(self, config: NamesrvConfig, clock: Clock, run_blocking: RunBlocking) -> None:
        settings = config.access
        key_file: Path = config.users_path.with_suffix(".key")
        self.table = AccessTable(
            FileRows(config.users_path, run_blocking),
            SivSeal(partial(key_in, key_file, settings.access_secret)),
            Stamps(clock.now_ms, f"{config.bind_address}:{config.listen_port}"),
            settings.acl_conflict,
        )
        self.table.begin(settings)
        self.admin = AccessAdmin(self.table, settings, is_loopback=is_loopback(config.bind_address))
        gate = AccessGate(self.table.directory, settings, cluster=config.cluster_name, clock=clock)
        self.gate = gate if settings.authentication_enabled else None
        self.sign = inner_sign(settings)

    async def close(self) -> None:
        await self.table.saved()
