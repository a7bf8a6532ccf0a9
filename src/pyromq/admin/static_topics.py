"""Static topics: logical queues that keep their number while they move from broker to broker. Request 513."""

from __future__ import annotations

from ..model.codes import RequestCode
from ..protocol.bodies.body import encode_body
from ..protocol.bodies.topics import TopicConfigAndQueueMapping
from ..protocol.headers.topics import CreateTopic
from ..protocol.json import Dialect
from .calls import Calls


async def put(calls: Calls, address: str, config: TopicConfigAndQueueMapping, *, force: bool = False) -> None:
    """The broker's own queues of the topic, and which logical ones they are. `force` replaces what it knows."""
    header = CreateTopic.of(config, force=force)
    body = encode_body(config.mapping_detail, Dialect.JAVA)
    await calls.broker(address, RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC, header, body)
