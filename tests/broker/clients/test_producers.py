"""Members of producer groups: found by group in turn, and by client id."""

from __future__ import annotations

from pyromq.broker.clients.producers import Producers
from tests.broker.peers import FakePeer


def test_members_come_and_go() -> None:
    producers = Producers()
    first, second = FakePeer("a:1"), FakePeer("b:1")
    assert producers.register(first, "c1", "P", 0, 1000)
    assert not producers.register(first, "c1", "P", 30, 31_000)
    assert producers.register(second, "c2", "P", 30, 31_000)
    producers.unregister(first, "P")
    producers.unregister(first, "P")
    assert list(producers.members("P")) == [second]
    producers.lose(second)
    assert producers.all() == {}


def test_those_who_are_asked_take_turns() -> None:
    producers = Producers()
    for name in ("a:1", "b:1", "c:1"):
        producers.register(FakePeer(name), name, "P", 0, 0)
    begins = [next(producers.in_turn("P")).client_id for _ in range(6)]
    assert sorted(begins[:3]) == ["a:1", "b:1", "c:1"]
    assert begins[:3] == begins[3:]
    assert len(list(producers.in_turn("P"))) == 3
    assert list(producers.in_turn("nobody")) == []


def test_a_client_is_found_by_its_id_in_whatever_group() -> None:
    producers = Producers()
    peer = FakePeer()
    producers.register(peer, "c1", "P", 0, 0)
    assert producers.find_client("c1") is peer
    assert producers.find_client("c2") is None


def test_a_client_on_two_connections_is_found_where_it_was_heard_last() -> None:
    producers = Producers()
    forgotten, used = FakePeer("a:1"), FakePeer("a:2")
    producers.register(forgotten, "c1", "G", now=0, now_ms=0)
    producers.register(used, "c1", "G", now=1, now_ms=1000)
    assert producers.find_client("c1") is used


def test_another_user_with_the_id_of_a_client_gets_none_of_its_replies() -> None:
    producers = Producers()
    own, again, spy = FakePeer("a:1"), FakePeer("a:2"), FakePeer("b:1")
    producers.register(own, "c1", "P", now=0, now_ms=0, user="shop")
    producers.register(spy, "c1", "P", now=1, now_ms=1000, user="spy")
    assert producers.find_client("c1") is own
    producers.register(again, "c1", "P", now=2, now_ms=2000, user="shop")
    assert producers.find_client("c1") is again
    producers.lose(own)
    producers.lose(again)
    assert producers.find_client("c1") is spy  # there is no other


def test_silence_is_counted_over_all_groups() -> None:
    producers = Producers()
    quiet, lively = FakePeer("a:1"), FakePeer("b:1")
    producers.register(quiet, "c1", "P", 0, 0)
    producers.register(lively, "c2", "P", 0, 0)
    producers.register(lively, "c2", "Q", 100, 0)
    assert producers.silent_since(50) == [quiet]
