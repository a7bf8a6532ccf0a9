"""Request and reply: who waits for which answer, and the messages that ask and answer.

The requester is found by its client id, so its producer must be known to the brokers before it asks. A reply comes as
the broker's request 326; one that comes after the time-out is dropped with a log line.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ... import logs
from ...errors import ConfigError, ProtocolError, RequestRefused
from ...model.ids import pack_host
from ...model.message import Property, StoredMessage
from ...model.names import REPLY_SUFFIX
from ...protocol.bodies.keyed import MessageQueue
from ...protocol.compression import CompressionMissing, compression_of, decompress
from ...protocol.headers.send import PushReplyMessage
from ...protocol.properties import decode_properties
from ...transport.address import parse_address
from ..errors import BadAnswer, BadMessage
from ..received import Received

log = logs.get("pyromq.client")

REPLY = "reply"  # value of MSG_TYPE


class AwaitedReplies:
    """Event loop only. What one client waits for, by correlation id."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[Received]] = {}

    @contextmanager
    def expect(self, correlation: str) -> Iterator[asyncio.Future[Received]]:
        future = self._waiting[correlation] = asyncio.get_running_loop().create_future()
        try:
            yield future
        finally:
            del self._waiting[correlation]

    def deliver(self, header: PushReplyMessage, body: bytes) -> None:
        """Hand a reply to who waits for it; one that cannot be read fails the wait. RequestRefused if nobody waits."""
        properties = decode_properties(header.properties or "")
        correlation = properties.get(Property.CORRELATION_ID, "")
        future = self._waiting.get(correlation)
        if future is None or future.done():
            log.warning("a reply came for which nobody waits", correlation=correlation)
            raise RequestRefused(f"nobody waits for a reply to {correlation!r}: it came late, or twice")
        try:
            future.set_result(_received(header, properties, body))
        except (ProtocolError, CompressionMissing) as fault:
            future.set_exception(BadAnswer(f"the reply to {correlation!r} cannot be read: {fault}"))


def request_properties(correlation: str, client_id: str, timeout_s: float) -> dict[str, str]:
    return {
        Property.CORRELATION_ID: correlation,
        Property.REPLY_TO_CLIENT: client_id,
        Property.TTL: str(round(timeout_s * 1000)),
    }


def reply_properties(request: Received) -> dict[str, str]:
    """Return the properties of a reply. BadMessage if nobody waits for an answer to this message."""
    given = request.properties
    missing = [name for name in (Property.CORRELATION_ID, Property.REPLY_TO_CLIENT) if not given.get(name)]
    if missing:
        hint = "Its sender must use `request`"
        raise BadMessage(f"message {request.id} is no request: it has no {missing[0]}", hint=hint)
    return {
        Property.MSG_TYPE: REPLY,
        Property.CORRELATION_ID: given[Property.CORRELATION_ID],
        Property.REPLY_TO_CLIENT: given[Property.REPLY_TO_CLIENT],
        Property.TTL: given.get(Property.TTL, ""),
    }


def reply_topic(request: Received) -> str:
    cluster = request.properties.get(Property.CLUSTER)
    if not cluster:
        raise BadMessage(f"message {request.id} does not name its cluster: no reply topic can be found")
    return f"{cluster}{REPLY_SUFFIX}"


def _received(header: PushReplyMessage, properties: dict[str, str], body: bytes) -> Received:
    kind = compression_of(header.sys_flag)
    message = StoredMessage(
        topic=header.topic,
        body=body if kind is None else decompress(body, kind),
        flag=header.flag,
        properties=properties,
        queue_id=header.queue_id,
        queue_offset=-1,
        physical_offset=-1,
        store_size=len(body),
        sys_flag=header.sys_flag,
        body_crc=0,
        born_timestamp=header.born_timestamp,
        born_host=_host(header.born_host),
        store_timestamp=header.store_timestamp,
        store_host=_host(header.store_host),
    )
    return Received(message, MessageQueue(broker_name="", queue_id=header.queue_id, topic=header.topic))


def _host(text: str) -> bytes:
    """Read an address as Java writes it: `/127.0.0.1:1234`, `name/127.0.0.1:1234`. A name alone has no address."""
    port = 0
    with suppress(ConfigError, ValueError):  # somebody else wrote it, and nothing depends on it
        host, port = parse_address(text.rpartition("/")[2])
        return pack_host(host, port)
    return pack_host("0.0.0.0", port)
