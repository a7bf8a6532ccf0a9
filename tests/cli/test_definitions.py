"""`pyromq export` and `apply`: topics and groups as a file and back, with two brokers."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from pyromq.admin import cluster, groups, topics
from pyromq.admin.calls import Calls
from pyromq.protocol.bodies.groups import (
    CustomizedRetryPolicy,
    GroupRetryPolicy,
    SimpleSubscriptionData,
    SubscriptionGroupConfig,
)
from pyromq.protocol.bodies.topics import TopicConfigAndQueueMapping
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
    orders |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": 0}
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


def _fields(kind: type[msgspec.Struct]) -> set[str]:
    return {field.name for field in msgspec.structs.fields(kind)}


def test_everything_that_brokers_keep_comes_back(two: Standing, tmp_path: Path) -> None:
    policy = GroupRetryPolicy(customized_retry_policy=CustomizedRetryPolicy(next=[1000, 3000]))
    odd = SubscriptionGroupConfig(
        attributes={"priority.factor": "7"},
        broker_id=1,
        consume_broadcast_enable=False,
        consume_enable=False,
        consume_from_min_enable=False,
        consume_message_orderly=True,
        consume_timeout_minute=20,
        group_name="odd",
        group_retry_policy=policy,
        group_sys_flag=1,
        notify_consumer_ids_changed_enable=False,
        retry_max_times=9,
        retry_queue_nums=2,
        subscription_data_set=[SimpleSubscriptionData(topic="orders", expression="*", expression_type="TAG")],
        which_broker_when_consume_slowly=2,
    )
    usual = SubscriptionGroupConfig(group_name="usual")
    assert not [name for name in _fields(SubscriptionGroupConfig) if getattr(odd, name) == getattr(usual, name)]
    multi = TopicConfigAndQueueMapping(topic_name="multi", topic_filter_type="MULTI_TAG", topic_sys_flag=2, perm=4)

    multi.write_queue_nums = multi.read_queue_nums = 3

    async def put_and_fetch(*, puts: bool) -> list[object]:
        async with two.world.client() as client:
            calls = Calls(client.session, timeout_s=20)
            first, _ = sorted(await cluster.masters(calls), key=lambda place: place.name)
            if puts:
                await groups.put(calls, first.address, odd, {"+priority.factor": "7"})
                await topics.put(calls, first.address, multi, "+message.type=DELAY")
            return [
                await groups.config(calls, first.address, "odd"),
                await topics.config(calls, first.address, "multi"),
            ]

    is_there = two.do(put_and_fetch(puts=True))
    assert is_there == [odd, msgspec.structs.replace(multi, attributes={"message.type": "DELAY"})]
    for name in ("all.toml", "all.json"):
        file = str(tmp_path / name)
        two.shown("export", file)
        two.shown("group", "delete", "odd", "--yes")
        two.shown("topic", "delete", "multi", "--yes")
        two.shown("apply", file, "--yes")
        assert two.do(put_and_fetch(puts=False)) == is_there
        assert "nothing to change" in two.shown("apply", file)
    two.shown("group", "update", "odd", "--retries", "4", "--yes")  # its attributes and policy stay
    assert two.do(put_and_fetch(puts=False))[0] == msgspec.structs.replace(odd, retry_max_times=4)
    (settings,) = two.report("group", "describe", "odd")["settings"]
    assert "1000, 3000" in settings["groupRetryPolicy"]
    two.shown("group", "delete", "odd", "--yes")


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
        ('{"groups": {"billing": {"groupRetryPolicy": {"kind": "CUSTOMIZED"}}}}', "a name in it is unknown"),
        ('{"groups": {"billing": {"groupRetryPolicy": {"type": "LINEAR"}}}}', "'LINEAR' is none of CUSTOMIZED, EXPO"),
        (
            '{"groups": {"billing": {"groupRetryPolicy": {"customizedRetryPolicy": {"next": ["soon"]}}}}}',
            "groups.billing.groupRetryPolicy: ",
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
