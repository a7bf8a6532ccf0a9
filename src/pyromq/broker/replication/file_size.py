"""Log files of a slave have its master's size, whatever this broker's own configuration says.

Decided before the store is opened: by the files where something is stored, else by what the master answers. While it is
away the configuration counts, and a start after it has returned finds the right size.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable

from ... import logs
from ...config import Loaded
from ...errors import PyroError
from ...model.topic import MASTER_ID
from ...protocol.requests import RequestCode as Code
from ...store.files.disk import Disk, read_range, remove_durably
from ...store.layout import COMMIT_LOG
from ...store.recovery.sizes import inferred_config
from ...transport.address import format_address, parse_address
from ...transport.client import RemotingClient
from ..config import BrokerConfig
from .asking import ask
from .following import joining
from .members import members_known

log = logs.get("pyromq.broker")

TIMEOUT_S = 3.0
_BEGINNING = 8  # bytes: size and magic of a record


async def with_masters_file_size(
    loaded: Loaded[BrokerConfig], disk: Disk, masters: Callable[[], Awaitable[int | None]]
) -> Loaded[BrokerConfig]:
    """Return the configuration of a slave with the size that its log files have to have.

    `masters` asks the master, and is called if nothing is stored here; None: it cannot be asked. Files of an empty log
    that have another size are removed."""
    config, names = loaded.config, disk.list(COMMIT_LOG)
    is_empty = not any(any(read_range(disk, f"{COMMIT_LOG}/{name}", 0, _BEGINNING)) for name in names)
    size = await masters() if is_empty else inferred_config(disk, config).commit_log_file_bytes
    if size is None or size == config.commit_log_file_bytes:
        return loaded
    log.warning(
        "log files have the master's size, not the configured one",
        mappedFileSizeCommitLog=size,
        configured=config.commit_log_file_bytes,
    )
    if is_empty:
        for name in names:
            if disk.size(f"{COMMIT_LOG}/{name}") != size:
                remove_durably(disk, f"{COMMIT_LOG}/{name}")
    return Loaded(dataclasses.replace(config, commit_log_file_bytes=size), loaded.findings)


async def masters_file_size(client: RemotingClient, config: BrokerConfig) -> int | None:
    """Return the size of the master's log files; None, with a line, if it cannot be asked."""
    return await file_size_at(client, config, lambda: _master(client, config))


async def file_size_at(
    client: RemotingClient, config: BrokerConfig, find: Callable[[], Awaitable[str | None]]
) -> int | None:
    """Return the size of the log files of the master that is found; None, with a line, if it cannot be asked."""
    try:
        address = await find()
        if address is None:
            raise joining.CannotFollow("nobody knows a master of this name, or nobody answers")
        _, settings = await ask(client, address, Code.GET_BROKER_CONFIG, timeout_s=TIMEOUT_S)
        return joining.file_bytes(joining.read_settings(settings))
    except PyroError as fault:
        log.warning(
            "the size of the master's log files is not known yet: an empty slave begins with its own",
            mappedFileSizeCommitLog=config.commit_log_file_bytes,
            why=str(fault),
        )
        return None


async def _master(client: RemotingClient, config: BrokerConfig) -> str | None:
    cluster, name, ha_master = config.broker_cluster_name, config.broker_name, config.replication.ha_master_address
    if config.namesrv_addr:
        return (await members_known(client, config.namesrv_addr, cluster, name)).get(MASTER_ID)
    if ha_master is None:
        return None
    host, port = parse_address(ha_master)
    return format_address(host, port - 1)
