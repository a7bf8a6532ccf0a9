"""Connections from one task to the next: used again while they are in order, closed otherwise."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from pyromq.spark.connect.connection import POOL, BlockingConnection, ConnectionPool
from pyromq.spark.options import NetOptions
from tests.spark.reading import rows
from tests.spark.servers import Servers


class Line(BlockingConnection):
    """Without a socket."""

    def __init__(self, address: str, *, fresh: bool = True) -> None:
        self.address = address
        self.outstanding = 0
        self.is_open = True
        self._fresh = fresh

    def is_fresh(self) -> bool:
        return self._fresh

    def close(self) -> None:
        self.is_open = False


PLAIN = NetOptions(name_server=("127.0.0.1:1",))


def test_one_is_kept_for_each_broker_and_way_to_reach_it() -> None:
    pool, first, second = ConnectionPool(), Line("a:1"), Line("a:1")
    pool.keep(first, PLAIN)
    pool.keep(second, PLAIN)
    assert not second.is_open
    assert pool.take("b:1", PLAIN) is None
    assert pool.take("a:1", NetOptions(name_server=("127.0.0.1:1",), tls=True)) is None
    assert pool.take("a:1", PLAIN) is first
    assert pool.take("a:1", PLAIN) is None


def test_one_that_ended_or_owes_an_answer_is_closed() -> None:
    ended, owing = Line("a:1", fresh=False), Line("b:1")
    owing.outstanding = 1
    pool = ConnectionPool()
    for each in (ended, owing):
        pool.keep(each, PLAIN)
        assert pool.take(each.address, PLAIN) is None
        assert not each.is_open


def test_there_are_few_and_all_are_closed_in_the_end() -> None:
    pool, made = ConnectionPool(), [Line(f"a:{number}") for number in range(20)]
    for each in made:
        pool.keep(each, PLAIN)
    assert [each.is_open for each in made] == [False] * 4 + [True] * 16
    pool.close()
    assert not any(each.is_open for each in made)


def test_a_second_read_needs_no_new_connection(servers: Servers, topic: str) -> None:
    servers.send(topic, 40)
    assert len(rows(servers, topic, ["body"])) == 40
    refused = patch(
        "pyromq.spark.read.pulling.BlockingConnection.__init__", side_effect=AssertionError("a new connection")
    )
    with refused:
        assert len(rows(servers, topic, ["body"])) == 40
    POOL.close()
    with refused, pytest.raises(AssertionError, match="a new connection"):
        rows(servers, topic, ["body"])
