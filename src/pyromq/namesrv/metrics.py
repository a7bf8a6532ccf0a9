"""What a name server is scraped for. Java's has no metrics: all names are ours."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from .. import __version__
from ..metrics.families import Family, LabelSets, MetricKind, Value
from ..metrics.requests import served
from ..protocol.requests import RequestCode
from ..transport.server import Server
from .route_table import RouteTable


@dataclass(slots=True, eq=False, repr=False)
class NamesrvMetrics:
    """Event loop only."""

    labels: LabelSets
    table: RouteTable
    server: Server

    async def collect(self) -> AsyncIterator[Family]:
        build = self.labels.of(version=__version__)
        yield Family("pyromq_build_info", MetricKind.GAUGE, "1; its labels say which build serves.", [(build, 1)])
        yield self._one("pyromq_ready", MetricKind.GAUGE, "1 while it serves.", 1)
        yield self._one(
            "pyromq_namesrv_brokers", MetricKind.GAUGE, "Registered brokers and replicas.", self.table.replica_count()
        )
        yield self._one("pyromq_namesrv_topics", MetricKind.GAUGE, "Registered topics.", self.table.topic_count())
        text = "Brokers that fell silent and were dropped."
        yield self._one("pyromq_namesrv_expired_total", MetricKind.COUNTER, text, self.table.expired)
        code = RequestCode.GET_ROUTEINFO_BY_TOPIC.code
        answers = (sum(times.counts) for kind, times in self.server.service.times.all() if kind.code == code)
        yield self._one("pyromq_namesrv_routes_total", MetricKind.COUNTER, "Routes that were asked for.", sum(answers))
        for family in served(self.labels, [self.server]):
            yield family
        self.labels.end_scrape()

    def _one(self, name: str, kind: MetricKind, text: str, value: Value) -> Family:
        return Family(name, kind, text, [(self.labels.of(), value)])
