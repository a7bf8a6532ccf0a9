"""`pyromq quota` as users type it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.standing import Standing, standing


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    with standing(tmp_path_factory.mktemp("quota"), "broker-a", "broker-b") as stands:
        yield stands


def test_a_quota_is_set_on_all_masters_listed_and_deleted(two: Standing) -> None:
    shown = two.shown("quota", "set", "topic:orders", "sendMessages=1", "queues=16", "--yes")
    assert "broker-a" in shown
    assert "broker-b" in shown
    rows = two.rows("quota", "list")
    assert [(row["broker"], row["of"], row["limits"]) for row in rows] == [
        (name, "topic:orders", {"sendMessages": 1, "queues": 16}) for name in ("broker-a", "broker-b")
    ]
    assert "sendMessages=1 queues=16" in two.shown("quota", "list")
    two.shown("quota", "set", "user:*", "connections=3", "-b", "broker-a", "--yes")
    assert [row["of"] for row in two.rows("quota", "list", "-b", "broker-a")] == ["topic:orders", "user:*"]
    two.shown("quota", "delete", "topic:orders", "--yes")
    two.shown("quota", "delete", "user:*", "--yes")
    assert two.rows("quota", "list") == []
    assert "no quota of topic:orders" in two.refused("quota", "delete", "topic:orders", "--yes")


def test_what_is_wrong_is_said(two: Standing) -> None:
    assert "KIND:NAME" in two.refused("quota", "set", "orders", "sendBytes=1", code=64)
    assert "LIMIT=NUMBER" in two.refused("quota", "set", "topic:orders", "sendBytes", code=64)
    refused = two.refused("quota", "set", "topic:orders", "connections=1", "--yes", code=78)
    assert "these are: halfMessages, queues" in refused
    assert "one of user, group" in two.refused("quota", "set", "tenant:orders", "connections=1", "--yes", code=78)


def test_a_dry_run_changes_nothing(two: Standing) -> None:
    assert "sendBytes=1" in two.shown("quota", "set", "topic:orders", "sendBytes=1", "--dry-run")
    assert two.rows("quota", "list") == []
