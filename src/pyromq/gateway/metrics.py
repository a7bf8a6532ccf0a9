"""What a proxy is scraped for: Java's one name, and ours."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from .. import __version__
from ..metrics.families import Family, LabelSets, MetricKind
from ..metrics.requests import served
from ..transport.server import Server


@dataclass(slots=True, eq=False, repr=False)
class GatewayMetrics:
    """Event loop only. `clients`: how many gRPC clients are known."""

    labels: LabelSets
    servers: Sequence[Server]
    clients: Callable[[], int]
    is_ready: Callable[[], bool]

    async def collect(self) -> AsyncIterator[Family]:
        of = self.labels.of
        yield Family("rocketmq_proxy_up", MetricKind.GAUGE, "1 while it runs.", [(of(proxy_mode="cluster"), 1)])
        text = "1; its labels say which build serves."
        yield Family("pyromq_build_info", MetricKind.GAUGE, text, [(of(version=__version__), 1)])
        text = "1 once a name server has answered."
        yield Family("pyromq_ready", MetricKind.GAUGE, text, [(of(), 1 if self.is_ready() else 0)])
        yield Family("pyromq_proxy_clients", MetricKind.GAUGE, "Clients that speak gRPC.", [(of(), self.clients())])
        for family in served(self.labels, self.servers):
            yield family
        self.labels.end_scrape()
