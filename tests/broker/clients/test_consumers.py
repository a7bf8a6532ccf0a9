"""Members of consumer groups: who is told of a change, whose subscription counts, and who contradicts whom."""

from __future__ import annotations

import logging

import pytest

from pyromq.broker.clients.consumers import Consumers, Notice
from pyromq.broker.clients.subscriptions import Conflict
from pyromq.model.filters.canonical import canonical
from pyromq.model.group import MessageModel
from pyromq.protocol.bodies.heartbeat import ConsumerData, SubscriptionData
from tests.broker.peers import FakePeer


def data(
    group: str = "G", version: int = 1, model: MessageModel = MessageModel.CLUSTERING, **topics: str
) -> ConsumerData:
    wanted = [SubscriptionData(topic=topic, sub_string=tags, sub_version=version) for topic, tags in topics.items()]
    return ConsumerData(group_name=group, message_model=model, subscription_data_set=wanted)


def test_a_new_member_is_told_to_all_and_a_further_heartbeat_to_nobody() -> None:
    consumers = Consumers()
    first, second = FakePeer("a:1"), FakePeer("b:1")
    joined = consumers.register(first, "c1", data(T="*"), now=0)
    assert joined.notice is not None
    assert joined.notice.peers == (first,)
    joined = consumers.register(second, "c2", data(T="*"), now=0)
    assert joined.notice is not None
    assert joined.notice.peers == (first, second)
    again = consumers.register(first, "c1", data(T="*"), now=30)
    assert (again.changed, again.notice) == (False, None)
    group = consumers.find("G")
    assert group is not None
    assert group.client_ids == ["c1", "c2"]


def test_a_client_on_two_connections_is_one_member() -> None:
    """A Java client may forget a connection and open another; told of itself twice, it takes half of the queues."""
    consumers = Consumers()
    forgotten, used, other = FakePeer("a:1"), FakePeer("a:2"), FakePeer("b:1")
    consumers.register(forgotten, "c1", data(T="*"), now=0)
    consumers.register(used, "c1", data(T="*"), now=1)
    consumers.register(other, "c2", data(T="*"), now=1)
    group = consumers.find("G")
    assert group is not None
    assert group.client_ids == ["c1", "c2"]
    found = consumers.find_client("G", "c1")
    assert found is not None
    assert found.peer is used
    notice = consumers.unregister(used, "G")
    assert notice is not None
    assert notice.peers == (other,)
    assert group.client_ids == ["c2"]
    assert consumers.lose(forgotten) == []


def test_a_connection_that_is_lost_leaves_the_client_its_other_one() -> None:
    consumers = Consumers()
    forgotten, used = FakePeer("a:1"), FakePeer("a:2")
    consumers.register(forgotten, "c1", data(T="*"), now=0)
    consumers.register(used, "c1", data(T="*"), now=1)
    consumers.lose(forgotten)
    group = consumers.find("G")
    assert group is not None
    assert group.client_ids == ["c1"]


def test_broadcasting_members_are_not_told() -> None:
    consumers = Consumers()
    registered = consumers.register(FakePeer(), "c1", data(model=MessageModel.BROADCASTING, T="*"), now=0)
    assert registered.changed
    assert registered.notice is None


def test_the_newest_subscription_counts_and_topics_nobody_names_go() -> None:
    consumers = Consumers()
    peer = FakePeer()
    consumers.register(peer, "c1", data(version=1, T="TagA", U="*"), now=0)
    changed = consumers.register(peer, "c1", data(version=2, T="TagB"), now=1)
    assert changed.changed
    group = consumers.find("G")
    assert group is not None
    assert {topic: one.sub_string for topic, one in group.subscriptions.items()} == {"T": "TagB"}
    older = consumers.register(peer, "c1", data(version=1, T="TagA"), now=2)
    assert not older.changed
    assert group.subscriptions["T"].sub_string == "TagB"


def test_a_member_that_leaves_is_told_to_those_that_stay() -> None:
    consumers = Consumers()
    first, second = FakePeer("a:1"), FakePeer("b:1")
    consumers.register(first, "c1", data(T="*"), now=0)
    consumers.register(second, "c2", data(T="*"), now=0)
    notice = consumers.unregister(first, "G")
    assert notice is not None
    assert (notice.group, notice.peers) == ("G", (second,))
    assert consumers.unregister(first, "G") is None
    assert consumers.unregister(second, "G") is None
    assert consumers.find("G") is None


def test_a_heartbeat_that_overlaps_with_a_farewell_makes_nobody_a_member_for_long() -> None:
    """Java's clients make up a heartbeat in one thread while another one says that a consumer leaves."""
    consumers = Consumers()
    left, stays = FakePeer("a:1"), FakePeer("b:1")
    consumers.register(left, "c1", data(T="*"), now=0)
    consumers.register(stays, "c2", data(T="*"), now=0)
    consumers.unregister(left, "G")
    consumers.register(left, "c1", data(T="*"), now=1)
    assert consumers.leave_unnamed(left, "c1", {"G"}, silent=-119) == {}
    assert consumers.leave_unnamed(left, "another client of this connection", set(), silent=-119) == {}
    assert consumers.leave_unnamed(left, "c1", set(), silent=-118) == {"G": Notice("G", (stays,))}
    assert consumers.leave_unnamed(left, "c1", set(), silent=-117) == {}


def test_a_client_that_comes_back_to_its_group_is_a_member_by_its_second_heartbeat() -> None:
    consumers = Consumers()
    peer = FakePeer()
    consumers.register(peer, "c1", data(T="*"), now=0)
    consumers.unregister(peer, "G")
    for now in (1, 2):
        consumers.register(peer, "c1", data(T="*"), now=now)
    assert consumers.leave_unnamed(peer, "c1", set(), silent=1) == {}
    assert consumers.leave_unnamed(peer, "c1", set(), silent=3) == {"G": None}  # as of one that never says farewell


def test_groups_that_were_left_are_remembered_within_a_limit() -> None:
    consumers = Consumers()
    peer = FakePeer()
    for number in range(1000):
        consumers.register(peer, "c1", data(f"G{number}", T="*"), now=0)
        consumers.unregister(peer, f"G{number}")
    assert len(consumers._left[peer]) == 64
    for now in (1, 2):  # back in the last one: nothing more to remember of it
        consumers.register(peer, "c1", data("G999", T="*"), now=now)
    assert len(consumers._left[peer]) == 63
    consumers.lose(peer)
    assert not consumers._left


def test_a_client_may_name_its_groups_in_heartbeats_of_their_own() -> None:
    consumers = Consumers()
    peer = FakePeer()
    for now in range(0, 120, 30):
        for group in ("G", "H"):
            consumers.register(peer, "c1", data(group, T="*"), now=now)
            assert consumers.leave_unnamed(peer, "c1", {group}, silent=now - 120) == {}


def test_a_lost_connection_leaves_every_group_that_it_was_in() -> None:
    consumers = Consumers()
    lost, stays = FakePeer("a:1"), FakePeer("b:1")
    for group in ("G", "H", "alone"):
        consumers.register(lost, "c1", data(group, T="*"), now=0)
    for group in ("G", "H"):
        consumers.register(stays, "c2", data(group, T="*"), now=0)
    assert [(notice.group, notice.peers) for notice in consumers.lose(lost)] == [("G", (stays,)), ("H", (stays,))]
    assert consumers.lose(lost) == []
    assert consumers.find("alone") is None
    assert consumers.groups_on("T") == ["G", "H"]
    consumers.lose(stays)
    assert consumers.groups_on("T") == []


def test_a_topic_has_each_group_of_which_a_member_subscribes_to_it() -> None:
    consumers = Consumers()
    first, second = FakePeer("a:1"), FakePeer("b:1")
    consumers.register(first, "c1", data(T="*"), now=0)
    consumers.register(second, "c2", data(T="*", U="*"), now=0)
    consumers.register(second, "c2", data(version=2, U="*"), now=1)
    assert (consumers.groups_on("T"), consumers.groups_on("U")) == (["G"], ["G"])  # though what counts is the newest
    consumers.register(second, "c3", data(version=3, V="*"), now=2)  # another client, on the same connection
    assert (consumers.groups_on("U"), consumers.groups_on("V")) == ([], ["G"])
    consumers.lose(first)
    assert consumers.groups_on("T") == []
    consumers.unregister(second, "G")
    assert consumers.groups_on("V") == []


def test_silence_is_counted_from_the_last_heartbeat_of_any_group() -> None:
    consumers = Consumers()
    quiet, lively = FakePeer("a:1"), FakePeer("b:1")
    consumers.register(quiet, "c1", data("G", T="*"), now=0)
    consumers.register(lively, "c2", data("G", T="*"), now=0)
    consumers.register(lively, "c2", data("H", T="*"), now=100)
    assert consumers.silent_since(50) == [quiet]
    assert consumers.silent_since(101) == [quiet, lively]


def test_the_short_heartbeat_keeps_a_member_and_asks_for_more_when_something_is_missing() -> None:
    consumers = Consumers()
    peer = FakePeer()
    unknown = consumers.register(peer, "c1", data(), now=0, fingerprint=7, short=True)
    assert unknown.wants_subscriptions  # a broker that was restarted knows nothing
    consumers.register(peer, "c1", data(T="*"), now=1, fingerprint=7)
    known = consumers.register(peer, "c1", data(), now=2, fingerprint=7, short=True)
    assert not known.wants_subscriptions
    assert not known.changed
    other = consumers.register(peer, "c1", data(), now=3, fingerprint=8, short=True)
    assert other.wants_subscriptions
    group = consumers.find("G")
    assert group is not None
    assert list(group.subscriptions) == ["T"]


def conflicts(consumers: Consumers) -> list[Conflict]:
    return list(consumers.conflicts.open.values())


def test_members_that_want_different_tags_are_named_both() -> None:
    consumers = Consumers()
    consumers.register(FakePeer("a:1"), "c1", data(T="tag1||tag2"), now=0)
    consumers.register(FakePeer("b:1"), "c2", data(T="tag3"), now=0)
    (conflict,) = conflicts(consumers)
    assert conflict == Conflict("G", "c2", "b:1", "T: tag3", "c1", "a:1", "T: tag1 || tag2")
    assert "c2 (b:1) subscribes to T: tag3; c1 (a:1), which was there first, to T: tag1 || tag2" in str(conflict)


def test_members_that_want_different_topics_contradict_each_other_too() -> None:
    consumers = Consumers()
    consumers.register(FakePeer("a:1"), "c1", data(T="*"), now=0)
    consumers.register(FakePeer("b:1"), "c2", data(U="*"), now=0)
    (conflict,) = conflicts(consumers)
    assert (conflict.wants, conflict.other_wants) == ("T: nothing, U: *", "T: *, U: nothing")


def test_a_broadcasting_member_contradicts_one_that_shares_the_queues() -> None:
    consumers, second = Consumers(), FakePeer("b:1")
    consumers.register(FakePeer("a:1"), "c1", data(T="*"), now=0)
    broadcasting = data(model=MessageModel.BROADCASTING, T="*")
    assert consumers.conflict_with_others(second, "c2", broadcasting) is not None
    consumers.register(second, "c2", data(T="*"), now=0)
    assert conflicts(consumers) == []
    assert consumers.conflict_with_others(second, "c2", broadcasting) is not None, "it says something new"
    consumers.register(second, "c2", broadcasting, now=1)
    (conflict,) = conflicts(consumers)
    assert (conflict.client, conflict.wants, conflict.other_wants) == ("c2", "T: (broadcast) *", "T: *")
    consumers.register(second, "c2", data(T="*"), now=2)
    assert conflicts(consumers) == []


def test_a_conflict_names_some_topics_and_counts_the_rest() -> None:
    consumers = Consumers()
    consumers.register(FakePeer("a:1"), "c1", data(A="x" * 999, B="x", C="x", D="x", E="x"), now=0)
    consumers.register(FakePeer("b:1"), "c2", data(U="*"), now=0)
    (conflict,) = conflicts(consumers)
    assert conflict.other_wants.endswith(" and 3 topics more")
    assert len(str(conflict)) < 1_000


def test_a_conflict_is_logged_once_and_ends_with_its_cause(caplog: pytest.LogCaptureFixture) -> None:
    consumers = Consumers()
    first, second, third = FakePeer("a:1"), FakePeer("b:1"), FakePeer("c:1")
    with caplog.at_level(logging.WARNING, "pyromq.broker"):
        consumers.register(first, "c1", data(T="tag1"), now=0)
        consumers.register(second, "c2", data(T="tag2"), now=0)
        consumers.register(second, "c2", data(T="tag2"), now=30)
        consumers.register(third, "c3", data(T="tag1"), now=30)
        consumers.register(FakePeer("d:1"), "c4", data(), now=30)  # it says nothing, and differs from nobody
        assert [text.count("differ") for text in caplog.messages] == [1]
        assert len(conflicts(consumers)) == consumers.conflicts.begun == 1
        caplog.clear()
        consumers.register(second, "c2", data(version=2, T="tag1"), now=60)
        assert conflicts(consumers) == []
        assert ["agree again" in text for text in caplog.messages] == [True]
    consumers.register(second, "c2", data(version=3, T="tag2"), now=60)
    consumers.lose(second)
    assert conflicts(consumers) == []
    assert consumers.conflicts.begun == 2


def test_what_the_group_subscribes_to_is_what_those_say_who_stay() -> None:
    """A member of Java's pulls by what the group subscribes to: one that has left must not decide about it."""
    consumers = Consumers()
    first, second = FakePeer("a:1"), FakePeer("b:1")
    consumers.register(first, "c1", data(T="tag1"), now=0)
    consumers.register(second, "c2", data(version=2, T="tag2"), now=0)
    group = consumers.find("G")
    assert group is not None
    assert group.subscriptions["T"].sub_string == "tag2"
    consumers.lose(second)
    assert group.subscriptions["T"].sub_string == "tag1"


def test_the_same_wish_in_another_spelling_is_no_conflict() -> None:
    consumers = Consumers()
    retry = SubscriptionData(topic="%RETRY%G", sub_string="*")
    consumers.register(FakePeer("a:1"), "c1", data(T="tag1 || tag2"), now=0)
    again = data(version=7, T="tag2||tag1||")
    again.subscription_data_set.append(retry)  # of those who push, and not of those who pull
    consumers.register(FakePeer("b:1"), "c2", again, now=0)
    assert conflicts(consumers) == []


def test_members_of_which_some_pull_already_what_others_pop_do_not_differ() -> None:
    consumers = Consumers()
    pulls = data(T="tag1")
    pulls.subscription_data_set.append(SubscriptionData(topic="%RETRY%G_T", sub_string="*"))
    consumers.register(FakePeer("a:1"), "c1", data(T="tag1"), now=0)
    assert consumers.conflict_with_others(FakePeer("b:1"), "c2", pulls) is None
    consumers.register(FakePeer("b:1"), "c2", pulls, now=0)
    assert conflicts(consumers) == []


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("TAG", "", "*"),
        (None, "a||b", " b || a || a"),
        ("TAG", "a || *", "*"),
        ("SQL92", "a > 1 AND b = 'x  y'", " a>1  AND\nb='x  y'"),
        ("SQL92", "a IN ('x', 'it''s')", "a IN('x','it''s')"),
    ],
)
def test_spellings_of_one_filter(kind: str | None, one: str, other: str) -> None:
    assert canonical(kind, one) == canonical(kind, other)


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [("TAG", "a", "b"), ("TAG", "a", "A"), ("SQL92", "a = 'x y'", "a = 'x  y'"), ("SQL92", "NOT a", "NOTa")],
)
def test_filters_that_differ(kind: str, one: str, other: str) -> None:
    assert canonical(kind, one) != canonical(kind, other)


def test_a_conflict_is_foreseen_without_registering() -> None:
    consumers = Consumers()
    consumers.register(FakePeer("a:1"), "c1", data(T="tag1"), now=0)
    newcomer = FakePeer("b:1")
    assert consumers.conflict_with_others(newcomer, "c2", data(T="tag2")) is not None
    assert consumers.conflict_with_others(newcomer, "c2", data(T="tag1")) is None
    assert consumers.conflict_with_others(newcomer, "c2", data("H", T="tag2")) is None
    assert consumers.find_client("G", "c2") is None


def test_of_members_that_differ_already_the_later_one_is_refused_and_loses_its_place() -> None:
    consumers = Consumers()
    first, second = FakePeer("a:1"), FakePeer("b:1")
    consumers.register(first, "c1", data(T="tag1"), now=0)
    consumers.register(second, "c2", data(T="tag2"), now=0)
    assert consumers.conflict_with_others(first, "c1", data(T="tag1")) is None
    conflict = consumers.conflict_with_others(second, "c2", data(T="tag2"))
    assert conflict is not None
    notice = consumers.refuse(second, conflict)
    assert notice is not None
    assert notice.peers == (first,)
    assert conflicts(consumers) == []
    assert consumers.conflicts.of_group("G") == [f"REFUSED: {conflict}"]
    assert consumers.conflicts.refusals == 1


def test_who_says_something_new_is_refused_though_it_was_there_first() -> None:
    consumers = Consumers()
    first, second = FakePeer("a:1"), FakePeer("b:1")
    consumers.register(first, "c1", data(T="tag1"), now=0)
    consumers.register(second, "c2", data(T="tag1"), now=0)
    conflict = consumers.conflict_with_others(first, "c1", data(version=2, T="tag2"))
    assert conflict is not None
    assert (conflict.client, conflict.other_client) == ("c1", "c2")


@pytest.mark.parametrize("how", ["agrees", "leaves", "is lost"])
def test_a_refusal_is_over_when_the_client(how: str) -> None:
    consumers = Consumers()
    consumers.register(FakePeer("a:1"), "c1", data(T="tag1"), now=0)
    second = FakePeer("b:1")
    conflict = consumers.conflict_with_others(second, "c2", data(T="tag2"))
    assert conflict is not None
    consumers.refuse(second, conflict)
    assert list(consumers.conflicts.refused.values()) == [conflict]
    if how == "agrees":
        consumers.register(second, "c2", data(T="tag1"), now=1)
    elif how == "leaves":
        consumers.unregister(second, "G")
    else:
        consumers.lose(second)
    assert consumers.conflicts.refused == {}


def test_watchers_see_what_a_pull_s_subscription_may_depend_on() -> None:
    consumers = Consumers()
    first, second = FakePeer("a:1"), FakePeer("b:1")
    seen: list[str] = []
    consumers.watch(seen.append)

    def changes() -> int:
        count = len(seen)
        seen.clear()
        return count

    consumers.register(first, "c1", data(T="*"), now=0)
    assert changes()
    consumers.register(first, "c1", data(T="*"), now=30)
    assert not changes()
    consumers.register(first, "c1", data(version=2, T="TagA"), now=30)
    assert changes()
    consumers.register(first, "c1", data(version=2, model=MessageModel.BROADCASTING, T="TagA"), now=30)
    assert changes()
    consumers.register(second, "c2", data(version=2, model=MessageModel.BROADCASTING, T="TagA"), now=30)
    assert changes()
    consumers.lose(first)
    assert not changes()
    consumers.unregister(second, "G")
    assert changes() == 1
