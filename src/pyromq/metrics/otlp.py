"""Metrics to a collector by OTLP over gRPC (exporter OTLP_GRPC). A collector that is away loses exports."""

from __future__ import annotations

import ssl
from contextlib import suppress

from .. import logs
from ..ambient import Clock, Random
from ..errors import PyroError
from ..transport.http2.client import Http2Client
from ..transport.tls import ClientTls
from .otlp_messages import PATH, requests
from .points import Course, Limited
from .settings import MetricsSettings

log = logs.get("pyromq.metrics")

_CLOSING_S = 1.0  # what a stop waits for the collector


class OtlpExport:
    """Event loop only."""

    def __init__(self, settings: MetricsSettings, limited: Limited, clock: Clock, rng: Random) -> None:
        self._settings, self._clock = settings, clock
        self._address, is_tls = address_of(settings.metrics_grpc_exporter_target)
        self._client = Http2Client(clock=clock, rng=rng, tls=ClientTls() if is_tls else None)
        self._metadata = [(name.lower(), value) for name, value in settings.metadata.items()]
        self._course = Course(limited, clock, in_delta=settings.metrics_in_delta)
        self._warn = logs.Limited(log, clock)
        self._resource = (("service.name", "pyromq"),)

    async def run(self) -> None:
        while True:
            await self._clock.sleep(self._settings.metric_grpc_exporter_interval_in_mills / 1000)
            await self._export(self._settings.metric_grpc_exporter_time_out_in_mills / 1000)

    async def close(self) -> None:
        """Send what is left, if the collector answers quickly, and close the connection."""
        with suppress(TimeoutError):
            async with self._clock.timeout(_CLOSING_S):
                await self._export(_CLOSING_S)
        await self._client.close()

    async def _export(self, timeout_s: float) -> None:
        points, settings = await self._course.next(), self._settings
        most, in_delta = settings.metrics_export_batch_max_data_points, self._course.in_delta
        for message in requests(points, self._resource, "broker-meter", most, in_delta=in_delta):
            try:
                await self._client.call(self._address, PATH, message, self._metadata, timeout_s=timeout_s)
            except (PyroError, ssl.SSLError, OSError) as fault:
                self._warn.warning("metrics are not exported", collector=self._address, why=str(fault))
                return
            await self._clock.sleep(0)


def address_of(target: str) -> tuple[str, bool]:
    """Return host:port of a collector, and whether it is spoken to by TLS: without a scheme it is, as in Java."""
    scheme, separator, rest = target.partition("://")
    if not separator:
        return target.strip("/"), True
    return rest.strip("/"), scheme.lower() != "http"
