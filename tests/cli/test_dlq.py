"""`pyromq dlq`: dead letters of a real consumer, sent again and thrown away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

import pyromq
from pyromq.admin import copies, messages
from pyromq.client.core.retry import Reject
from pyromq.client.errors import refused
from pyromq.client.received import Received
from pyromq.model.codes import ResponseCode
from pyromq.model.group import ConsumeFromWhere
from pyromq.model.names import dlq_topic, retry_topic
from tests.cli.standing import Standing, standing


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    with standing(tmp_path_factory.mktemp("dlq")) as stands:
        stands.do(stands.world.create_topic("orders", 1))
        yield stands


async def consume(stands: Standing, group: str, wanted: int, *, rejects: bool, topic: str = "orders") -> list[Received]:
    """The group's next messages."""
    got: list[Received] = []
    enough = asyncio.Event()

    async def handle(msg: Received) -> None:
        got.append(msg)
        if len(got) == wanted:
            enough.set()
        if rejects:
            raise Reject("no good")

    begin = ConsumeFromWhere.FIRST_OFFSET
    async with stands.world.client() as client, client.push_consumer(topic, handle, group=group, begin=begin):
        await enough.wait()
    return got


def test_dead_letters_are_listed_sent_again_once_and_purged(one: Standing) -> None:
    assert one.shown("dlq", "list") == "no dead letters\n"
    ids = one.send("orders", "first", "second", tag="t", keys=["k"])
    one.do(consume(one, "billing", 2, rejects=True))

    (group,) = one.rows("dlq", "list")
    assert (group["group"], group["broker"], group["messages"]) == ("billing", "broker-a", 2)
    assert 71 * 3600 < group["leftSeconds"] <= 72 * 3600
    letters = one.rows("dlq", "list", "billing")
    assert sorted(each["messageId"] for each in letters) == sorted(ids)
    assert {each["reason"] for each in letters} == {"no good"}
    table = one.shown("dlq", "list", "billing").splitlines()
    heading = "message id topic broker offset keys attempts died left leaves reason"
    assert " ".join(table[0].split()) == heading
    assert "71 h 59 min" in table[1] or "72 h 0 min" in table[1]

    dry = one.shown("dlq", "resend", "billing", "--dry-run")
    assert "would send 2 dead letters of billing again, to group billing alone" in dry
    assert "nothing was changed" in one.refused("dlq", "resend", "billing", text="n\n")
    assert one.rows("dlq", "resend", "billing", "--yes")[0]["sent"] == 2
    again = one.do(consume(one, "billing", 2, rejects=False))
    assert sorted(msg.id for msg in again) == sorted(ids)
    assert {(msg.topic, msg.tag, msg.properties["REDRIVE_GROUP"]) for msg in again} == {("orders", "t", "billing")}
    assert "all dead letters of billing were sent again before" in one.shown("dlq", "resend", "billing", "--yes")

    assert one.rows("dlq", "resend", "billing", ids[0], "--to", "elsewhere", "--yes")[0]["to"] == "topic elsewhere"
    assert [row["body"] for row in one.rows("msg", "query", "elsewhere")] == ["first"]
    assert one.rows("dlq", "resend", "billing", "--again", "--to-topic", "--yes")[0]["sent"] == 2
    assert len(one.rows("msg", "query", "orders")) == 4

    assert "would throw away the 2 dead letters of billing\n" in one.shown("dlq", "purge", "billing", "--dry-run")
    assert one.rows("dlq", "purge", "billing", "--yes") == [
        {"group": "billing", "broker": "broker-a", "messages": 2, "notSentAgain": 0, "purged": True}
    ]
    assert one.shown("dlq", "list") == "no dead letters\n"


def test_a_popped_letter_has_the_topic_that_it_was_sent_to(one: Standing) -> None:
    """It dies in the group's own retry topic of popped messages, and is told and sent again by its first topic."""
    one.do(one.world.create_topic("taken", 1))
    (sent,) = one.send("taken", "first")

    async def fail_twice() -> None:
        first = ConsumeFromWhere.FIRST_OFFSET
        async with (
            one.world.client() as client,
            client.simple_consumer("taken", group="poppers", begin=first, invisible_s=600) as consumer,
        ):
            (msg,) = await consumer.receive(wait=30)
            await msg.later(0)
            (again,) = await consumer.receive(wait=30)
            assert again.attempt == 2
            await again.dead_letter("no good")

    one.do(fail_twice())
    (letter,) = one.rows("dlq", "list", "poppers")
    assert (letter["messageId"], letter["topic"]) == (sent, "taken")
    (life,) = [json.loads(line) for line in one.shown("msg", "get", "taken", sent, "--json").splitlines()]
    assert [(group["group"], group["state"]) for group in life["groups"]] == [("poppers", "dead")]
    assert [step["what"] for step in life["history"]] == ["stored", "on the retry topic", "dead"]
    assert one.rows("dlq", "resend", "poppers", "--to-topic", "--yes")[0]["sent"] == 1
    assert [row["body"] for row in one.rows("msg", "query", "taken")] == ["first", "first"]


def test_a_letter_of_the_grpc_endpoint_counts_the_deliveries_alone(one: Standing) -> None:
    """The endpoint pops it once more than it is delivered, to find that no attempt is left."""
    one.shown("topic", "create", "twice", "--queues", "1", "--type", "normal")
    one.shown("group", "create", "givers", "--retries", "1")
    endpoint = one.world.brokers["broker-a"].address

    async def fail() -> list[int]:
        attempts = []
        async with (
            pyromq.connect(endpoints=endpoint) as client,
            client.simple_consumer("twice", group="givers", invisible_s=10) as consumer,
        ):
            assert await consumer.receive(wait=0) == []
            await asyncio.to_thread(one.send, "twice", "first")
            while not await asyncio.to_thread(lambda: one.run("dlq", "list", "givers").exit_code == 0):
                for msg in await consumer.receive(wait=0):
                    attempts.append(msg.attempt)
                    await msg.later(1)
        return attempts

    attempts = one.do(fail())
    (letter,) = one.rows("dlq", "list", "givers")
    assert (len(attempts), letter["attempts"], letter["reason"]) == (2, 2, "no attempt was left")


def test_a_deleted_group_keeps_its_dead_letters_unless_they_are_named(one: Standing) -> None:
    def letters(group: str) -> int:
        done = one.run("dlq", "list", group, "--json")
        return len(done.stdout.splitlines()) if done.exit_code == 0 else 0

    for group in ("leaves", "goes"):
        one.shown("group", "create", group)
        one.send(dlq_topic(group), "first", "second")
        one.send(retry_topic(group), "third")
    dry = one.shown("group", "delete", "leaves", "--dry-run")
    assert "would delete group leaves and its offsets and its 1 message to be tried again, but not its 2 dead" in dry
    assert "--with-dead-letters" in dry
    (row,) = one.rows("group", "delete", "leaves", "--dry-run")
    assert (row["retries"], row["deadLetters"]) == (1, 2)
    assert "but not its 2 dead letters" in one.refused("group", "delete", "leaves", text="n\n")
    assert "Its 2 dead letters stay. See them: pyromq dlq list leaves" in one.shown(
        "group", "delete", "leaves", "--yes"
    )
    assert "leaves" not in {each["group"] for each in one.rows("group", "list")}
    assert letters("leaves") == 2
    for how in ("--yes", "--dry-run"):
        assert "group leaves is deleted, so nobody would get" in one.refused("dlq", "resend", "leaves", how)
    assert one.rows("dlq", "resend", "leaves", "--to", "elsewhere", "--yes")[0]["sent"] == 2
    assert one.rows("dlq", "purge", "leaves", "--yes")[0]["messages"] == 2
    assert "there is no group 'leaves'" in one.refused("dlq", "list", "leaves")

    with_them = "would delete group goes and its 1 message to be tried again and its 2 dead letters"
    dry = one.shown("group", "delete", "goes", "--with-dead-letters", "--keep-offsets", "--dry-run")
    assert f"{with_them}\n" in dry
    (row,) = one.rows("group", "delete", "goes", "--with-dead-letters", "--yes")
    assert (row["deadLetters"], row["deleted"], letters("goes")) == (2, True, 0)


def test_a_letter_that_was_sent_by_its_id_is_not_sent_again(one: Standing) -> None:
    one.shown("group", "create", "named")
    ids = one.send(dlq_topic("named"), "first", "second", "third")
    lost = "throw away the 3 dead letters of named, of which `dlq resend` has not sent 3"
    assert lost in one.refused("dlq", "purge", "named", text="n\n")
    for letter in (ids[1], ids[2]):
        assert one.rows("dlq", "resend", "named", letter, "--yes")[0]["sent"] == 1
    assert [row["messageId"] for row in one.rows("dlq", "resend", "named", "--dry-run")] == [ids[0]]
    assert one.rows("dlq", "purge", "named", "--dry-run")[0]["notSentAgain"] == 1
    assert one.rows("dlq", "resend", "named", "--yes")[0]["sent"] == 1
    assert one.rows("dlq", "resend", "named", "--yes") == []
    got = one.do(consume(one, "named", 3, rejects=True, topic="empty"))  # all die once more, with the same ids
    assert sorted(msg.id for msg in got) == sorted(ids)
    assert one.rows("dlq", "resend", "named", "--yes")[0]["sent"] == 3
    one.shown("dlq", "purge", "named", "--yes")
    assert "no key" in one.refused("kv", "get", "PYROMQ_DLQ", "named")


def test_a_resend_that_is_interrupted_goes_on(one: Standing, monkeypatch: pytest.MonkeyPatch) -> None:
    one.shown("group", "create", "halved")
    one.send(dlq_topic("halved"), "first", "second")
    retry, sent = copies.Copies.retry, list[str]()

    async def interrupted(own: copies.Copies, message: Any, group: str, properties: Any) -> None:
        if sent:
            raise KeyboardInterrupt
        sent.append(group)
        await retry(own, message, group, properties)

    with monkeypatch.context() as patched:
        patched.setattr(copies.Copies, "retry", interrupted)
        said = one.refused("dlq", "resend", "halved", "--yes")
    assert "stopped: 1 dead letters were sent. The same command goes on behind them" in said
    assert one.rows("dlq", "resend", "halved", "--yes")[0]["sent"] == 1


def test_dead_letters_that_were_sent_again_wait(one: Standing) -> None:
    one.shown("group", "create", "absent")
    one.send(dlq_topic("absent"), "first", "second", "third")
    retry = retry_topic("absent")

    def lags() -> tuple[int, int, list[int]]:
        (listed,) = [row["lag"] for row in one.rows("group", "list") if row["group"] == "absent"]
        found = one.report("group", "lag", "absent")
        return listed, found["lag"], [row["lag"] for row in found["topics"] if row["topic"] == retry]

    assert lags() == (0, 0, [])
    assert one.rows("dlq", "resend", "absent", "--yes")[0]["sent"] == 3
    assert lags() == (3, 3, [3])
    assert "nobody consumes: start it" in one.shown("group", "lag", "absent")
    one.do(consume(one, "absent", 3, rejects=False, topic="empty"))
    assert lags()[:2] == (0, 0)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["list", "clean"], 1, "group clean has no dead letters"),
        (["list", "clena"], 1, "there is no group 'clena'. Closest: 'clean'"),
        (["resend", "clean", "--yes"], 1, "group clean has no dead letters"),
        (["resend", "clean", "--to", "x", "--to-topic"], 64, "give one of them"),
        (["purge", "clena", "--yes"], 1, "Closest: 'clean'"),
    ],
)
def test_what_cannot_be_is_refused_in_words(one: Standing, words: list[str], code: int, said: str) -> None:
    if "clean" not in {row["group"] for row in one.rows("group", "list")}:
        one.shown("group", "create", "clean")
    assert said in one.refused("dlq", *words, code=code)


def test_apaches_brokers_are_counted_without_a_time_left(one: Standing, monkeypatch: pytest.MonkeyPatch) -> None:
    """They do not know the request; the topics of dead letters tell how many there are."""
    one.send("orders", "last")
    one.do(consume(one, "old", 1, rejects=True))

    async def unknown_request(*_: Any) -> None:
        raise refused(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "no such request", "broker-a")

    monkeypatch.setattr(messages, "dead_letters", unknown_request)
    (row,) = [row for row in one.rows("dlq", "list") if row["group"] == "old"]
    assert (row["messages"] >= 1, row["leftSeconds"]) == (True, None)
    rows = one.rows("dlq", "list", "old")
    assert len(rows) == row["messages"]
    assert {(each["topic"], each["leftSeconds"]) for each in rows} == {("orders", None)}
    assert len(one.rows("dlq", "list", "old", "--most", "1")) == 1
