"""Starts what the settings ask for: the listener of scrapers, or a loop that exports.

    exporting = await Exporting.open(settings, source, clock, rng, run_blocking)
    exporting.begin()
    ...
    await exporting.stop()

Each daemon's composition root has one. The port is bound by `open`, so that a start that cannot have it ends there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from .. import logs
from ..ambient import Clock, Random, RunBlocking
from ..errors import ConfigError
from ..supervision import Loops
from ..transport.address import is_loopback
from ..transport.listening import Listening, bind
from .endpoint import MetricsEndpoint
from .families import Collect
from .limiting import Limiting
from .log_export import LogExport
from .settings import Exporter, MetricsSettings

if TYPE_CHECKING:
    from .otlp import OtlpExport

log = logs.get("pyromq.metrics")

T = TypeVar("T")


class MetricsSource(NamedTuple):
    """What a daemon hands in. `limiting` is the one that its own series of what was left out reads."""

    collect: Collect
    limiting: Limiting
    troubles: Callable[[], list[str]]


async def _in_thread(call: Callable[[], T]) -> T:
    return await asyncio.to_thread(call)


class Exporting:
    """Event loop only."""

    @classmethod
    async def bind(cls, settings: MetricsSettings, allows_strangers: bool) -> Listening | None:
        """Bind the port of scrapers; None: there is none. ConfigError says why that cannot be."""
        settings.check_metrics()
        if settings.metrics_exporter_type is not Exporter.PROM:
            return None
        host = settings.metrics_prom_exporter_host.strip("[]") or "127.0.0.1"
        if not allows_strangers and not is_loopback(host):
            raise ConfigError(
                f"metricsPromExporterHost = {host}: other machines might read names of topics, groups and clients "
                "there, and nobody is asked who he is; leave it empty for loopback, or, in a trusted network, start "
                "with --insecure, or set allowUnauthenticated=true"
            )
        try:
            return await bind(host, settings.metrics_prom_exporter_port)
        except ConfigError as fault:
            raise ConfigError(
                f"{fault}. It is the port of metrics: metricsPromExporterPort names another, 0 takes any"
            ) from None

    def __init__(
        self,
        settings: MetricsSettings,
        listening: Listening | None,
        source: MetricsSource,
        *,
        clock: Clock,
        rng: Random,
        run_blocking: RunBlocking | None = None,
    ) -> None:
        self._listening, self._loops, self._clock = listening, Loops(clock, log), clock
        self._task: asyncio.Task[None] | None = None
        self.endpoint: MetricsEndpoint | None = None
        self._export: LogExport | OtlpExport | None = None
        self.address = "" if listening is None else listening.address
        limited = partial(source.limiting.limited, source.collect, settings.metrics_detail)
        kind = settings.metrics_exporter_type
        if kind is Exporter.PROM:
            detail = settings.metrics_detail
            self.endpoint = MetricsEndpoint(
                source.collect, source.limiting, detail, source.troubles, clock, run_blocking or _in_thread
            )
        elif kind is Exporter.LOG:
            self._export = LogExport(settings, limited, clock)
        elif kind is Exporter.OTLP_GRPC:
            from .otlp import OtlpExport  # not at the top: h2 takes 20 ms and a megabyte of every daemon

            self._export = OtlpExport(settings, limited, clock, rng)

    def begin(self) -> None:
        if self.endpoint is not None and self._listening is not None:
            self.endpoint.accept_on(self._listening)
            self._listening = None
        if self._export is not None:
            loop = asyncio.get_running_loop()
            self._task = loop.create_task(self._loops.keep("metrics export", self._export.run))

    def close_port(self) -> None:
        """Close the port of a daemon that never began."""
        if self._listening is not None:
            self._listening.close()
            self._listening = None

    async def stop(self) -> None:
        """Export what is left, then end."""
        self.close_port()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
        if self._export is not None:
            await self._export.close()
        if self.endpoint is not None:
            await self.endpoint.stop()
