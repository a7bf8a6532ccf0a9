"""What a slave decides about its master's tables, without a master."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pyromq.broker.replication.adoption import ALL, Pages, merged, now_known, outdated
from pyromq.errors import CallFailed
from pyromq.protocol.bodies.body import DataVersion
from pyromq.protocol.bodies.own import TableVersions


def versions(life: str = "a", **changes: int) -> TableVersions:
    return TableVersions(life=life, changes=dict.fromkeys(ALL, 1) | changes, log_end=0)


def test_everything_is_fetched_of_a_master_that_is_new_or_cannot_tell() -> None:
    assert outdated(None, versions()) == {*ALL}
    assert outdated(versions("a"), versions("b")) == {*ALL}
    assert outdated(versions(), None) == {*ALL}


def test_then_what_has_changed() -> None:
    assert outdated(versions(), versions()) == set()
    assert outdated(versions(topics=3), versions(topics=4, offsets=9)) == {"topics", "offsets"}


def test_a_table_that_was_not_fetched_stays_outdated() -> None:
    told = versions(topics=2, offsets=5)
    known = now_known(versions(), told, {"topics"})
    assert outdated(known, told) == {"offsets"}
    assert outdated(now_known(known, told, {"offsets"}), told) == set()


def test_what_is_known_of_another_life_counts_no_more() -> None:
    told = versions("b")
    assert outdated(now_known(versions("a"), told, {"topics"}), told) == {*ALL} - {"topics"}
    assert now_known(versions("a"), None, {*ALL}) is None


@pytest.mark.parametrize(
    ("theirs", "own", "result", "left"),
    [
        (None, None, None, None),
        ({0: 5}, None, {0: 5}, None),
        ({0: 5}, {0: 9}, {0: 9}, {0: 9}),  # not thrown back
        ({0: 9}, {0: 5}, {0: 9}, None),  # the master went on
        ({0: 5}, {0: 5}, {0: 5}, None),
        ({0: 5, 1: 7}, {0: 9, 1: 2}, {0: 9, 1: 7}, {0: 9}),
        ({0: 5}, {1: 2}, {0: 5, 1: 2}, {1: 2}),
        (None, {1: 2}, {1: 2}, {1: 2}),
        ({}, {0: 0}, {0: 0}, {0: 0}),  # committed at the beginning, which is not nothing
    ],
)
def test_the_larger_of_the_masters_offset_and_an_own_commit_counts(
    theirs: Mapping[int, int] | None,
    own: Mapping[int, int] | None,
    result: Mapping[int, int] | None,
    left: Mapping[int, int] | None,
) -> None:
    assert merged(theirs, own) == (result, left)


V1, V2 = DataVersion(counter=1), DataVersion(counter=2)


def test_pages_are_gathered_until_the_last() -> None:
    pages: Pages[int] = Pages()
    pages.take(V1, {"a": 1, "b": 2}, 3)
    assert (pages.next, pages.is_whole) == (2, False)
    pages.take(V1, {"c": 3}, 3)
    assert (pages.entries, pages.version, pages.is_whole) == ({"a": 1, "b": 2, "c": 3}, V1, True)


def test_an_empty_table_is_whole() -> None:
    pages: Pages[int] = Pages()
    pages.take(V1, {}, 0)
    assert pages.is_whole


def test_a_master_that_knows_no_pages_gives_all_at_once() -> None:
    pages: Pages[int] = Pages()
    pages.take(V1, {"a": 1}, None)
    assert pages.is_whole


def test_a_table_that_changes_on_the_way_begins_anew() -> None:
    pages: Pages[int] = Pages()
    pages.take(V1, {"a": 1, "b": 2}, 3)
    pages.take(V2, {"a": 1, "x": 2}, 3)
    assert (pages.next, pages.is_whole) == (0, False)
    pages.take(V2, {"a": 1, "x": 2, "y": 3}, 3)
    assert pages.is_whole
    assert set(pages.entries) == {"a", "x", "y"}


def test_a_table_that_never_rests_is_no_table() -> None:
    pages: Pages[int] = Pages()
    for number in range(21):
        pages.take(DataVersion(counter=number), {"a": 1}, 5)
    with pytest.raises(CallFailed, match="faster"):
        pages.take(DataVersion(counter=21), {"a": 1}, 5)


def test_a_master_that_counts_more_than_it_gives_is_not_believed() -> None:
    pages: Pages[int] = Pages()
    pages.take(V1, {"a": 1}, 3)
    with pytest.raises(CallFailed, match="1 entries of a table of 3"):
        pages.take(V1, {}, 3)
