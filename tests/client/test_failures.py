"""Handlers that fail: what the log says of it, and bodies that do not fit the handler's type. Over real sockets."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import pyromq
from pyromq import sync
from pyromq.client.core.retry import Reject, Retry, RetryLater
from pyromq.client.errors import Error
from pyromq.client.received import Received
from pyromq.model.group import ConsumeFromWhere
from pyromq.transport.dispatch import Reply
from tests.client.cluster import Cluster
from tests.client.test_push_consumer import FIRST, Seen, send
from tests.client.test_push_timing import BACK, broker_with, consume
from tests.client.world import ON_JAVA, Servers, turns_until


@dataclass
class Order:
    id: int


def charge(text: str) -> None:
    raise KeyError(text)


async def failing(text: str) -> None:
    charge(text)


def failing_in_thread(text: str) -> None:
    charge(text)


def lines(caplog: pytest.LogCaptureFixture, event: str = "handler failed") -> list[Any]:
    return [each for each in caplog.records if getattr(each, "event", "") == event and each.levelno > logging.DEBUG]


@pytest.mark.parametrize("handler", [failing, failing_in_thread])
async def test_a_failing_handler_logs_its_traceback_once_and_where_it_was(
    world: Servers, caplog: pytest.LogCaptureFixture, handler: Callable[..., Any]
) -> None:
    await send(world, 5)
    async with world.client() as client, client.push_consumer("T", handler, group="g", begin=FIRST) as consumer:
        await turns_until(lambda: consumer.runner.failed >= 5 and bool(lines(caplog)))
    first, *others = lines(caplog)
    assert [each for each in others if each.exc_info] == []
    trace = "".join(traceback.format_exception(*first.exc_info))
    assert "in charge\n    raise KeyError(text)" in trace
    assert "client/consume" not in trace  # of the SDK's own frames nobody learns anything
    assert (first.fields["group"], first.fields["topic"], first.fields["attempt"]) == ("g", "T", 1)
    assert first.fields["at"].endswith("in charge")
    assert f"{__file__}:" in first.fields["at"]
    assert first.fields["then"].startswith("again in 10 s")
    assert len(first.fields["id"]) == 32


async def test_later_failures_of_a_kind_are_one_short_line_in_5_s_that_counts_them(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    broker = broker_with(cluster, b"0", b"1", b"2", b"3")
    broker.script[BACK] = lambda request: Reply()

    async def handle(text: str) -> None:
        if text == "late":
            raise RetryLater(5)
        (charge if text != "other" else int)(text)

    await consume(cluster, handle)
    full, short = lines(caplog)
    assert full.exc_info
    assert not short.exc_info
    assert "held_back" not in short.fields
    broker.put("T", 0, b"other", b"late")
    await cluster.clock.advance(6)
    assert lines(caplog)[-1].exc_info  # another kind has its own traceback, and RetryLater is no failure
    broker.put("T", 0, b"4")
    await cluster.clock.advance(6)
    assert lines(caplog)[-1].fields["held_back"] == 2
    assert len(lines(caplog)) == 4


async def test_ordered_and_broadcast_failures_say_what_becomes_of_the_message(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, tmp_path: Any
) -> None:
    broker_with(cluster, b"0")
    await consume(cluster, failing, orderly=True)
    assert lines(caplog)[0].fields["then"] == "again in its place in 1 s"
    caplog.clear()
    await consume(cluster, failing, group="all", broadcast=True, offsets_folder=tmp_path)
    assert lines(caplog)[0].fields["then"] == "dropped"


@pytest.mark.parametrize(
    ("options", "then"),
    [
        ({"retry": Retry(times=0)}, "dead letter"),
        ({"retry": Retry(times=0), "orderly": True}, "dead letter"),
        ({"broadcast": True}, "dropped"),
    ],
)
async def test_a_wish_for_a_later_time_that_nobody_can_grant_is_a_failure(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, tmp_path: Path, options: dict[str, Any], then: str
) -> None:
    broker_with(cluster, b"0").script[BACK] = lambda request: Reply()

    async def handle(text: str) -> None:
        raise RetryLater(5)

    await consume(cluster, handle, offsets_folder=tmp_path, **options)
    assert lines(caplog)[0].fields["then"] == then


async def test_a_rejection_is_logged_with_its_reason(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    broker_with(cluster, b"0", b"0", b"1").script[BACK] = lambda request: Reply()

    async def handle(text: str) -> None:
        raise Reject(f"no credit for {text}")

    await consume(cluster, handle)
    found = lines(caplog, "message rejected")
    assert [each.fields["fault"] for each in found] == ["no credit for 0", "no credit for 1"]
    assert {each.fields["then"] for each in found} == {"dead letter"}
    assert [each for each in found if each.exc_info] == []


async def test_without_an_event_loop_and_in_a_service_it_is_the_same(
    world: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    await send(world, 1)
    address = next(iter(world.name_servers))

    def job() -> None:
        with sync.connect(address) as client, client.push_consumer("T", failing_in_thread, group="g1", begin=FIRST):
            while not lines(caplog):
                pass

    await asyncio.to_thread(job)
    app = pyromq.App(address)
    app.publisher("U")(failing_in_thread)
    app.subscriber("T", group="g2", begin=FIRST)(failing_in_thread)
    async with app:
        await turns_until(lambda: len(lines(caplog)) > 1)
    for each in lines(caplog):
        assert "raise KeyError(text)" in "".join(traceback.format_exception(*each.exc_info))
        assert each.fields["at"].endswith("in charge")


# --- bodies that cannot be decoded ------------------------------------------------------------------------------------


async def by_hint(order: Order) -> None:
    raise AssertionError(order)


async def by_hand(msg: Received) -> None:
    msg.decode(Order)


async def of_a_batch(orders: list[Order]) -> None:
    pass


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize(("handler", "max_batch"), [(by_hint, None), (by_hand, None), (of_a_batch, 4)])
async def test_a_body_that_does_not_fit_is_a_dead_letter_at_once(
    world: Servers, caplog: pytest.LogCaptureFixture, handler: Callable[..., Any], max_batch: int | None, orderly: bool
) -> None:
    await send(world, 1)
    options: dict[str, Any] = {"group": "g", "begin": FIRST, "max_batch": max_batch, "orderly": orderly}
    seen = Seen()
    async with (
        world.client() as client,
        client.push_consumer("T", handler, **options),
        client.push_consumer("%DLQ%g", seen, group="undertaker", begin=FIRST),
    ):
        await seen.count(1)
    assert (seen.bodies, seen.messages[0].attempt) == (["0"], 2)
    if orderly or not ON_JAVA:
        reason = seen.messages[0].properties["PYRO_REASON"]
        assert reason.startswith("the body cannot be decoded: ValueError: the body is no Order: Expected `object`")
    (line,) = lines(caplog, "message rejected")
    assert "the body is no Order" in line.fields["fault"]


async def test_it_may_be_retried_or_skipped_instead(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    broker = broker_with(cluster, b"no order")
    broker.script[BACK] = lambda request: Reply()
    _, consumer = await consume(cluster, by_hint, on_undecodable="retry")
    (back,) = broker.requests(BACK)
    assert back.fields["delayLevel"] == "0"
    await consumer.stop()
    broker.put("T", 0, b"still none")
    caplog.clear()
    await consume(cluster, by_hint, on_undecodable="skip")
    assert len(broker.requests(BACK)) == 1
    await cluster.clock.advance(5)
    assert broker.offsets["T", 0] == 2
    (line,) = lines(caplog)
    assert (line.fields["then"], bool(line.exc_info)) == ("skipped", False)


async def test_a_fault_that_the_handler_caught_does_not_count(cluster: Cluster) -> None:
    broker = broker_with(cluster, b"no order")
    broker.script[BACK] = lambda request: Reply()

    async def handle(msg: Received) -> None:
        try:
            msg.decode(Order)
        except ValueError:
            raise ConnectionError("nobody to ask") from None

    await consume(cluster, handle)
    assert broker.requests(BACK)[0].fields["delayLevel"] == "0"


class WithoutText(Exception):
    def __str__(self) -> str:
        return str(self.args[1])

    __repr__ = __str__


async def test_an_exception_without_a_text_fails_its_message_and_not_the_consumer(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    broker = broker_with(cluster, b"x", b"y")
    broker.script[BACK] = lambda request: Reply()

    async def handle(msg: Received) -> None:
        raise WithoutText("one alone")

    _, consumer = await consume(cluster, handle, concurrency=1)
    assert (consumer.runner.failed, len(broker.requests(BACK))) == (2, 2)
    assert "the handler raised WithoutText, whose text cannot be made (IndexError)" in lines(caplog)[0].fields["fault"]


async def test_words_that_are_no_way_are_refused(cluster: Cluster) -> None:
    client = await cluster.client()
    options: dict[str, Any] = {"group": "g", "begin": ConsumeFromWhere.FIRST_OFFSET}
    with pytest.raises(Error, match=r"on_undecodable='drop' .*Give .dead-letter. or .retry. or .skip."):
        client.push_consumer("T", by_hint, on_undecodable="drop", **options)  # type: ignore[arg-type]
    with pytest.raises(Error, match=r"on_undecodable='retry' .*Give .skip."):
        client.push_consumer("T", by_hint, on_undecodable="retry", broadcast=True, **options)
