"""Opens the audit log of a daemon for as long as it runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from .. import __version__, logs
from ..ambient import Clock, RunBlocking
from ..errors import ConfigError
from .log import AuditLog
from .settings import AuditSettings
from .writer import ChainWriter

log = logs.get("pyromq.audit")


@asynccontextmanager
async def audit_log(
    daemon: str, settings: AuditSettings, default: Path, clock: Clock, run_blocking: RunBlocking
) -> AsyncIterator[AuditLog | None]:
    """Yield the log, which says when the daemon started and when it stopped; None if it is switched off.

    ConfigError: the folder that is named cannot be written to. Where none is named, that is an error in the daemon's
    log, and it runs without."""
    writer = await _writer(settings, default, run_blocking)
    if writer is None:
        yield None
        return
    audit = AuditLog(writer, clock, run_blocking, settings.audit_repeat_seconds)
    audit.note("start", daemon=daemon, version=__version__)
    try:
        yield audit
    finally:
        audit.note("stop", daemon=daemon)
        await audit.close()


async def _writer(settings: AuditSettings, default: Path, run_blocking: RunBlocking) -> ChainWriter | None:
    if not settings.audit_enable:
        return None
    folder = settings.audit_folder or default
    try:
        return await run_blocking(partial(ChainWriter.open, folder, settings.audit_file_bytes, settings.audit_files))
    except ConfigError as fault:
        if settings.audit_folder is not None:
            raise
        log.error("there is no audit log", why=str(fault))
        return None
