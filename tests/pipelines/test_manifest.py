"""Manifests: gaps, and up to where brokers may delete. No Spark."""

from __future__ import annotations

from typing import Any

from pyromq.pipelines.lake.manifest import Extent, gaps, kept
from pyromq.pipelines.run.brokers import ExpiringTopic, names, rows, soon


def manifest(number: int, begin: int, end: int, messages: int | None = None) -> dict[str, Any]:
    row = {"topic": "T", "brokerName": "a", "queueId": 0, "begin": begin, "end": end, "bytes": 10}
    return {"batch": number, "queues": [row | {"messages": end - begin if messages is None else messages}]}


def test_gaps_are_told_and_what_is_before_them_is_safe() -> None:
    missing, safe = gaps([manifest(0, 0, 10), manifest(1, 10, 20), manifest(2, 25, 30), manifest(3, 30, 40)])
    assert missing == [{"queue": "T/a/0", "begin": 20, "end": 25}]
    assert list(safe.values()) == [20]


def test_a_batch_alone_goes_on_from_the_extent_of_those_before() -> None:
    whole = [manifest(0, 3, 10), manifest(1, 10, 20), manifest(2, 25, 30), manifest(3, 30, 40)]
    extent = Extent()
    for each in whole:
        extent = Extent(dict(extent.ends), dict(extent.safe))
        extent.add(each["queues"])
    assert extent.safe == gaps(whole)[1]
    assert list(extent.ends.values()) == [40]


def test_a_choice_of_messages_makes_nothing_safe() -> None:
    """What a filter left out is nowhere else."""
    chosen = manifest(1, 10, 20) | {"whole": False}
    assert list(gaps([manifest(0, 0, 10), chosen, manifest(2, 20, 30)])[1].values()) == [10]
    assert [row["safeToDeleteUpTo"] for row in kept([manifest(0, 0, 10) | {"whole": False}, chosen])] == [None]


def test_holes_within_a_batch_show_in_the_table() -> None:
    [row] = kept([manifest(0, 0, 10, messages=8), manifest(1, 10, 20)])
    assert (row["messages"], row["holes"], row["safeToDeleteUpTo"]) == (18, 2, 20)


def test_a_topic_made_anew_hides_neither_holes_nor_gaps() -> None:
    """Its offsets begin again: `holes` was below 0, and what was kept of the old one was safe to delete of the new."""
    found = [manifest(0, 0, 40, messages=38), manifest(1, 0, 10, messages=9), manifest(2, 15, 20)]
    [row] = kept(found)
    assert (row["messages"], row["holes"], row["safeToDeleteUpTo"]) == (52, 2 + 1 + 5, 10)
    assert gaps(found)[0] == [{"queue": "T/a/0", "begin": 10, "end": 15}]


def test_what_expires_soon_comes_first_and_dead_letters_with_it() -> None:
    hour = 3_600_000
    found = [
        ExpiringTopic("old", "a", 1, 2 * hour),
        ExpiringTopic("young", "a", 1, 60 * hour),
        ExpiringTopic("%DLQ%g", "a", 1, 50 * hour),
        ExpiringTopic("late", "b", 1, -hour),
    ]
    assert names(soon(found, 12 * hour, dead_letters=False)) == ["late", "old"]
    assert names(soon(found, 12 * hour, dead_letters=True)) == ["late", "old", "%DLQ%g"]
    assert rows(soon(found, 0, dead_letters=False)) == [{"topic": "late", "broker": "b", "hours left": -1.0}]
