"""`pyromq export` and `apply`: topics and groups as a file and back, with two brokers."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.standing import Standing, standing


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    with standing(tmp_path_factory.mktemp("definitions"), "broker-a", "broker-b") as stands:
        stands.shown("topic", "create", "orders", "--queues", "2", "--type", "fifo")
        stands.shown("topic", "update", "orders", "--queues", "3", "-b", "broker-b", "--yes")
        stands.shown("topic", "create", "alone", "--queues", "1", "-b", "broker-a")
        stands.shown("group", "create", "billing", "--retries", "3")
        yield stands


def test_what_is_exported_is_what_is_there(two: Standing, tmp_path: Path) -> None:
    found = tomllib.loads(two.shown("export"))
    orders = {"writeQueues": 2, "readQueues": 2, "permission": "rw", "order": False}
    assert found["topics"]["orders"] == orders | {
        "attributes": {"message.type": "FIFO"},
        "on": {"broker-b": {"writeQueues": 3, "readQueues": 3}},
    }
    assert found["topics"]["alone"]["brokers"] == ["broker-a"]
    assert found["groups"]["billing"]["retries"] == 3
    assert not any(name.startswith(("%", "broker-", "Default", "SELF")) for name in found["topics"])
    assert two.report("export") == found
    for name in ("all.toml", "all.json"):
        (row,) = two.rows("export", str(tmp_path / name))
        assert (row["topics"], row["groups"]) == (len(found["topics"]), len(found["groups"]))
        assert two.shown("apply", str(tmp_path / name)) == f"nothing to change: all is as {tmp_path / name} says\n"
    assert json.loads((tmp_path / "all.json").read_text()) == found
    assert "ends in .toml or .json" in two.refused("export", "all.yaml", code=64)


def test_a_file_makes_and_changes(two: Standing, tmp_path: Path) -> None:
    file = tmp_path / "wanted.toml"
    file.write_text(
        """
        [topics.fresh]
        writeQueues = 4
        readQueues = 4
        attributes = {"message.type" = "DELAY"}
        [topics.orders]
        permission = "r"
        [topics.orders.on.broker-b]
        order = true
        [groups.billing]
        retries = 5
        """
    )
    dry = two.shown("apply", str(file), "--dry-run")
    assert "would make 7 changes" in dry
    assert [line.split() for line in dry.splitlines() if "retries" in line] == [
        ["group", "billing", broker, "retries", "3", "5"] for broker in ("broker-a", "broker-b")
    ]
    assert two.rows("topic", "list", "fresh") == []
    assert "nothing was changed" in two.refused("apply", str(file), text="n\n")
    assert "give --yes" in two.refused("apply", str(file), "--json", code=64)
    rows = two.rows("apply", str(file), "--yes")
    assert {(row["name"], row["setting"]) for row in rows} == {
        ("fresh", "(is made)"),
        ("orders", "permission"),
        ("orders", "order"),
        ("billing", "retries"),
    }
    (fresh,) = two.rows("topic", "list", "fresh")
    assert (fresh["type"], fresh["writeQueues"], fresh["brokers"]) == ("DELAY", 8, ["broker-a", "broker-b"])
    described = {one["broker"]: one for one in two.report("topic", "describe", "orders")["brokers"]}
    assert [(one["permission"], one["order"], one["type"]) for one in described.values()] == [
        ("r", False, "FIFO"),
        ("r", True, "FIFO"),
    ]
    assert two.rows("apply", str(file), "--yes") == []
    file.write_text('[topics.fresh]\nattributes = {}\npermission = "rw"')
    two.shown("apply", str(file), "--yes")
    assert two.rows("topic", "list", "fresh")[0]["type"] == "UNSPECIFIED"


def test_what_would_be_hidden_is_said(two: Standing, tmp_path: Path) -> None:
    two.shown("topic", "create", "shrinks", "--queues", "2", "-b", "broker-a")
    two.send("shrinks", "a", "b", queue=lambda queues: queues[1])
    file = tmp_path / "fewer.json"
    file.write_text('{"topics": {"shrinks": {"writeQueues": 1, "readQueues": 1, "brokers": ["broker-a"]}}}')
    said = two.run("apply", str(file), "--dry-run").stderr
    assert "WARNING: 2 messages of shrinks not consumed yet would be in queues that nobody reads (broker-a: " in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "wanted.json: "),
        ("[]", "the document: a table is needed"),
        ('{"topic": {}}', "the document: 'topic' is unknown; closest: 'topics'"),
        ('{"topics": {"orders": 7}}', "topics.orders: a table is needed, not 7"),
        ('{"topics": {"bad name": {}}}', "topics.bad name: "),
        ('{"topics": {"orders": {"readQueue": 4}}}', "closest: 'readQueues'"),
        ('{"topics": {"orders": {"readQueues": "4"}}}', "topics.orders.readQueues: '4' is not of the kind of 16"),
        ('{"topics": {"orders": {"readQueues": 0}}}', "at least one queue is needed"),
        ('{"topics": {"orders": {"permission": "x"}}}', "'x' is none of none, w, r, rw"),
        ('{"topics": {"orders": {"attributes": {"a": 1}}}}', "the values of attributes are texts"),
        ('{"topics": {"orders": {"brokers": "broker-a"}}}', "a list of names is needed"),
        ('{"topics": {"orders": {"brokers": ["broker-z"]}}}', "broker: 'broker-z' is unknown; closest: 'broker-"),
        (
            '{"groups": {"billing": {"on": {"broker-a": {"retry": 1}}}}}',
            "groups.billing.on.broker-a: 'retry' is unknown",
        ),
    ],
)
def test_a_file_that_cannot_be_is_refused(two: Standing, tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "wanted.json"
    file.write_text(text)
    assert said in two.refused("apply", str(file), "--yes", code=78)


def test_quiet_prints_no_results(two: Standing) -> None:
    for words in (["--quiet", "topic", "list"], ["topic", "describe", "orders", "--quiet"]):
        done = two.run(*words)
        assert (done.exit_code, done.output) == (0, "")
    assert "there is no topic" in two.refused("topic", "describe", "ordres", "--quiet")
