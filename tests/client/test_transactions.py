"""Transactions of the SDK on our own broker: both ends, check-backs over restarts, and the ready-made table."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from pyromq.client import sync
from pyromq.client.errors import BadMessage, Error, Refused, Unreachable
from pyromq.client.produce.transaction_table import TransactionTable
from pyromq.client.produce.transactions import Transaction
from pyromq.client.received import Received
from pyromq.model.codes import ResponseCode
from pyromq.model.group import ConsumeFromWhere
from pyromq.protocol.bodies.body import decode_body
from pyromq.protocol.bodies.heartbeat import HeartbeatData
from pyromq.protocol.requests import RequestCode
from pyromq.testing.clock import ManualClock
from pyromq.transport.dispatch import Reply
from tests.client.cluster import Cluster
from tests.client.conftest import NewWorld
from tests.client.messages import stored
from tests.client.test_push_consumer import Seen
from tests.client.world import ON_JAVA, Servers, turns_until

FIRST = ConsumeFromWhere.FIRST_OFFSET
END = RequestCode.END_TRANSACTION


@pytest.fixture
async def quick(world_with: NewWorld) -> Servers:
    """Its broker asks about half messages every 50 ms, once they are 50 ms old."""
    return await world_with(transaction_check_interval=50, transaction_time_out=50)


async def delivered(world: Servers, count: int) -> list[str]:
    """What a consumer gets: so many, and not more until a message sent afterwards has come too."""
    seen = Seen()
    async with (
        world.client(instance="look") as client,
        client.producer("after") as producer,
        client.push_consumer("T", seen, group="g", begin=FIRST, concurrency=1),
    ):
        await seen.count(count)
        await producer.send("T", b"last")
        await turns_until(lambda: "last" in seen.bodies)
    bodies = sorted(body for body in seen.bodies if body != "last")
    return sorted(set(bodies)) if ON_JAVA else bodies  # Java's may ask again before it noted a yes: one commit for each


async def test_a_block_that_ends_well_commits(world: Servers) -> None:
    async with (
        world.client() as client,
        client.producer("P") as producer,
        producer.transaction("T", "paid", tag="a", keys=["k"]) as transaction,
    ):
        assert transaction.message_id
    assert await delivered(world, 1) == ["paid"]


async def test_a_transaction_is_entered_once(world: Servers) -> None:
    async with world.client() as client, client.producer("P") as producer:
        block = producer.transaction("T", "paid")
        async with block:
            with pytest.raises(Error, match="this transaction was entered before"):
                await block.__aenter__()
        with pytest.raises(Error, match=r"Call transaction\(\.\.\.\) again"):
            await block.__aenter__()
    assert await delivered(world, 1) == ["paid"]


async def test_a_block_that_raises_rolls_back_and_its_own_error_goes_on(world: Servers) -> None:
    async with world.client() as client, client.producer("P") as producer:
        with pytest.raises(ZeroDivisionError):
            async with producer.transaction("T", "never"):
                raise ZeroDivisionError
        async with producer.transaction("T", "nor this") as transaction:
            transaction.rollback()
        await producer.send("T", "plain")
    assert await delivered(world, 1) == ["plain"]


async def committed_then_broken(transaction: Transaction) -> None:
    transaction.commit()
    raise ZeroDivisionError


async def test_what_is_committed_by_name_stays_so_if_the_block_raises_behind_it(world: Servers) -> None:
    async with world.client() as client, client.producer("P") as producer:
        with pytest.raises(ZeroDivisionError):
            async with producer.transaction("T", "paid") as transaction:
                await committed_then_broken(transaction)
        async with producer.transaction("T", "shipped") as transaction:
            transaction.commit()
        async with producer.transaction("T", "never") as transaction:
            transaction.commit()
            transaction.rollback()
    assert await delivered(world, 2) == ["paid", "shipped"]


async def test_the_broker_asks_about_what_was_left_open(quick: Servers) -> None:
    asked: list[str] = []
    async with quick.client() as client, client.producer("P") as producer:

        @producer.transaction_check("T")
        async def check(value: str, msg: Received) -> bool | None:
            asked.append(value)
            if value == "later":
                return True if asked.count(value) > 1 else None
            return value == "yes"

        for value in ("yes", "no", "later"):
            async with producer.transaction("T", value) as transaction:
                transaction.leave_open()
        assert await delivered(quick, 2) == ["later", "yes"]
    if ON_JAVA:  # it may ask again before it has noted an answer
        assert asked.count("no") >= 1
        assert asked.count("later") >= 2
    else:
        assert (asked.count("no"), asked.count("later")) == (1, 2)


@pytest.mark.fresh_broker
async def test_another_producer_of_the_group_answers_after_a_restart_of_both(quick: Servers) -> None:
    async with (
        quick.client() as client,
        client.producer("P") as producer,
        producer.transaction("T", "kept", check_after=1) as transaction,
    ):
        transaction.leave_open()
    await quick.restart_broker()
    async with quick.client() as client, client.producer("P") as producer:
        producer.transaction_check("T", lambda msg: True)
        assert await delivered(quick, 1) == ["kept"]


async def test_a_blocking_producer_that_never_sends_is_asked_too(quick: Servers) -> None:
    async with (
        quick.client() as client,
        client.producer("P") as producer,
        producer.transaction("T", "kept", check_after=1) as transaction,
    ):
        transaction.leave_open()
    asked, enough = threading.Event(), threading.Event()

    def check(msg: Received) -> bool:
        asked.set()
        return True

    def work() -> None:
        with sync.connect(tuple(quick.name_servers)) as client, client.producer("P") as producer:
            producer.transaction_check("T", check)
            enough.wait(30)

    working = asyncio.create_task(asyncio.to_thread(work))
    try:
        assert await delivered(quick, 1) == ["kept"]
    finally:
        enough.set()
        await working
    assert asked.is_set()


@pytest.mark.parametrize("known", ["T", "TBW102"])
async def test_a_check_makes_the_producer_known_to_brokers_before_it_sends(cluster: Cluster, known: str) -> None:
    """Also of a topic that nobody knows yet: a broker that makes it for another producer may ask this one."""
    broker = cluster.broker("a", **{known: 4})
    client = await cluster.client()

    def heard() -> list[list[str]]:
        beats = [decode_body(HeartbeatData, each.body) for each in broker.requests(RequestCode.HEART_BEAT)]
        return [[each.group_name for each in beat.producer_data_set] for beat in beats]

    async with client.producer("P") as producer:
        await cluster.clock.advance(1)
        assert not heard()
        producer.transaction_check("T", lambda msg: True)
        await cluster.clock.advance(1)
        assert heard() == [["P"]]
        await cluster.clock.advance(30)
        assert heard() == [["P"], ["P"]]


async def test_the_brokers_of_a_topic_that_comes_later_are_met_too(cluster: Cluster) -> None:
    broker = cluster.broker("a")
    client = await cluster.client()
    async with client.producer("P") as producer:
        producer.transaction_check("T", lambda msg: True)
        await cluster.clock.advance(1)
        cluster.topics["T"] = {"a": 4}
        await cluster.clock.advance(60)
        assert broker.requests(RequestCode.HEART_BEAT)


async def test_nobody_is_asked_while_the_block_is_open(quick: Servers) -> None:
    """In a group of its own: Java's broker goes on asking about what it asked about before its end."""
    asked: list[str] = []
    checked = asyncio.Event()
    async with quick.client() as client, client.producer("Slow") as producer:
        transactions = producer.transactions
        real = transactions.check

        async def spy(*arguments: object) -> None:
            await real(*arguments)  # type: ignore[arg-type]
            checked.set()

        transactions.check = spy  # type: ignore[method-assign, assignment]

        @producer.transaction_check("T")
        async def check(msg: Received) -> bool:
            asked.append(msg.id)
            return False

        async with producer.transaction("T", "slow"):
            await checked.wait()
    assert not asked
    assert await delivered(quick, 1) == ["slow"]


async def test_a_check_that_raises_or_answers_nonsense_decides_nothing(
    quick: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    answers = iter(("nonsense", RuntimeError("database is away"), asyncio.CancelledError(), True))

    async def check(msg: Received) -> object:
        answer = next(answers)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async with quick.client() as client, client.producer("P") as producer:
        producer.transaction_check("T", check)
        async with producer.transaction("T", "in the end") as transaction:
            transaction.leave_open()
        assert await delivered(quick, 1) == ["in the end"]
    for why in ("nonsense", "database is away", "was cancelled"):
        assert any("transaction check failed" in line and why in line for line in caplog.messages)


async def soon(condition: Callable[[], bool]) -> None:
    """A message that was given up is not asked about any more: then this ends with TimeoutError."""
    async with asyncio.timeout(60):
        await turns_until(condition)


@pytest.mark.own_broker("Apache's counts each question")
async def test_a_check_that_fails_for_long_does_not_use_up_the_questions(
    world_with: NewWorld, caplog: pytest.LogCaptureFixture
) -> None:
    """A database that is away for many rounds, over restarts of both sides: then it is back, and the message comes."""
    world = await world_with(transaction_check_interval=20, transaction_time_out=0)
    asked = 0
    is_away = True

    async def check(msg: Received) -> bool:
        nonlocal asked
        asked += 1
        if is_away:
            raise OSError("database is away")
        return True

    async with world.client() as client, client.producer("P") as producer:
        producer.transaction_check("T", check)
        async with producer.transaction("T", "paid") as transaction:
            transaction.leave_open()
        await soon(lambda: asked > 40)
    await world.restart_broker()
    before = asked
    async with world.client() as client, client.producer("P") as producer:
        producer.transaction_check("T", check)
        await soon(lambda: asked > before + 40)
        is_away = False
        assert await delivered(world, 1) == ["paid"]
    failed = [one for one in caplog.records if "transaction check failed" in one.getMessage()]
    assert sum(bool(one.exc_info) for one in failed) == 2, "a whole traceback by each producer, then short lines"
    assert not any("GIVEN UP" in line for line in caplog.messages)


@pytest.mark.own_broker("Apache's counts each question")
async def test_neither_an_open_block_nor_a_busy_check_uses_up_the_questions(world_with: NewWorld) -> None:
    world = await world_with(transaction_check_interval=20, transaction_time_out=0)
    answers = 0
    calls: list[str] = []
    enough = asyncio.Event()

    async with world.client() as client, client.producer("P") as producer:
        transactions = producer.transactions
        real = transactions.check

        async def count(*arguments: object) -> None:
            nonlocal answers
            await real(*arguments)  # type: ignore[arg-type]
            answers += 1

        transactions.check = count  # type: ignore[method-assign, assignment]

        @producer.transaction_check("T")
        async def check(value: str) -> bool:
            calls.append(value)
            await enough.wait()
            return True

        async with producer.transaction("T", "long"):
            await soon(lambda: answers > 40)
        async with producer.transaction("T", "busy") as transaction:
            transaction.leave_open()
        await soon(lambda: answers > 80)
        assert calls == ["busy"], "once for all those questions"
        enough.set()
        assert await delivered(world, 2) == ["busy", "long"]


async def test_an_end_that_gets_lost_raises_unless_somebody_can_answer(cluster: Cluster) -> None:
    broker = cluster.broker("a", T=1)
    ids = "7F0000010000A0C8000000000000000A"

    def half(request: object) -> Reply:
        return Reply(fields={"msgId": ids, "queueId": "0", "queueOffset": "3"})

    def hang_up(request: object) -> None:
        broker.cut()

    broker.script[RequestCode.SEND_MESSAGE_V2] = half
    broker.script[END] = hang_up
    client = await cluster.client()
    async with client.producer("P") as producer:
        with pytest.raises(Unreachable, match=r"commit of .*transaction_check"):
            async with producer.transaction("T", b"x"):
                pass
        producer.transaction_check("T", lambda msg: True)
        async with producer.transaction("T", b"x"):
            pass
    ended = broker.requests(END)[0].fields
    assert (ended["tranStateTableOffset"], ended["commitLogOffset"], ended["commitOrRollback"]) == ("3", "10", "8")


async def test_a_half_message_that_was_not_flushed_is_rolled_back(cluster: Cluster) -> None:
    broker = cluster.broker("a", T=1)
    fields = {"msgId": "7F0000010000A0C8000000000000000A", "queueId": "0", "queueOffset": "3"}
    broker.script[RequestCode.SEND_MESSAGE_V2] = lambda _: Reply(ResponseCode.FLUSH_DISK_TIMEOUT, fields=dict(fields))
    broker.script[END] = lambda _: Reply()
    client = await cluster.client()
    async with client.producer("P") as producer:
        with pytest.raises(Refused, match="FLUSH_DISK_TIMEOUT"):
            async with producer.transaction("T", b"x"):
                raise AssertionError("the block must not run")
    assert broker.requests(END)[0].fields["commitOrRollback"] == "12"


async def test_the_blocking_facade_has_them_too(world: Servers) -> None:
    def work() -> None:
        with sync.connect(tuple(world.name_servers)) as client, client.producer("P") as producer:
            with producer.transaction("T", "good"):
                pass
            with pytest.raises(ZeroDivisionError), producer.transaction("T", "bad"):
                raise ZeroDivisionError

    await asyncio.to_thread(work)
    assert await delivered(world, 1) == ["good"]


async def test_the_table_answers_for_exactly_what_its_database_committed(quick: Servers, tmp_path: Path) -> None:
    def database() -> sqlite3.Connection:
        return sqlite3.connect(tmp_path / "shop.db")

    table = TransactionTable(database, patience_s=0)
    table.create()
    async with quick.client() as client, client.producer("P") as producer:
        producer.transaction_check("T", table)
        for value in ("bought", "forgotten"):
            async with producer.transaction("T", value) as transaction:
                transaction.leave_open()
                db = database()
                table.note(db, transaction.message_id)
                if value == "bought":
                    db.commit()
                db.close()
        assert await delivered(quick, 1) == ["bought"]


def test_the_table_waits_before_it_says_no_and_forgets_old_rows(tmp_path: Path) -> None:
    clock = ManualClock()
    path = tmp_path / "t.db"
    table = TransactionTable(lambda: sqlite3.connect(path), patience_s=60, clock=clock)
    table.create()
    message = Received(stored(0, b"x", born_timestamp=clock.now_ms() - 59_000), None)  # type: ignore[arg-type]
    old = Received(stored(0, b"x", born_timestamp=clock.now_ms() - 61_000), None)  # type: ignore[arg-type]
    assert table(message) is None
    assert table(old) is False
    with sqlite3.connect(path) as db:
        table.note(db, message.id)
    assert table(message) is True
    table.forget(older_than_s=-1)
    assert table(old) is False


@pytest.mark.parametrize("wrong", [{"table": "a; DROP TABLE b"}, {"placeholder": ":1"}])
def test_the_table_refuses_what_would_end_in_its_statements(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="="):
        TransactionTable(lambda: None, **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("namespace", ["", "eu"])
async def test_the_group_that_strangers_share_has_no_transactions(cluster: Cluster, namespace: str) -> None:
    """Brokers ask any member of the group, and nobody knows whose database that looks into."""
    broker = cluster.broker("a", T=1)
    client = await cluster.client(namespace=namespace)
    why = r"^transactions need a producer group of their own: .* Write client.producer\("
    async with client.producer() as producer:
        with pytest.raises(BadMessage, match=why):
            async with producer.transaction("T", b"x"):
                pass
        with pytest.raises(BadMessage, match=why):
            producer.transaction_check("T", lambda msg: True)
    assert not broker.requests(RequestCode.SEND_MESSAGE_V2)


@pytest.mark.parametrize(
    ("calls", "raises", "ended"),
    [
        ((), False, "8"),
        ((), True, "12"),
        (("commit",), True, "8"),
        (("commit", "rollback"), False, "12"),
        (("rollback", "commit"), True, "8"),
        (("commit", "leave_open"), False, None),
        (("leave_open",), True, "12"),
    ],
)
async def test_the_last_decision_counts_at_the_end_of_the_block(
    cluster: Cluster, calls: tuple[str, ...], raises: bool, ended: str | None
) -> None:
    broker = cluster.broker("a", T=1)
    fields = {"msgId": "7F0000010000A0C8000000000000000A", "queueId": "0", "queueOffset": "3"}
    broker.script[RequestCode.SEND_MESSAGE_V2] = lambda _: Reply(fields=dict(fields))
    broker.script[END] = lambda _: Reply()
    client = await cluster.client()
    async with client.producer("P") as producer:
        with suppress(ZeroDivisionError):
            async with producer.transaction("T", b"x") as transaction:
                for each in calls:
                    getattr(transaction, each)()
                assert not broker.requests(END)
                if raises:
                    raise ZeroDivisionError
    assert [one.fields["commitOrRollback"] for one in broker.requests(END)] == ([] if ended is None else [ended])
