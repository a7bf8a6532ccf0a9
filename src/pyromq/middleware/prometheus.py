"""Prometheus metrics of a client's sends and handlers.

    pyromq.connect(middleware=[pyromq.Prometheus()])

One object may serve many clients; a registry takes its metrics once. Needs `pip install 'pyromq[prometheus]'`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ambient import Clock, SystemClock
from ..client.core.retry import Reject, RetryLater
from ..client.errors import NotSupported
from ..client.handle.handlers import Outcomes
from ..client.middleware import Draft, HandleNext, Middleware, SendNext
from ..client.produce.sending import SendResult
from ..client.received import Received
from ..text.extras import install_command

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


class Prometheus(Middleware):
    """`registry`: the global one, unless another is given."""

    def __init__(self, registry: CollectorRegistry | None = None, *, clock: Clock | None = None) -> None:
        try:
            from prometheus_client import REGISTRY, Counter, Gauge, Histogram
        except ImportError:
            hint = f"Type: {install_command('prometheus')}"
            raise NotSupported("prometheus_client is not installed", hint=hint) from None
        where = REGISTRY if registry is None else registry
        self._clock = clock or SystemClock()
        by_group = ["topic", "group"]
        self._sent = Counter("pyromq_client_sent", "Messages sent", ["topic", "outcome"], registry=where)
        self._send_s = Histogram("pyromq_client_send_seconds", "One send, retries included", ["topic"], registry=where)
        self._handled = Counter("pyromq_client_handled", "Messages handled", [*by_group, "outcome"], registry=where)
        self._handle_s = Histogram("pyromq_client_handle_seconds", "One handler call", by_group, registry=where)
        self._in_work = Gauge("pyromq_client_in_work", "Messages that handlers are busy with", by_group, registry=where)

    async def send(self, drafts: list[Draft], call_next: SendNext) -> list[SendResult]:
        topic, began = drafts[0].topic, self._clock.monotonic()
        outcome = "failed"
        try:
            results = await call_next(drafts)
            outcome = "sent"
            return results
        finally:
            self._sent.labels(topic, outcome).inc(len(drafts))
            self._send_s.labels(topic).observe(self._clock.monotonic() - began)

    async def handle(self, messages: list[Received], call_next: HandleNext) -> Outcomes:
        topic, group, began = messages[0].topic, messages[0].group, self._clock.monotonic()
        in_flight = self._in_work.labels(topic, group)
        in_flight.inc(len(messages))
        try:
            outcomes = await call_next(messages)
        finally:
            in_flight.dec(len(messages))
            self._handle_s.labels(topic, group).observe(self._clock.monotonic() - began)
        for each in outcomes:
            self._handled.labels(topic, group, _word(each)).inc()
        return outcomes


def _word(outcome: Exception | None) -> str:
    if outcome is None:
        return "done"
    if isinstance(outcome, Reject):
        return "rejected"
    return "later" if isinstance(outcome, RetryLater) else "failed"
