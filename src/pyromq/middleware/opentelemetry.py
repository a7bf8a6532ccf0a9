"""OpenTelemetry spans around sends and handlers, joined across programs by the W3C `traceparent` in the properties.

    pyromq.connect(middleware=[pyromq.OpenTelemetry()])

Names and attributes are those of OpenTelemetry's conventions for messaging. Needs `pip install 'pyromq[otel]'`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..client.errors import NotSupported
from ..client.handle.handlers import Outcomes
from ..client.middleware import Draft, HandleNext, Middleware, SendNext
from ..client.produce.sending import SendResult
from ..client.received import Received
from ..model.message import Property
from ..text.extras import install_command

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

SYSTEM = "rocketmq"


class OpenTelemetry(Middleware):
    """`provider`: the global one, unless another is given."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        try:
            from opentelemetry import propagate, trace
        except ImportError:
            hint = f"Type: {install_command('otel')} (and an SDK with an exporter)"
            raise NotSupported("OpenTelemetry is not installed", hint=hint) from None
        self._trace: Any = trace
        self._propagate: Any = propagate
        self._tracer = trace.get_tracer("pyromq", __version__, provider)

    async def send(self, drafts: list[Draft], call_next: SendNext) -> list[SendResult]:
        """Make one span for the request; each message carries its context along."""
        topic = drafts[0].topic
        attributes = _common(topic, "send", [draft.properties for draft in drafts])
        kind = self._trace.SpanKind.PRODUCER
        with self._tracer.start_as_current_span(f"send {topic}", kind=kind, attributes=attributes) as span:
            for draft in drafts:
                self._propagate.inject(draft.properties)
            results = await call_next(drafts)
            if len(results) == 1:
                queue = results[0].queue
                span.set_attribute("messaging.destination.partition.id", f"{queue.broker_name}/{queue.queue_id}")
            return results

    async def handle(self, messages: list[Received], call_next: HandleNext) -> Outcomes:
        """Make a span for one message, which continues the sender's. A batch: one span, linked to all the senders'."""
        first = messages[0]
        contexts = [self._propagate.extract(each.properties) for each in messages]
        links = [self._trace.Link(self._trace.get_current_span(each).get_span_context()) for each in contexts]
        attributes = _common(first.topic, "process", [each.properties for each in messages])
        attributes["messaging.consumer.group.name"] = first.group
        parent = contexts[0] if len(messages) == 1 else None
        with self._tracer.start_as_current_span(
            f"process {first.topic}",
            kind=self._trace.SpanKind.CONSUMER,
            attributes=attributes,
            context=parent,
            links=[link for link in links if link.context.is_valid],
        ) as span:
            outcomes = await call_next(messages)
            for fault in outcomes:
                if fault is not None:
                    span.record_exception(fault)
                    span.set_status(self._trace.StatusCode.ERROR, str(fault))
            return outcomes


def _common(topic: str, operation: str, messages: list[Mapping[str, str]]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "messaging.system": SYSTEM,
        "messaging.destination.name": topic,
        "messaging.operation.type": operation,
    }
    if len(messages) > 1:
        return found | {"messaging.batch.message_count": len(messages)}
    (properties,) = messages
    details = {
        "messaging.message.id": properties.get(Property.UNIQ_KEY),
        "messaging.rocketmq.message.tag": properties.get(Property.TAGS),
        "messaging.rocketmq.message.keys": properties.get(Property.KEYS, "").split() or None,
        "messaging.rocketmq.message.group": properties.get(Property.SHARDING_KEY),
    }
    return found | {name: value for name, value in details.items() if value}
