"""Push consumers on virtual time: what happens when, against a scripted broker."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any

import pytest

from pyromq.client.client import Client
from pyromq.client.consume.push_consumer import PushConsumer
from pyromq.client.core.allocation import Average
from pyromq.client.core.process_queue import FlowLimits
from pyromq.client.core.retry import Reject, Retry, RetryLater
from pyromq.client.errors import Error
from pyromq.client.received import Received
from pyromq.model.codes import ResponseCode
from pyromq.model.group import ConsumeFromWhere
from pyromq.protocol.bodies.body import decode_body, encode_body
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.heartbeat import LockBatchResponseBody
from pyromq.protocol.command import Command
from pyromq.protocol.properties import decode_properties
from pyromq.protocol.requests import RequestCode
from pyromq.transport.dispatch import Answer, Reply, Request
from tests.client.cluster import NAMES, Cluster, FakeBroker, pull_fields

PULL = RequestCode.PULL_MESSAGE
BACK = RequestCode.CONSUMER_SEND_MSG_BACK


async def consume(cluster: Cluster, handler: Any, **options: Any) -> tuple[Client, PushConsumer]:
    client = await cluster.client()
    given: dict[str, Any] = {"group": "g", "begin": ConsumeFromWhere.FIRST_OFFSET} | options
    consumer = client.push_consumer("T", handler, **given)
    await consumer.start()
    await cluster.clock.settle(100)
    return client, consumer


class Handler:
    """Fails as often as it is told, with what it is told."""

    def __init__(self, *faults: Exception) -> None:
        self.faults = list(faults)
        self.calls: list[tuple[bytes, int]] = []

    async def __call__(self, msg: Received) -> None:
        self.calls.append((msg.body, msg.attempt))
        if self.faults:
            raise self.faults.pop(0)


def broker_with(cluster: Cluster, *bodies: bytes) -> FakeBroker:
    broker = cluster.broker("a", T=1)
    cluster.topics["%RETRY%g"] = {"a": 1}
    broker.put("T", 0, *bodies)
    return broker


def pulls(broker: FakeBroker) -> list[int]:
    """Offsets that were pulled from T."""
    return [int(each.fields["queueOffset"]) for each in broker.requests(PULL) if each.fields["topic"] == "T"]


async def test_offsets_are_committed_every_5_s_and_a_stop_commits_the_rest(cluster: Cluster) -> None:
    broker = broker_with(cluster, b"0", b"1")
    _, consumer = await consume(cluster, Handler())
    assert ("T", 0) not in broker.offsets
    await cluster.clock.advance(5)
    assert broker.offsets["T", 0] == 2
    broker.put("T", 0, b"2")
    await cluster.clock.advance(0.2)
    await consumer.stop()
    assert broker.offsets["T", 0] == 3
    assert broker.members == []


async def test_a_message_in_work_holds_the_commit_back(cluster: Cluster) -> None:
    broker = broker_with(cluster, b"slow", b"1", b"2")
    may_end = asyncio.Event()

    async def handle(msg: Received) -> None:
        if msg.body == b"slow":
            await may_end.wait()

    await consume(cluster, handle)
    await cluster.clock.advance(5)
    assert broker.offsets["T", 0] == 0
    may_end.set()
    await cluster.clock.advance(5)
    assert broker.offsets["T", 0] == 3


async def test_a_failed_message_is_given_back_to_its_broker(cluster: Cluster) -> None:
    broker = broker_with(cluster, b"0")
    broker.script[BACK] = lambda request: Reply()
    handler = Handler(ValueError("no"))
    await consume(cluster, handler)
    (back,) = broker.requests(BACK)
    assert (back.fields["offset"], back.fields["group"], back.fields["delayLevel"]) == ("0", "g", "0")
    assert (back.fields["maxReconsumeTimes"], back.fields["originTopic"]) == ("16", "T")
    await cluster.clock.advance(5)
    assert broker.offsets["T", 0] == 1
    assert len(handler.calls) == 1


@pytest.mark.parametrize(
    ("fault", "reconsumed", "level"),
    [(Reject(), 0, "-1"), (RetryLater(30), 0, "4"), (ValueError(), 15, "0"), (ValueError(), 16, "-1")],
)
async def test_the_level_says_when_it_comes_again(
    cluster: Cluster, fault: Exception, reconsumed: int, level: str
) -> None:
    broker = broker_with(cluster)
    broker.put("T", 0, b"x", reconsume_times=reconsumed)
    broker.script[BACK] = lambda request: Reply()
    await consume(cluster, Handler(fault))
    assert broker.requests(BACK)[0].fields["delayLevel"] == level


async def test_where_36_fails_the_message_is_sent_to_the_retry_topic(cluster: Cluster) -> None:
    broker = broker_with(cluster)
    broker.put("T", 0, b"x", reconsume_times=2, properties={"UNIQ_KEY": "ID", "TAGS": "t", "__CRC32#": "1"})
    await consume(cluster, Handler(ValueError()))
    (sent,) = broker.requests(RequestCode.SEND_MESSAGE_V2)
    assert (sent.fields["b"], sent.fields["j"], sent.fields["l"]) == ("%RETRY%g", "3", "16")
    assert decode_properties(sent.fields["i"]) == {
        "UNIQ_KEY": "ID",
        "TAGS": "t",
        "RETRY_TOPIC": "T",
        "ORIGIN_MESSAGE_ID": "ID",
        "PYRO_REASON": "ValueError",  # the broker may count it as the last attempt
        "DELAY": "5",
    }
    await cluster.clock.advance(5)
    assert broker.offsets["T", 0] == 1


async def test_where_that_fails_too_it_is_kept_and_handled_again_after_5_s(cluster: Cluster) -> None:
    broker = broker_with(cluster, b"x", b"y")
    broker.script[RequestCode.SEND_MESSAGE_V2] = lambda request: Reply(ResponseCode.MESSAGE_ILLEGAL, "no delays here")
    handler = Handler(ValueError(), ValueError())
    await consume(cluster, handler, concurrency=1)
    assert handler.calls == [(b"x", 1), (b"y", 1)]
    await cluster.clock.advance(4.9)
    assert len(handler.calls) == 2
    assert broker.offsets.get(("T", 0), 0) == 0
    await cluster.clock.advance(0.2)
    assert handler.calls[2:] == [(b"x", 2), (b"y", 2)]
    await cluster.clock.advance(5)
    assert broker.offsets["T", 0] == 2


async def test_a_handler_that_takes_too_long_is_cancelled_and_its_message_retried(cluster: Cluster) -> None:
    broker = broker_with(cluster, b"x")
    broker.script[BACK] = lambda request: Reply()
    cancelled = []

    async def handle(msg: Received) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(msg.body)
            raise

    await consume(cluster, handle)
    await cluster.clock.advance(899)
    assert cancelled == []
    await cluster.clock.advance(1)
    assert cancelled == [b"x"]
    assert len(broker.requests(BACK)) == 1


@pytest.mark.parametrize("options", [{}, {"max_batch": 4}, {"orderly": True}])
async def test_a_handler_that_hides_its_time_out_has_not_handled_its_message(
    cluster: Cluster, options: dict[str, Any]
) -> None:
    broker_with(cluster, b"x")

    async def handle(msg: Any) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    _, consumer = await consume(cluster, handle, timeout_s=10, **options)
    await cluster.clock.advance(9)
    assert (consumer.runner.done, consumer.runner.failed) == (0, 0)
    await cluster.clock.advance(1)
    assert (consumer.runner.done, consumer.runner.failed) == (0, 1)


async def test_a_handler_that_hides_a_stop_has_not_handled_its_message(cluster: Cluster) -> None:
    broker = broker_with(cluster, b"x")

    async def handle(msg: Received) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    _, consumer = await consume(cluster, handle, grace_s=1)
    stopping = asyncio.ensure_future(consumer.stop())
    await cluster.clock.advance(1)
    await stopping
    assert broker.offsets.get(("T", 0), 0) == 0


async def test_a_handler_that_leaves_a_cancellation_behind_is_no_trouble(cluster: Cluster) -> None:
    """Old time-outs of libraries cancel the task, and never say that this is over (`uncancel`)."""
    broker_with(cluster, b"0", b"1", b"2")

    async def handle(msg: Received) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.sleep(0)

    _, consumer = await consume(cluster, handle, concurrency=1)
    await cluster.clock.advance(1)
    assert (consumer.runner.done, consumer.runner.failed) == (3, 0)


@pytest.mark.parametrize("orderly", [False, True])
async def test_a_handler_that_cancels_its_own_task_does_not_stop_it_without_a_word(
    cluster: Cluster, orderly: bool
) -> None:
    broker = broker_with(cluster, b"x")

    async def handle(msg: Received) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.Event().wait()

    _, consumer = await consume(cluster, handle, concurrency=1, orderly=orderly)
    with pytest.raises(Error, match="did it cancel its own task"):
        await consumer.wait()
    await consumer.stop()
    assert broker.offsets.get(("T", 0), 0) == 0


async def test_no_more_handlers_run_at_once_than_asked_for(cluster: Cluster) -> None:
    broker_with(cluster, *(b"x" for _ in range(30)))
    running: list[int] = [0, 0]

    async def handle(msg: Received) -> None:
        running[0] += 1
        running[1] = max(running)
        await cluster.clock.sleep(1)
        running[0] -= 1

    await consume(cluster, handle, concurrency=7)
    await cluster.clock.advance(10)
    assert running == [0, 7]


async def test_full_means_a_look_every_50_ms_and_one_log_line_in_a_thousand(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    broker = broker_with(cluster, *(b"x" for _ in range(100)))
    may_end = asyncio.Event()

    async def handle(msg: Received) -> None:
        await may_end.wait()

    with caplog.at_level(logging.WARNING, "pyromq.client"):
        _, consumer = await consume(cluster, handle, limits=FlowLimits(messages=32))
        await cluster.clock.advance(0.1)
        before = len(pulls(broker))
        assert pulls(broker) == [0, 32]
        await cluster.clock.advance(40)
        assert len(pulls(broker)) == before
    (held,) = (assigned for queue, assigned in consumer.assigned.items() if queue.topic == "T")
    assert 800 <= held.process.times_full <= 806
    assert sum(getattr(record, "event", "") == "handlers are behind, pulls wait" for record in caplog.records) == 1
    may_end.set()
    await cluster.clock.advance(0.05)
    assert pulls(broker)[-1] == 100


async def test_an_error_waits_3_s_and_a_busy_broker_20_ms(cluster: Cluster) -> None:
    broker = broker_with(cluster)
    broker.script[PULL] = lambda request: Reply(ResponseCode.SYSTEM_ERROR, "no")
    await consume(cluster, Handler())
    assert len(pulls(broker)) == 1
    await cluster.clock.advance(2.9)
    assert len(pulls(broker)) == 1
    await cluster.clock.advance(0.1)
    assert len(pulls(broker)) == 2
    broker.script[PULL] = lambda request: Reply(ResponseCode.SYSTEM_BUSY, "busy")
    await cluster.clock.advance(3)
    count = len(pulls(broker))
    await cluster.clock.advance(0.1)
    assert len(pulls(broker)) == count + 5


async def test_no_match_moves_on_at_once_and_the_offset_with_it(cluster: Cluster) -> None:
    broker = broker_with(cluster, b"x")
    held: list[int] = []

    def answer(request: Request) -> Answer:
        offset = int(request.command.fields["queueOffset"])
        if offset < 800 and request.command.fields["topic"] == "T":
            return Reply(ResponseCode.PULL_RETRY_IMMEDIATELY, fields=pull_fields(offset + 400, 900))
        held.append(offset)
        return None

    broker.script[PULL] = answer
    await consume(cluster, Handler())
    assert pulls(broker) == [0, 400, 800]
    await cluster.clock.advance(5)
    assert broker.offsets["T", 0] == 800


async def test_an_illegal_offset_drops_the_queue_for_10_s_and_begins_anew(cluster: Cluster) -> None:
    broker = broker_with(cluster, b"x")
    broker.offsets["T", 0] = 5000

    def answer(request: Request) -> Answer:
        if request.command.fields["queueOffset"] == "5000":
            return Reply(ResponseCode.PULL_OFFSET_MOVED, fields=pull_fields(0, 1))
        return broker._on_11(request)

    broker.script[PULL] = answer
    handler = Handler()
    await consume(cluster, handler)
    assert pulls(broker) == [5000]
    await cluster.clock.advance(9.9)
    assert (pulls(broker), broker.offsets["T", 0]) == ([5000], 0)
    await cluster.clock.advance(0.2)
    assert handler.calls == [(b"x", 1)]
    await cluster.clock.advance(5)
    assert broker.offsets["T", 0] == 1


async def test_a_group_that_was_reset_while_nobody_consumed_begins_at_once(cluster: Cluster) -> None:
    """Its broker moves the first pull to the offset that it has already given out."""
    broker = broker_with(cluster, b"x", b"y")
    broker.offsets["T", 0] = 1
    moved = [Reply(ResponseCode.PULL_OFFSET_MOVED, fields=pull_fields(1, 2))]
    broker.script[PULL] = lambda request: moved.pop() if moved else broker._on_11(request)
    handler = Handler()
    await consume(cluster, handler)
    assert handler.calls == [(b"y", 1)]


async def test_a_broker_that_moves_a_pull_to_its_own_offset_again_and_again_gets_its_pause(cluster: Cluster) -> None:
    broker = broker_with(cluster, b"x")
    broker.script[PULL] = lambda request: Reply(ResponseCode.PULL_OFFSET_MOVED, fields=pull_fields(0, 1))
    await consume(cluster, Handler())
    assert pulls(broker) == [0, 0]
    await cluster.clock.advance(9.9)
    assert pulls(broker) == [0, 0]


async def test_late_results_of_a_queue_that_was_taken_away_do_not_count(cluster: Cluster) -> None:
    broker = broker_with(cluster, b"x", b"y")
    may_end = asyncio.Event()

    async def handle(msg: Received) -> None:
        if msg.body == b"x":
            await may_end.wait()

    _, consumer = await consume(cluster, handle)
    broker.members.insert(0, "0@first")  # it sorts before us and gets the only queue
    broker.notify(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, consumerGroup="g")
    await cluster.clock.settle(100)
    assert [queue for queue in consumer.assigned if queue.topic == "T"] == []
    assert broker.offsets["T", 0] == 0
    may_end.set()
    await cluster.clock.advance(20)
    assert broker.offsets["T", 0] == 0
    assert broker.requests(BACK) == []


async def test_queues_are_shared_out_every_20_s_and_at_once_when_members_change(cluster: Cluster) -> None:
    broker = broker_with(cluster)
    await consume(cluster, Handler())
    lists = RequestCode.GET_CONSUMER_LIST_BY_GROUP
    count = len(broker.requests(lists))
    await cluster.clock.advance(19)
    assert len(broker.requests(lists)) == count
    await cluster.clock.advance(1)
    assert len(broker.requests(lists)) == count + 2  # once per topic, the retry topic too
    broker.notify(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, consumerGroup="g")
    await cluster.clock.settle(100)
    assert len(broker.requests(lists)) == count + 4


async def test_pause_and_resume(cluster: Cluster) -> None:
    broker = broker_with(cluster)
    handler = Handler()
    _, consumer = await consume(cluster, handler)
    consumer.pause()
    await cluster.clock.advance(16)  # the pull that was held already comes back
    broker.put("T", 0, b"x")
    await cluster.clock.advance(60)
    assert handler.calls == []
    consumer.resume()
    await cluster.clock.advance(1)
    assert handler.calls == [(b"x", 1)]


async def test_a_reset_by_an_operator_begins_anew_after_10_s(cluster: Cluster) -> None:
    broker = broker_with(cluster, b"0", b"1", b"2")
    handler = Handler()
    await consume(cluster, handler)
    await cluster.clock.advance(5)
    body = b'{"offsetTable":{{"brokerName":"a","queueId":0,"topic":"T"}:1}}'
    (peer,) = broker.server.peers()
    fields = {"topic": "T", "group": "g", "timestamp": "0", "isForce": "true"}
    asking = asyncio.create_task(
        peer.call(Command(code=RequestCode.RESET_CONSUMER_CLIENT_OFFSET, fields=fields, body=body), 3)
    )
    await cluster.clock.settle(100)
    assert broker.offsets["T", 0] == 1  # at once: this process may end now
    await cluster.clock.advance(10)
    assert (await asking).code == 0
    await cluster.clock.settle(100)
    assert [body for body, _ in handler.calls[3:]] == [b"1", b"2"]


# --- orderly ---------------------------------------------------------------------------------------------------------


async def test_a_failed_ordered_message_comes_again_in_its_place_after_1_s(cluster: Cluster) -> None:
    broker = broker_with(cluster, b"0", b"1")
    handler = Handler(ValueError(), RetryLater(5))
    await consume(cluster, handler, orderly=True)
    assert handler.calls == [(b"0", 1)]
    await cluster.clock.advance(1)
    assert handler.calls == [(b"0", 1), (b"0", 2)]
    await cluster.clock.advance(4.9)
    assert len(handler.calls) == 2
    await cluster.clock.advance(0.1)
    assert handler.calls[2:] == [(b"0", 3), (b"1", 1)]
    assert broker.requests(BACK) == []


async def test_an_ordered_message_that_failed_too_often_is_a_dead_letter(cluster: Cluster) -> None:
    broker = broker_with(cluster, b"0", b"1")
    fields = {"msgId": "A", "queueId": "0", "queueOffset": "0"}
    broker.script[RequestCode.SEND_MESSAGE_V2] = lambda request: Reply(fields=fields)  # goes to the dead letters
    handler = Handler(ValueError(), ValueError(), ValueError())
    await consume(cluster, handler, orderly=True, retry=Retry(times=2))
    await cluster.clock.advance(3)
    assert handler.calls == [(b"0", 1), (b"0", 2), (b"0", 3), (b"1", 1)]
    (sent,) = broker.requests(RequestCode.SEND_MESSAGE_V2)
    assert (sent.fields["b"], sent.fields["j"], sent.fields["l"]) == ("%RETRY%g", "3", "0")


async def test_the_bound_of_an_ordered_message_may_be_the_groups_own(cluster: Cluster) -> None:
    broker = broker_with(cluster, b"0", b"1")
    fields = {"msgId": "A", "queueId": "0", "queueOffset": "0"}
    broker.script[RequestCode.SEND_MESSAGE_V2] = lambda request: Reply(fields=fields)
    broker.script[RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG] = lambda request: Reply(
        body=encode_body(SubscriptionGroupConfig(group_name="g", retry_max_times=1))
    )
    handler = Handler(ValueError(), ValueError())
    await consume(cluster, handler, orderly=True, retry=Retry(of_group=True))
    await cluster.clock.advance(3)
    assert handler.calls == [(b"0", 1), (b"0", 2), (b"1", 1)]
    assert len(broker.requests(RequestCode.SEND_MESSAGE_V2)) == 1


@pytest.mark.parametrize("says", [16, None])
async def test_an_ordered_message_is_dead_after_16_retries_where_nothing_else_is_set(
    cluster: Cluster, says: int | None
) -> None:
    """By the broker's word of the group, or, of a broker before 5.0 (which knows no such question), without it."""
    broker = broker_with(cluster, b"0", b"1")
    fields = {"msgId": "A", "queueId": "0", "queueOffset": "0"}
    broker.script[RequestCode.SEND_MESSAGE_V2] = lambda request: Reply(fields=fields)
    if says is not None:
        body = encode_body(SubscriptionGroupConfig(group_name="g", retry_max_times=says))
        broker.script[RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG] = lambda request: Reply(body=body)
    handler = Handler(*(ValueError() for _ in range(17)))
    await consume(cluster, handler, orderly=True)
    await cluster.clock.advance(60)
    assert handler.calls == [*((b"0", attempt) for attempt in range(1, 18)), (b"1", 1)], "the queue goes on"
    assert len(broker.requests(RequestCode.SEND_MESSAGE_V2)) == 1


async def test_ordered_retries_have_no_end_where_that_is_asked_for(cluster: Cluster) -> None:
    broker_with(cluster, b"0", b"1")
    handler = Handler(*(ValueError() for _ in range(300)))
    await consume(cluster, handler, orderly=True, retry=Retry(times=None))
    await cluster.clock.advance(100)
    assert {body for body, _ in handler.calls} == {b"0"}
    assert len(handler.calls) > 90


@pytest.mark.parametrize("asked", [None, False, True])
async def test_a_group_that_is_set_orderly_is_consumed_so_unless_the_consumer_says_otherwise(
    cluster: Cluster, asked: bool | None
) -> None:
    broker = broker_with(cluster, b"0", b"1")
    body = encode_body(SubscriptionGroupConfig(group_name="g", consume_message_orderly=True))
    broker.script[RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG] = lambda request: Reply(body=body)
    _, consumer = await consume(cluster, Handler(), **({} if asked is None else {"orderly": asked}))
    assert bool(broker.requests(RequestCode.LOCK_BATCH_MQ)) is (asked is not False)
    assert consumer.facts()["PROP_CONSUMEORDERLY"] == ("false" if asked is False else "true")


@pytest.mark.parametrize(
    ("answer", "warnings"),
    [
        (Reply(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST), 0),
        (Reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED), 0),
        (Reply(ResponseCode.NO_PERMISSION), 1),
    ],
)
async def test_a_group_whose_setting_cannot_be_read_is_consumed_concurrently(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, answer: Reply, warnings: int
) -> None:
    broker = broker_with(cluster, b"0", b"1")
    broker.script[RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG] = lambda request: answer
    handler = Handler()
    await consume(cluster, handler)
    assert len(handler.calls) == 2
    assert broker.requests(RequestCode.LOCK_BATCH_MQ) == []
    said = [each for each in caplog.records if "whether the group is set to consume in order" in each.getMessage()]
    assert len(said) == warnings


@pytest.mark.parametrize("away", ["the name server", "the broker, which a name server names"])
@pytest.mark.parametrize("orderly", [True, False])
async def test_a_group_handles_nothing_until_a_broker_has_said_whether_it_consumes_in_order(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, away: str, orderly: bool
) -> None:
    """As after a reboot: the consumer is there before its broker."""
    broker = broker_with(cluster, b"0", b"1", b"2")
    body = encode_body(SubscriptionGroupConfig(group_name="g", consume_message_orderly=orderly))
    broker.script[RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG] = lambda request: Reply(body=body)
    cluster.network.unlisten(NAMES if away == "the name server" else broker.address)
    at_once: list[int] = []
    running: set[bytes] = set()

    async def handle(msg: Received) -> None:
        running.add(msg.body)
        at_once.append(len(running))
        await cluster.clock.sleep(1)
        running.discard(msg.body)

    starting = asyncio.ensure_future(consume(cluster, handle))
    await cluster.clock.advance(30)
    _, consumer = await starting
    assert consumer.assigned == {}
    assert sum("whether the group consumes in order" in text for text in caplog.messages) == 1
    consumer.pause()
    cluster.network.listen(NAMES, cluster.names.attach)
    cluster.network.listen(broker.address, broker.server.attach)
    await cluster.clock.advance(40)
    assert at_once == [], "what was paused stays so"
    consumer.resume()
    await cluster.clock.advance(10)
    assert at_once == ([1, 1, 1] if orderly else [1, 2, 3])
    assert len(broker.requests(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG)) == 1


async def test_a_broker_that_comes_later_is_asked_too_and_turns_a_running_group_orderly(cluster: Cluster) -> None:
    first = broker_with(cluster, b"0")
    first.script[RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG] = lambda _: Reply(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
    handler = Handler()
    _, consumer = await consume(cluster, handler)
    await cluster.clock.advance(60)
    assert handler.calls == [(b"0", 1)]
    assert len(first.requests(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG)) == 1, "asked once"
    second = cluster.broker("b", T=1)
    body = encode_body(SubscriptionGroupConfig(group_name="g", consume_message_orderly=True))
    second.script[RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG] = lambda _: Reply(body=body)
    await cluster.clock.advance(60)
    first.put("T", 0, b"1")
    second.put("T", 0, b"2")
    await cluster.clock.advance(20)
    assert sorted(handler.calls) == [(b"0", 1), (b"1", 1), (b"2", 1)], "nothing twice"
    assert first.requests(RequestCode.LOCK_BATCH_MQ)
    assert consumer.facts()["PROP_CONSUMEORDERLY"] == "true"


async def test_a_strategy_that_raises_while_the_group_turns_orderly_is_tried_again(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    first = broker_with(cluster, b"0")
    first.script[RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG] = lambda _: Reply(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
    handler, average = Handler(), Average()
    fails = False

    def strategy(*group: Any) -> Any:
        if fails:
            raise RuntimeError("my strategy")
        return average(*group)

    _, consumer = await consume(cluster, handler, strategy=strategy)
    second = cluster.broker("b", T=1)
    body = encode_body(SubscriptionGroupConfig(group_name="g", consume_message_orderly=True))
    second.script[RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG] = lambda _: Reply(body=body)
    fails = True
    await cluster.clock.advance(60)
    assert (consumer.facts()["PROP_CONSUMEORDERLY"], len(consumer.assigned)) == ("true", 0)
    assert any("my strategy" in text for text in caplog.messages)
    fails = False
    first.put("T", 0, b"1")
    second.put("T", 0, b"2")
    await cluster.clock.advance(20)
    assert sorted(handler.calls) == [(b"0", 1), (b"1", 1), (b"2", 1)]
    assert not any("died" in text for text in caplog.messages)


async def test_without_an_answer_about_the_groups_bound_an_ordered_message_is_kept(cluster: Cluster) -> None:
    broker = broker_with(cluster, b"0", b"1")
    broker.script[RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG] = lambda request: Reply(ResponseCode.SYSTEM_ERROR)
    handler = Handler(*(ValueError() for _ in range(30)))
    await consume(cluster, handler, orderly=True, retry=Retry(of_group=True))
    await cluster.clock.advance(20)
    assert {body for body, _ in handler.calls} == {b"0"}


async def test_the_broker_is_not_told_a_bound_where_the_groups_own_counts(cluster: Cluster) -> None:
    broker = broker_with(cluster, b"0")
    broker.script[BACK] = lambda request: Reply()
    await consume(cluster, Handler(ValueError()), retry=Retry(of_group=True))
    (back,) = broker.requests(BACK)
    assert "maxReconsumeTimes" not in back.fields


async def test_locks_are_renewed_every_20_s_and_without_one_nothing_is_handled(cluster: Cluster) -> None:
    broker = broker_with(cluster)
    handler = Handler()
    await consume(cluster, handler, orderly=True)
    locks = RequestCode.LOCK_BATCH_MQ
    count = len(broker.requests(locks))
    await cluster.clock.advance(20)
    assert len(broker.requests(locks)) == count + 1
    broker.script[locks] = lambda request: Reply(body=encode_body(LockBatchResponseBody()))
    await cluster.clock.advance(31)  # what was granted last has run out
    broker.put("T", 0, b"x")
    await cluster.clock.advance(30)
    assert handler.calls == []
    del broker.script[locks]
    await cluster.clock.advance(30)
    assert handler.calls == [(b"x", 1)]


async def test_a_queue_whose_lock_another_holds_is_not_taken_until_it_is_free(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    def said() -> list[str]:
        return [text for text in caplog.messages if "wait for the locks of another client" in text]

    broker = broker_with(cluster, b"x")
    broker.script[RequestCode.LOCK_BATCH_MQ] = lambda request: Reply(body=encode_body(LockBatchResponseBody()))
    handler = Handler()
    _, consumer = await consume(cluster, handler, orderly=True)
    await cluster.clock.advance(1)
    assert said() == [], "members that go give their locks up in a moment"
    await cluster.clock.advance(10)
    assert consumer.assigned == {}
    assert len(said()) == 1, "once, and not for the retries too"
    assert 'topic=T queues="0 of a"' in said()[0]
    assert "after 60 s" in said()[0]
    del broker.script[RequestCode.LOCK_BATCH_MQ]
    await cluster.clock.advance(2)
    assert handler.calls == [(b"x", 1)]


async def test_an_ordered_queue_is_let_go_only_after_its_handler_has_ended(cluster: Cluster) -> None:
    broker = broker_with(cluster, b"x", b"y")
    may_end = asyncio.Event()

    async def handle(msg: Received) -> None:
        await may_end.wait()

    await consume(cluster, handle, orderly=True)
    broker.members.insert(0, "0@first")
    broker.notify(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, consumerGroup="g")
    await cluster.clock.settle(100)
    assert broker.requests(RequestCode.UNLOCK_BATCH_MQ) == []
    may_end.set()
    await cluster.clock.settle(200)
    assert broker.offsets["T", 0] == 1  # x is done, y was not begun
    unlocks = [decode_body(dict[str, Any], each.body) for each in broker.requests(RequestCode.UNLOCK_BATCH_MQ)]
    assert {queue["topic"] for each in unlocks for queue in each["mqSet"]} >= {"T"}


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("ends", [True, False])
async def test_a_stop_that_was_cancelled_goes_on_and_a_second_one_awaits_its_end(
    cluster: Cluster, ends: bool, orderly: bool
) -> None:
    broker = broker_with(cluster, b"x")
    may_end = asyncio.Event()
    outcomes = []

    async def handle(msg: Received) -> None:
        try:
            await may_end.wait()
            outcomes.append("done")
        except asyncio.CancelledError:
            outcomes.append("cancelled")
            raise

    _, consumer = await consume(cluster, handle, orderly=orderly, grace_s=10)
    first = asyncio.create_task(consumer.stop())
    await cluster.clock.settle(100)
    first.cancel()
    await cluster.clock.settle(100)
    assert (first.cancelled(), outcomes, broker.members != []) == (True, [], True)
    second = asyncio.create_task(consumer.stop())
    await cluster.clock.settle(100)
    assert not second.done()
    if ends:
        may_end.set()
    await cluster.clock.advance(11)
    await second
    assert outcomes == ["done" if ends else "cancelled"]
    assert broker.offsets["T", 0] == int(ends)
    assert (consumer.running, len(consumer._tasks._tasks), broker.members) == (0, 0, [])


async def test_a_stop_during_the_start_leaves_no_lock_and_no_task(cluster: Cluster) -> None:
    broker = broker_with(cluster, b"x")

    async def slowly(request: Request) -> Reply:
        await cluster.clock.sleep(1)
        return broker._on_41(request)

    broker.script[RequestCode.LOCK_BATCH_MQ] = slowly
    client = await cluster.client()
    consumer = client.push_consumer("T", Handler(), group="g", orderly=True)
    starting = asyncio.create_task(consumer.start())
    await cluster.clock.settle(100)
    stopping = asyncio.create_task(consumer.stop())
    await cluster.clock.advance(2)
    await asyncio.gather(starting, stopping)
    (unlock,) = broker.requests(RequestCode.UNLOCK_BATCH_MQ)
    assert b'"topic":"T"' in unlock.body
    assert (consumer.assigned, len(consumer._tasks._tasks), broker.members) == ({}, 0, [])


async def test_after_a_start_that_failed_the_group_is_free(cluster: Cluster) -> None:
    """A strategy is the user's code, and may raise anything, also in a subscription that is declared."""
    broker_with(cluster, b"1")
    client, handler = await cluster.client(), Handler()

    def broken(*_: object) -> list[Any]:
        raise RuntimeError("my strategy")

    given: dict[str, Any] = {"group": "g", "begin": ConsumeFromWhere.FIRST_OFFSET}
    with pytest.raises(RuntimeError, match="my strategy"):
        await client.push_consumer("T", handler, strategy=broken, **given).start()
    async with client.pull_consumer(strategy=broken, **given) as pull:
        with pytest.raises(RuntimeError, match="my strategy"):
            await pull.subscribe("T")
        await pull.assign(await pull.queues("T"))
    async with client.push_consumer("T", handler, **given):
        await cluster.clock.settle(100)
    assert handler.calls == [(b"1", 1)]


async def test_a_client_whose_start_failed_is_stopped(cluster: Cluster) -> None:
    def failing(*_: object) -> list[Any]:
        raise ZeroDivisionError

    broker_with(cluster)
    client = await cluster.client()
    declared = Client(client.session.config, clock=cluster.clock, connect=cluster.network.connect)
    for group, strategy in (("well", Average()), ("ill", failing)):
        declared.subscribe("T", group=group, strategy=strategy)(Handler())
    starting = asyncio.ensure_future(declared.start())
    await cluster.clock.advance(1)
    with pytest.raises(ZeroDivisionError):
        await starting
    assert declared.session.is_closed
    assert "well" not in declared.session.heartbeats._members
