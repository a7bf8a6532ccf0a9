"""Static topics: logical queues that keep their number while they move from broker to broker. Request 513."""

from __future__ import annotations

from ..model.codes import ResponseCode
from ..protocol.bodies.body import encode_body
from ..protocol.bodies.topics import TopicConfigAndQueueMapping
from ..protocol.headers.topics import CreateTopic, TopicName
from ..protocol.json import Dialect
from ..protocol.requests import RequestCode
from .calls import Calls, read


async def config(calls: Calls, address: str, topic: str) -> TopicConfigAndQueueMapping | None:
    """351, with `lo`: brokers tell the mapping only if they are asked for logical queues. None: no such topic there."""
    known = (ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST)
    header = TopicName(topic=topic, lo=True)
    answer = await calls.broker(address, RequestCode.GET_TOPIC_CONFIG, header, expected=known)
    return None if answer.code == ResponseCode.TOPIC_NOT_EXIST else read(TopicConfigAndQueueMapping, answer)


async def put(calls: Calls, address: str, config: TopicConfigAndQueueMapping, *, force: bool = False) -> None:
    """The broker's own queues of the topic, and which logical ones they are. `force` replaces what it knows."""
    header = CreateTopic.of(config, force=force)
    body = encode_body(config.mapping_detail, Dialect.JAVA)
    await calls.broker(address, RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC, header, body)
