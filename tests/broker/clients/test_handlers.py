"""Heartbeats and what hangs on them, as requests: groups and retry topics made, members told, locks given."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyromq.broker.clients.consumers import Consumers
from pyromq.broker.clients.filter_data import ConsumerFilters
from pyromq.broker.clients.handlers import ClientHandlers
from pyromq.broker.clients.order_locks import OrderLocks
from pyromq.broker.clients.producers import Producers
from pyromq.broker.metadata.groups import Groups
from pyromq.broker.metadata.topics import Topics
from pyromq.errors import Malformed, RequestRefused
from pyromq.model.codes import ResponseCode
from pyromq.model.filters.bloom import Bloom
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.requests import RequestCode
from pyromq.store.tables.json_tables import JsonTable
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from pyromq.transport.dispatch import Reply
from tests.broker.peers import FakePeer
from tests.broker.settings import live, request


async def nothing_to_keep() -> None: ...


class Room:
    def __init__(self, disk: SimulatedDisk, **settings: Any) -> None:
        self.clock = ManualClock()
        self.topics = Topics(JsonTable(disk, "config/topics.json"), self.clock.now_ms)
        self.groups = Groups(JsonTable(disk, "config/subscriptionGroup.json"), self.clock.now_ms)
        self.consumers, self.producers = Consumers(), Producers()
        self.handlers = ClientHandlers(
            live(**settings),
            self.clock,
            self.topics,
            self.groups,
            self.consumers,
            self.producers,
            OrderLocks(),
            ConsumerFilters(JsonTable(disk, "config/consumerFilter.json"), self.clock.now_ms, Bloom(3, 112)),
            nothing_to_keep,
        )

    def beat(self, peer: FakePeer, client: str, group: str = "G", tags: str = "*", **extra: Any) -> dict[str, str]:
        reply = self.answer(peer, client, group, tags, **extra)
        assert reply.header is not None
        return reply.header.to_fields()

    def answer(self, peer: FakePeer, client: str, group: str = "G", tags: str = "*", **extra: Any) -> Reply:
        body = {
            "clientID": client,
            "consumerDataSet": [
                {"groupName": group, "subscriptionDataSet": [{"topic": "T", "subString": tags, "subVersion": 1}]}
            ],
            "producerDataSet": [{"groupName": "P"}],
        } | extra
        reply = self.handlers.heartbeat(request(RequestCode.HEART_BEAT, peer, json.dumps(body).encode()))
        assert isinstance(reply, Reply)
        return reply


@pytest.fixture
def room(disk: SimulatedDisk) -> Room:
    return Room(disk)


def test_the_first_heartbeat_makes_the_group_and_its_retry_topic(room: Room) -> None:
    answer = room.beat(FakePeer(), "c1")
    assert answer == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
    assert "G" in room.groups
    retry = room.topics.find("%RETRY%G")
    assert retry is not None
    assert (retry.read_queue_nums, retry.write_queue_nums, retry.perm) == (1, 1, 6)
    assert room.producers.find_client("c1") is not None


def test_members_are_told_by_a_one_way_request_40(room: Room) -> None:
    first, second = FakePeer("a:1"), FakePeer("b:1")
    room.beat(first, "c1")
    room.beat(second, "c2")
    room.beat(second, "c2")
    for peer, times in ((first, 2), (second, 1)):
        assert [(one.code, one.is_oneway, one.fields) for one in peer.sent] == [
            (40, True, {"consumerGroup": "G"})
        ] * times


def test_a_group_may_ask_not_to_be_told(room: Room) -> None:
    room.groups.put(SubscriptionGroupConfig(group_name="G", notify_consumer_ids_changed_enable=False))
    peer = FakePeer()
    room.beat(peer, "c1")
    assert peer.sent == []


def test_an_unknown_group_is_passed_over_where_groups_are_not_made(disk: SimulatedDisk) -> None:
    room = Room(disk, auto_create_subscription_group=False)
    room.beat(FakePeer(), "c1")
    assert room.consumers.find("G") is None
    assert "%RETRY%G" not in room.topics
    room.beat(FakePeer(), "c1", group="CID_RMQ_SYS_X")
    assert room.consumers.find("CID_RMQ_SYS_X") is not None


def test_the_retry_topic_of_an_orderly_group_is_ordered_too(room: Room) -> None:
    room.topics.put(TopicConfig(topic_name="T", order=True))
    room.beat(FakePeer(), "c1")
    retry = room.topics.find("%RETRY%G")
    assert retry is not None
    assert retry.order


def test_the_short_form_is_answered_with_a_wish_for_more_only_when_needed(room: Room) -> None:
    peer = FakePeer()
    short: dict[str, Any] = {"heartbeatFingerprint": 9, "withoutSub": True, "consumerDataSet": [{"groupName": "G"}]}
    assert room.beat(peer, "c1", **short)["IS_SUB_CHANGE"] == "true"
    room.beat(peer, "c1", heartbeatFingerprint=9)
    assert room.beat(peer, "c1", **short)["IS_SUB_CHANGE"] == "false"


def test_conflicting_subscriptions_may_be_refused_naming_both(disk: SimulatedDisk) -> None:
    room = Room(disk, refuse_conflicting_subscriptions=True)
    room.beat(FakePeer("a:1"), "c1", tags="tag1||tag2")
    answer = room.answer(FakePeer("b:1"), "c2", tags="tag3")
    assert answer.code == ResponseCode.SYSTEM_ERROR
    text = "group G: c2 (b:1) subscribes to T: tag3; c1 (a:1), which was there first, to T: tag1 || tag2"
    assert answer.body.refused_groups == {"G": text}
    assert answer.remark is not None
    assert answer.remark.endswith(text)
    assert room.consumers.find_client("G", "c2") is None


def test_a_refusal_concerns_one_group_of_a_client(disk: SimulatedDisk) -> None:
    room = Room(disk, refuse_conflicting_subscriptions=True)
    room.beat(FakePeer("a:1"), "c1", tags="tag1")
    wanted = [
        {"groupName": group, "subscriptionDataSet": [{"topic": "T", "subString": "tag2", "subVersion": 1}]}
        for group in ("G", "H")
    ]
    answer = room.answer(FakePeer("b:1"), "c2", consumerDataSet=wanted)
    assert list(answer.body.refused_groups) == ["G"]
    assert room.consumers.find_client("H", "c2") is not None
    assert room.producers.find_client("c2") is not None


def test_a_member_that_is_refused_later_leaves_its_queues_to_the_others(disk: SimulatedDisk) -> None:
    room = Room(disk, refuse_conflicting_subscriptions=True)
    first, second = FakePeer("a:1"), FakePeer("b:1")
    room.beat(first, "c1", tags="tag1")
    room.beat(second, "c2", tags="tag1")
    before = len(first.sent)
    assert room.answer(second, "c2", tags="tag2").code == ResponseCode.SYSTEM_ERROR
    assert room.consumers.find_client("G", "c2") is None
    assert [one.code for one in first.sent[before:]] == [RequestCode.NOTIFY_CONSUMER_IDS_CHANGED]
    # A short heartbeat does not say what it wants: it is no member by that.
    short = room.beat(second, "c2", heartbeatFingerprint=7, withoutSub=True)
    assert short["IS_SUB_CHANGE"] == "true"
    assert room.consumers.find_client("G", "c2") is None
    room.handlers.lost(second)
    second = FakePeer("b:2")  # nor by one on a new connection
    assert room.beat(second, "c2", heartbeatFingerprint=7, withoutSub=True)["IS_SUB_CHANGE"] == "true"
    assert room.consumers.find_client("G", "c2") is None
    room.beat(second, "c2", tags="tag1")
    assert room.consumers.find_client("G", "c2") is not None


def test_groups_of_tools_are_never_refused(disk: SimulatedDisk) -> None:
    room = Room(disk, refuse_conflicting_subscriptions=True)
    room.beat(FakePeer("a:1"), "c1", group="TOOLS_CONSUMER", tags="tag1")
    assert room.answer(FakePeer("b:1"), "c2", group="TOOLS_CONSUMER", tags="tag2").code == ResponseCode.SUCCESS


def test_pull_consumers_can_be_left_out(disk: SimulatedDisk) -> None:
    room = Room(disk, reject_pull_consumer_enable=True)
    room.beat(FakePeer(), "c1", consumerDataSet=[{"groupName": "G", "consumeType": "CONSUME_ACTIVELY"}])
    assert room.consumers.find("G") is None


def test_an_empty_heartbeat_is_refused(room: Room) -> None:
    with pytest.raises(Malformed, match="HeartbeatData"):
        room.handlers.heartbeat(request(RequestCode.HEART_BEAT))


def test_members_are_listed_until_they_leave(room: Room) -> None:
    peer = FakePeer()
    room.beat(peer, "c1")
    ask = request(RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="G")
    assert room.handlers.list_members(ask).body.consumer_id_list == ["c1"]
    room.handlers.unregister(
        request(RequestCode.UNREGISTER_CLIENT, peer, clientID="c1", consumerGroup="G", producerGroup="P")
    )
    with pytest.raises(RequestRefused, match="no consumer for this group, G"):
        room.handlers.list_members(ask)
    assert room.producers.all() == {}


def test_a_member_that_left_during_its_heartbeat_goes_with_the_next_one_and_the_others_know(room: Room) -> None:
    left, stays = FakePeer("a:1"), FakePeer("b:1")
    room.beat(left, "c1")
    room.beat(stays, "c2")
    room.handlers.unregister(request(RequestCode.UNREGISTER_CLIENT, left, clientID="c1", consumerGroup="G"))
    room.beat(left, "c1")  # it was under way
    stays.sent.clear()
    room.beat(left, "c1", consumerDataSet=[])  # its connection goes on serving a producer
    group = room.consumers.find("G")
    assert group is not None
    assert group.client_ids == ["c2"]
    assert [one.code for one in stays.sent] == [RequestCode.NOTIFY_CONSUMER_IDS_CHANGED]


def test_a_lost_connection_takes_the_client_away_at_once(room: Room) -> None:
    lost, stays = FakePeer("a:1"), FakePeer("b:1")
    room.beat(lost, "c1")
    room.beat(stays, "c2")
    stays.sent.clear()
    room.handlers.lost(lost)
    group = room.consumers.find("G")
    assert group is not None
    assert group.client_ids == ["c2"]
    assert [one.code for one in stays.sent] == [40]
    assert list(room.producers.members("P")) == [stays]


async def test_a_client_without_heartbeats_is_cut_off_after_two_minutes(room: Room) -> None:
    silent, lively = FakePeer("a:1"), FakePeer("b:1")
    room.beat(silent, "c1")
    for _ in range(4):
        room.beat(lively, "c2")
        await room.clock.advance(31)
        room.handlers.housekeep()
    assert silent.closed_for == "no heartbeat"
    assert lively.is_open
    group = room.consumers.find("G")
    assert group is not None
    assert group.client_ids == ["c2"]


async def test_a_queue_lock_is_given_to_one_and_after_its_death_to_another(room: Room) -> None:
    async def ask(client: str) -> list[int]:
        body = {
            "clientId": client,
            "consumerGroup": "G",
            "mqSet": [{"brokerName": "broker-a", "queueId": queue, "topic": "T"} for queue in (0, 1)],
        }
        reply = await room.handlers.lock(request(RequestCode.LOCK_BATCH_MQ, body=json.dumps(body).encode()))
        return [queue.queue_id for queue in reply.body.lock_ok_mq_set]

    room.topics.put(TopicConfig(topic_name="T"))
    room.groups.put(SubscriptionGroupConfig(group_name="G"))
    assert await ask("c1") == [0, 1]
    assert await ask("c2") == []
    await room.clock.advance(60)
    room.handlers.housekeep()
    assert await ask("c2") == [0, 1]


def test_only_tag_subscriptions_are_accepted_beforehand(room: Room) -> None:
    def ask(kind: str) -> None:
        body = {"clientId": "c", "group": "G", "subscriptionData": {"topic": "T", "expressionType": kind}}
        room.handlers.check_config(request(RequestCode.CHECK_CLIENT_CONFIG, body=json.dumps(body).encode()))

    ask("TAG")
    with pytest.raises(RequestRefused, match="does not support consumer to filter message by SQL92"):
        ask("SQL92")
