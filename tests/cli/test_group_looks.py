"""`pyromq group` list, describe, lag, clients, create, update, delete: with a real member online."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import pyromq
from pyromq.client.consume.group_calls import BrokerOffsets
from pyromq.client.received import Received
from pyromq.model.group import ConsumeFromWhere
from pyromq.protocol.bodies.body import encode_body
from pyromq.protocol.bodies.heartbeat import LockBatchRequestBody
from pyromq.protocol.bodies.keyed import MessageQueue
from pyromq.protocol.requests import RequestCode
from tests.cli.standing import Standing, standing


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    with standing(tmp_path_factory.mktemp("group")) as stands:
        stands.do(stands.world.create_topic("orders", 4))
        yield stands


@contextmanager
def member(stands: Standing, group: str, topic: str, wanted: int, **settings: Any) -> Iterator[None]:
    """Online while the block runs; it has handled `wanted` messages before the block begins."""
    seen: list[bytes] = []
    ready, leave = asyncio.Event(), asyncio.Event()

    async def handle(msg: Received) -> None:
        seen.append(msg.body)
        if len(seen) == wanted:
            ready.set()
            await leave.wait()  # at work, for those who look

    async def consume() -> None:
        how: dict[str, Any] = {"begin": ConsumeFromWhere.FIRST_OFFSET}
        async with (
            stands.world.client(**settings) as client,
            client.push_consumer(topic, handle, group=group, **how),
        ):
            if not wanted:
                ready.set()
            await leave.wait()

    running = asyncio.run_coroutine_threadsafe(consume(), stands.loop)
    stands.do(ready.wait())
    try:
        yield
    finally:
        stands.loop.call_soon_threadsafe(leave.set)
        running.result(60)


def test_a_group_with_a_member(one: Standing) -> None:
    one.send("orders", *map(str, range(8)))
    with member(one, "billing", "orders", 8):
        (listed,) = [row for row in one.rows("group", "list") if row["group"] == "billing"]
        assert (listed["members"], listed["mode"]) == (1, "clustering")
        described = one.report("group", "describe", "billing")
        (client,) = described["members"]
        assert (client["language"], client["brokers"]) == ("PYTHON", ["broker-a"])
        assert {"topic": "orders", "filter": "*", "kind": "TAG"} in described["subscriptions"]
        assert [row["client"] for row in one.rows("group", "clients", "billing")] == [client["client"]]
        assert client["client"] in one.shown("group", "clients", "billing")
        (stack,) = one.rows("group", "stack", "billing")
        assert stack["client"] == client["client"]
        assert "in handle" in stack["stack"]
        assert one.shown("group", "stack", "billing", "--client", client["client"]).startswith(client["client"])
        assert "there is no member 'x'" in one.refused("group", "stack", "billing", "--client", "x")
        warning = one.run("group", "delete", "billing", "--dry-run").stderr
        assert "WARNING: 1 member of billing online: the group comes back with default settings" in warning
    told = one.shown("group", "describe", "billing")
    assert "\nsettings\n" in told
    assert {"orders"} <= {row["topic"] for row in one.report("group", "lag", "billing")["queues"]}
    assert one.report("group", "lag", "billing", "orders")["lag"] == 0
    assert "group billing has no member online" in one.refused("group", "clients", "billing")
    assert "group billing has no member online" in one.refused("group", "stack", "billing")


def test_members_that_subscribe_to_different_things_are_named(one: Standing) -> None:
    one.send("orders", "x")
    one.send("payments", "x")
    with member(one, "mixed", "orders", 0, instance="one"), member(one, "mixed", "payments", 0, instance="two"):
        (text,) = one.report("group", "describe", "mixed")["conflicts"]
        assert text.startswith("broker-a: CONFLICT: group mixed: 127.0.0.1@two (127.0.0.1:")
        assert "subscribes to orders: nothing, payments: *; 127.0.0.1@one (127.0.0.1:" in text
        for words in ("describe", "lag", "clients"):
            shown = one.shown("group", words, "mixed")
            assert text in shown
            assert "pyromq doctor --group mixed" in shown
        assert {row["group"]: row["conflicts"] for row in one.rows("group", "list")}["mixed"] == 1
        assert "must subscribe alike; not so in mixed. More: pyromq doctor --group mixed" in one.shown("group", "list")
        doctor = one.run("doctor", "--group", "mixed")
        assert doctor.exit_code != 0
        assert text.partition("CONFLICT: ")[2] in doctor.stdout
        assert "-> Give all members of mixed the same topics and filters" in doctor.stdout
    assert one.report("group", "describe", "mixed")["conflicts"] == []
    assert "CONFLICT" not in one.shown("group", "describe", "mixed")


def test_sub_is_no_member_where_it_wants_something_else(one: Standing) -> None:
    one.send("orders", "x")
    change = ("broker", "config", "set", "refuseConflictingSubscriptions")
    one.shown(*change, "true", "-b", "broker-a", "--yes")
    try:
        with member(one, "strict", "orders", 0, instance="one"):
            said = one.refused("sub", "orders", "-g", "strict", "--tag", "other", "--count", "1", code=78)
            assert "subscribes to orders: other; 127.0.0.1@one (127.0.0.1:" in said
            assert [line.startswith("pyromq: ") for line in said.splitlines()].count(
                True
            ) == 1  # the rest is the broker's
    finally:
        one.shown(*change, "false", "-b", "broker-a", "--yes")


def test_lag_says_how_many_more_consumers_would_help(one: Standing) -> None:
    one.do(one.world.create_topic("slow", 4))
    one.send("slow", *map(str, range(4)), order_key="k")
    one.shown("group", "create", "late")
    assert "it has consumed nothing yet" in one.shown("group", "lag", "late")
    one.shown("group", "reset", "late", "slow", "--time", "0", "--yes")
    found = one.report("group", "lag", "late")
    (summary,) = found["topics"]
    assert (found["lag"], summary["queues"], summary["members"], summary["moreConsumers"]) == (4, 4, 0, 1)
    assert "nobody consumes: start it; up to 4 consumers share the 4 queues" in one.shown("group", "lag", "late")
    (row,) = [row for row in one.rows("group", "list") if row["group"] == "late"]
    assert (row["lag"], row["topics"]) == (4, ["slow"])


def test_lag_of_a_group_that_pops_is_shared_by_any_number_of_consumers(one: Standing) -> None:
    one.do(one.world.create_topic("popped", 1))
    one.send("popped", "first", "second", "third")
    endpoint, says = one.world.brokers["broker-a"].address, "more consumers would help: it pops"

    async def while_one_has_a_message(group: str, names: str | None = None, **how: Any) -> str:
        async with (
            pyromq.connect(names, **how) as client,
            client.simple_consumer("popped", group=group, invisible_s=600) as consumer,
        ):
            assert len(await consumer.receive(max=1, wait=30)) == 1
            (summary,) = (await asyncio.to_thread(one.report, "group", "lag", group, "popped"))["topics"]
            return str(summary["advice"])

    assert says in one.do(while_one_has_a_message("remoting", one.names))
    assert says in one.do(while_one_has_a_message("grpc", endpoints=endpoint))
    one.shown("group", "update", "remoting", "--orderly", "--yes")
    assert says not in one.shown("group", "lag", "remoting", "popped")


def test_lag_names_the_locks_of_a_member_that_was_killed(one: Standing) -> None:
    one.do(one.world.create_topic("steps", 4))
    one.send("steps", "1", "2", order_key="k")
    one.shown("group", "create", "ordered", "--orderly")
    one.shown("group", "reset", "ordered", "steps", "--time", "0", "--yes")
    queues = [MessageQueue(broker_name="broker-a", queue_id=each, topic="steps") for each in range(4)]
    body = LockBatchRequestBody(client_id="killed@1", consumer_group="ordered", mq_set=queues)
    address = one.world.brokers["broker-a"].address
    one.do(one.world.ask(address, RequestCode.LOCK_BATCH_MQ, encode_body(body)))
    with member(one, "ordered", "steps", 0):
        (summary,) = one.report("group", "lag", "ordered", "steps")["topics"]
    assert (summary["members"], summary["moreConsumers"]) == (1, 0)
    assert "4 queues wait for the locks of killed@1, which is gone:" in summary["advice"]


def test_a_committed_offset_beyond_the_end_hides_no_lag(one: Standing) -> None:
    one.do(one.world.create_topic("far", 2))
    for number in (0, 1):
        one.send("far", "x", queue=lambda queues, at=number: next(each for each in queues if each.queue_id == at))
    one.shown("group", "create", "ahead")
    one.shown("group", "reset", "ahead", "far", "--time", "0", "--yes")
    queue = MessageQueue(broker_name="broker-a", queue_id=1, topic="far")

    async def commit() -> None:
        async with one.world.client() as client:
            await BrokerOffsets(client.session, "ahead").save({queue: 10**9})

    one.do(commit())
    found = one.report("group", "lag", "ahead")
    assert (found["lag"], [row["lag"] for row in found["queues"]]) == (1, [1, 0])
    assert found["queues"][1]["isBeyondEnd"] is True
    told = "the committed offset 1000000000 lies beyond the end, 1; messages below it are not given to ahead"
    assert told in one.shown("group", "lag", "ahead")
    assert told in one.shown("group", "describe", "ahead")
    assert [row["lag"] for row in one.rows("group", "list") if row["group"] == "ahead"] == [1]
    assert {row["group"]: row["lag"] for row in one.report("topic", "describe", "far")["groups"]} == {"ahead": 1}


def test_create_update_and_delete(one: Standing) -> None:
    assert one.rows("group", "create", "fresh", "--retries", "3", "--orderly", "--dry-run")[0]["retries"] == 3
    assert "there is no group 'fresh'" in one.refused("group", "describe", "fresh")
    (made,) = one.rows("group", "create", "fresh", "--retries", "3", "--orderly")
    assert (made["group"], made["retries"], made["orderly"]) == ("fresh", 3, True)
    assert "Change it: pyromq group update fresh" in one.refused("group", "create", "fresh")
    one.shown("group", "update", "fresh", "--no-consume", "--yes")
    (settings,) = one.report("group", "describe", "fresh")["settings"]
    assert (settings["consumes"], settings["retries"], settings["orderly"]) == (False, 3, True)
    one.shown("group", "reset", "fresh", "orders", "--time", "0", "--yes")
    assert "would delete group fresh and its offsets" in one.shown("group", "delete", "fresh", "--dry-run")
    assert "nothing was changed" in one.refused("group", "delete", "fresh", text="n\n")
    assert one.shown("group", "delete", "fresh", "--yes") == "group fresh is deleted\n"
    assert "fresh" not in {row["group"] for row in one.rows("group", "list")}


def test_one_group_goes_on_where_another_is(one: Standing) -> None:
    one.do(one.world.create_topic("cloned", 1))
    one.send("cloned", "a", "b", "c")
    for name in ("first", "second"):
        one.shown("group", "create", name)
    one.shown("group", "reset", "first", "cloned", "-b", "broker-a", "--queue", "0", "--offset", "2", "--yes")
    dry = one.shown("group", "clone", "first", "second", "cloned", "--dry-run")
    assert "would let group second go on in cloned where group first is" in dry
    (row,) = one.rows("group", "clone", "first", "second", "cloned", "--yes")
    assert (row["queue"], row["goesOnAt"]) == (0, 2)
    assert one.report("group", "lag", "second", "cloned")["lag"] == 1
    assert "Closest: 'second'" in one.refused("group", "clone", "first", "secnd", "cloned", "--yes")
    assert "the same group" in one.refused("group", "clone", "first", "first", "cloned", code=64)


def test_offsets_may_outlive_their_group(one: Standing) -> None:
    one.do(one.world.create_topic("kept", 1))
    one.send("kept", "a", "b")
    for keep, expected in ((True, 2), (False, 0)):
        one.shown("group", "create", "phoenix")
        one.shown("group", "skip", "phoenix", "kept", "--yes")
        one.rows("group", "delete", "phoenix", *(["--keep-offsets"] if keep else []), "--yes")
        one.shown("group", "create", "phoenix")
        queues = one.report("group", "lag", "phoenix")["queues"]
        assert sum(row["committed"] for row in queues) == expected
        one.shown("group", "delete", "phoenix", "--yes")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["lag", "nobody"], 1, "there is no group 'nobody'"),
        (["describe", "billin"], 1, "pyromq group list shows all"),
        (["update", "x"], 64, "say what to change"),
        (["create", "bad group"], 64, "bad group"),
        (["delete", "nobody", "--yes"], 1, "there is no group 'nobody'"),
        (["skip", "late", "nowhere", "--yes"], 1, "there is no"),
    ],
)
def test_what_cannot_be_is_refused_in_words(one: Standing, words: list[str], code: int, said: str) -> None:
    assert said in one.refused("group", *words, code=code)
