"""Arguments of the wrong kind: an error of the SDK that says which, and no fault from inside. Nothing is sent."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from pyromq.client import sync
from pyromq.client.errors import BadMessage, Error
from pyromq.client.producer import Producer
from pyromq.client.subscription import sql, tag
from pyromq.model.codes import RequestCode
from pyromq.model.group import ConsumeFromWhere
from tests.client.cluster import Cluster


def handle(msg: object) -> None:
    """Never called."""


@pytest.mark.parametrize("namespace", ["", "ns"])
@pytest.mark.parametrize("topic", [None, 5, ["T"]])
async def test_a_topic_that_is_no_string(cluster: Cluster, namespace: str, topic: Any) -> None:
    broker = cluster.broker("a", T=1)
    client = await cluster.client(namespace=namespace)
    async with client.producer() as producer, client.pull_consumer("g") as consumer:
        for work in (producer.send(topic, "x"), producer.send_many(topic, "x"), producer.send_oneway(topic, "x")):
            with pytest.raises(BadMessage, match=r"the topic is .*, and not a string"):
                await work
        with pytest.raises(Error, match="is no name of a topic"):
            await consumer.queues(topic)
        with pytest.raises(Error, match="is no name of a topic"):
            producer.transaction_check(topic, handle)
        with pytest.raises(Error, match=r"the topic is .*, and not a string"):
            client.push_consumer(topic, handle, group="p")
    assert not broker.requests(RequestCode.SEND_MESSAGE_V2)


WRONG: list[tuple[str, Callable[[Producer], Any]]] = [
    ("what to recall is 'handle'", lambda producer: producer.recall("handle")),  # type: ignore[arg-type]
    ("what to reply to is 'x'", lambda producer: producer.reply("x", "y")),  # type: ignore[arg-type]
    ("delay inf has no end", lambda producer: producer.send("T", "x", delay=math.inf)),
    ("timeout inf has no end", lambda producer: producer.request("T", "x", timeout=math.inf)),
    ("check_after inf", lambda producer: producer.transaction("T", "x", check_after=math.inf).__aenter__()),
    ("order_key is 0, and", lambda producer: producer.send("T", "x", order_key=0)),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("said", "work"), WRONG)
async def test_what_a_producer_refuses(cluster: Cluster, said: str, work: Callable[[Producer], Any]) -> None:
    broker = cluster.broker("a", T=1)
    client = await cluster.client()
    async with client.producer() as producer:
        with pytest.raises(BadMessage, match=said):
            await work(producer)
    assert not broker.requests(RequestCode.SEND_MESSAGE_V2)


async def test_a_timeout_that_is_no_time(cluster: Cluster) -> None:
    client = await cluster.client()
    async with client.producer() as producer, client.pull_consumer("g") as consumer:
        with pytest.raises(Error, match="nan is no number of seconds"):
            await producer.send("T", "x", timeout=math.nan)
        with pytest.raises(Error, match="'5s' is no number of seconds"):
            await consumer.poll("5s")  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [sql, tag])
@pytest.mark.parametrize("wrong", [None, 5, ["a"]])
def test_a_filter_of_no_text(make: Callable[[Any], Any], wrong: Any) -> None:
    with pytest.raises(Error, match="is a string"):
        make(wrong)


@pytest.mark.parametrize("wrong", ["a", "", 5])
async def test_a_filter_that_is_none(cluster: Cluster, wrong: Any) -> None:
    client = await cluster.client()
    for make in (
        lambda: client.push_consumer("T", handle, group="g", filter=wrong),
        lambda: client.push_consumer({"T": wrong}, handle, group="g"),
        lambda: client.pull_consumer("g", filter=wrong),
    ):
        with pytest.raises(Error, match=r"the filter is .*, and not made by tag\(...\) or sql\(...\)"):
            make()


@pytest.mark.parametrize("wrong", [None, 5])
async def test_a_group_that_is_no_string(cluster: Cluster, wrong: Any) -> None:
    client = await cluster.client()
    for make in (
        lambda: client.producer(wrong),
        lambda: client.push_consumer("T", handle, group=wrong),
        lambda: client.pull_consumer(wrong),
    ):
        with pytest.raises(Error, match=r"the group is .*, and not a string"):
            make()


@pytest.mark.parametrize("begin", ["first", "FIRST_OFFSET", "CONSUME_FROM_FIRST_OFFSET", None, 0])
async def test_a_place_to_begin_that_is_none(cluster: Cluster, begin: Any) -> None:
    client = await cluster.client()
    blocking = sync.connect("127.0.0.1:1")
    for make in (
        lambda: client.push_consumer("T", handle, group="g", begin=begin),
        lambda: client.pull_consumer("g", begin=begin),
        lambda: blocking.push_consumer("T", handle, group="g", begin=begin),
        lambda: blocking.subscribe("T", group="g", begin=begin)(handle),
        lambda: blocking.pull_consumer("g", begin=begin),
    ):
        with pytest.raises(
            Error, match=r"is no place to begin.*ConsumeFromWhere.*LAST_OFFSET, .*FIRST_OFFSET, TIMESTAMP"
        ):
            make()
    with pytest.raises(Error, match="begin_ms='noon' is no whole number"):
        client.pull_consumer("g", begin=ConsumeFromWhere.TIMESTAMP, begin_ms="noon")
