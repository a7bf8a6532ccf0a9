"""What consumers tell of themselves: the layout, and the verdict over all members of a group."""

from __future__ import annotations

from pyromq.mqadmin.groups import connections
from pyromq.protocol.bodies.connections import (
    ConsumerRunningInfo,
    ConsumeStatus,
    PopProcessQueueInfo,
    ProcessQueueInfo,
)
from pyromq.protocol.bodies.heartbeat import SubscriptionData
from pyromq.protocol.bodies.keyed import ByQueue, MessageQueue

from .golden import blocks

NOW = 1_000_000_000
QUEUE = MessageQueue(topic="T", broker_name="broker-a", queue_id=0)
PUSH = {"PROP_CONSUME_TYPE": "CONSUME_PASSIVELY", "PROP_CONSUMER_START_TIMESTAMP": "1"}


def member(wants: str = "*", at: ProcessQueueInfo | None = None, **properties: str) -> ConsumerRunningInfo:
    return ConsumerRunningInfo(
        properties=PUSH | properties,
        subscription_set=[SubscriptionData(topic="T", sub_string=wants)],
        mq_table=ByQueue({QUEUE: at or ProcessQueueInfo(last_consume_timestamp=NOW, locked=True)}),
    )


def test_the_headings_are_those_of_the_recording() -> None:
    """Line by line but for what is between: properties, queues and topics of the client of then."""
    recorded = next(block.printed for block in blocks("consumerStatus") if "-i" in block.words)
    info = member()
    info.mq_pop_table = ByQueue({QUEUE: PopProcessQueueInfo(wait_ack_count=3)})
    info.status_table = {"T": ConsumeStatus(pull_rt=1.5, consume_failed_msgs=4)}
    ours = connections.text(info).splitlines()
    assert [line for line in ours if line.startswith("#")] == [
        line for line in recorded.splitlines() if line.startswith("#")
    ]
    assert ["T", "1.50", "0.00", "0.00", "0.00", "0.00", "4"] in [line.split() for line in ours]
    assert "PopProcessQueueInfo [waitAckCount:3, droped:false, lastPopTimestamp:0]" in "\n".join(ours)


def test_stacks_stand_at_the_end() -> None:
    info = member()
    info.jstack = "main: waiting"
    assert connections.text(info).endswith("\n\n\n#Consumer jstack#\nmain: waiting\n")


def test_members_that_want_the_same() -> None:
    assert connections.verdict({"a": member(), "b": member()}, NOW) == connections.GOOD


def test_members_that_disagree_longer_than_a_start_takes() -> None:
    both = {"a": member("TagA"), "b": member("TagB")}
    assert connections.verdict(both, NOW).strip() == "WARN: Different subscription in the same group of consumer!!!"
    assert connections.verdict(both, 60_000) == connections.GOOD


def test_members_that_hang() -> None:
    slow = member(at=ProcessQueueInfo(cached_msg_count=5, last_consume_timestamp=NOW - 61_000))
    assert connections.verdict({"a": slow}, NOW).endswith(
        "a MessageQueue [topic=T, brokerName=broker-a, queueId=0] can't consume for a while, maybe blocked, 61000ms\n"
    )
    unlocked = member(at=ProcessQueueInfo(last_lock_timestamp=NOW - 5), PROP_CONSUMEORDERLY="true")
    assert connections.verdict({"a": unlocked}, NOW).endswith("can't lock for a while, 5ms\n")
    kept = member(at=ProcessQueueInfo(locked=True, droped=True, try_unlock_times=2), PROP_CONSUMEORDERLY="true")
    assert connections.verdict({"a": kept}, NOW).endswith("unlock 2 times, still failed\n")
    pulls = member(at=ProcessQueueInfo(cached_msg_count=5), PROP_CONSUME_TYPE="CONSUME_ACTIVELY")
    assert connections.verdict({"a": pulls}, NOW) == connections.GOOD
