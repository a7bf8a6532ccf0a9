"""Which groups a connection is in."""

from __future__ import annotations

from typing import cast

from pyromq.broker.clients.memberships import Memberships
from pyromq.transport.peer import Peer


def peers(count: int) -> list[Peer]:
    return [cast(Peer, object()) for _ in range(count)]


def test_connections_of_one_group_share_its_set() -> None:
    table, (first, second) = Memberships(), peers(2)
    table.add(first, "a")
    table.add(second, "a")
    table.add(second, "a")
    assert table.of(first) == {"a"}
    assert table.of(second) is table.of(first)


def test_who_is_in_several_groups_leaves_them_one_by_one_and_changes_nobody_else() -> None:
    table, (first, second) = Memberships(), peers(2)
    for peer in (first, second):
        table.add(peer, "a")
    table.add(first, "b")
    table.add(first, "c")
    assert table.of(first) == {"a", "b", "c"}
    assert table.of(second) == {"a"}
    assert [table.remove(first, name) for name in ("a", "c", "b")] == [False, False, True]
    assert table.of(first) == set()
    assert table.of(second) == {"a"}


def test_a_group_that_all_have_left_is_there_again_for_who_comes() -> None:
    table, (first, second) = Memberships(), peers(2)
    table.add(first, "a")
    assert table.remove(first, "a")
    table.add(second, "a")
    table.add(first, "a")
    assert table.of(first) is table.of(second)
    assert table.remove(second, "a")
    assert table.of(first) == {"a"}
    assert table.of(second) == set()
