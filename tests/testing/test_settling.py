"""Time goes on when nothing is under way any more, however many turns of the loop or real milliseconds that takes."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from pyromq.client.consume.push_consumer import PushConsumer
from pyromq.client.received import Received
from pyromq.middleware.idempotence import Idempotence, SeenInDatabase, SeenInMemory
from pyromq.model.codes import ResponseCode
from pyromq.model.group import ConsumeFromWhere
from pyromq.testing import settling
from pyromq.testing.broker import RmqBroker
from pyromq.testing.client import RmqClient
from pyromq.testing.faults import SENDS
from pyromq.testing.settling import NotSettled

FIRST = ConsumeFromWhere.FIRST_OFFSET


@pytest.mark.parametrize("settles", [False, True])
@pytest.mark.parametrize("code", [ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY])
async def test_the_clock_stands_while_a_request_is_served(
    rmq_broker: RmqBroker, rmq_client: RmqClient, code: ResponseCode, settles: bool
) -> None:
    """A first send that is refused once and then makes its topic: many turns of the loop, and no time."""
    rmq_broker.faults.refuse(code=code, times=1)
    sending = asyncio.ensure_future(rmq_client.send("new", b"x"))
    if settles:
        await rmq_broker.settle()
    await rmq_broker.clock.advance(5)
    await sending
    assert [message.body for message in rmq_broker.messages("new")] == [b"x"]


async def test_work_of_many_turns_is_done_at_its_own_time(rmq_broker: RmqBroker) -> None:
    ended: list[float] = []

    async def work() -> None:
        for _ in range(5_000):
            await asyncio.sleep(0)
        ended.append(rmq_broker.clock.monotonic())

    rmq_broker.clock.call_later(1, lambda: asyncio.ensure_future(work()))
    began = rmq_broker.clock.monotonic()
    await rmq_broker.clock.advance(hours=1)
    assert ended == [began + 1]


async def test_an_idle_hour_is_few_deadlines(
    rmq_broker: RmqBroker, rmq_client: RmqClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loops that deliver sleep where nothing waits: an hour of virtual time costs what its deadlines cost."""
    deadlines, call_later = 0, rmq_broker.clock.call_later

    def counted(seconds: float, callback: Callable[..., object], *args: object) -> object:
        nonlocal deadlines
        deadlines += 1
        return call_later(seconds, callback, *args)

    await rmq_broker.clock.advance(60)
    monkeypatch.setattr(rmq_broker.clock, "call_later", counted)
    await rmq_broker.clock.advance(hours=1)
    assert 100 < deadlines < 1_700


async def handled(broker: RmqBroker, client: RmqClient, handler: Callable[[Received], object]) -> None:
    """Sends one message to the handler and lets it settle."""
    await broker.create_topic("T")
    await client.client.push_consumer("T", handler, group="g", begin=FIRST).start()
    await client.send("T", b"x")
    await broker.settle()


async def test_a_handler_in_a_thread_is_waited_for(rmq_broker: RmqBroker, rmq_client: RmqClient) -> None:
    ended: list[str] = []

    def blocks(msg: Received) -> None:
        threading.Event().wait(0.05)
        ended.append(msg.topic)

    await handled(rmq_broker, rmq_client, blocks)
    assert ended == ["T"]
    assert rmq_broker.lag("T", "g") == 0 or await _after(rmq_broker, lambda: rmq_broker.lag("T", "g") == 0)


async def _after(broker: RmqBroker, holds: Callable[[], bool]) -> bool:
    await broker.clock.advance(10)  # offsets are committed every few seconds
    return holds()


async def test_plain_handlers_run_at_the_times_of_their_retries(rmq_broker: RmqBroker, rmq_client: RmqClient) -> None:
    """The clock does not go on between two steps of a thread: not before it has begun, not before its end is known."""
    began: list[tuple[int, float]] = []

    def fails(msg: Received) -> None:
        began.append((msg.attempt, rmq_broker.clock.monotonic()))
        if msg.attempt < 4:
            raise ValueError("not yet")

    await rmq_broker.create_topic("T")
    for _ in range(20):
        await rmq_client.send("T", b"x")
    await handled(rmq_broker, rmq_client, fails)
    start = rmq_broker.clock.monotonic()
    await rmq_broker.clock.advance(10 + 30 + 60)
    times = [(1, start), (2, start + 10), (3, start + 40), (4, start + 100)]
    assert sorted(began) == [time for time in times for _ in range(21)]


async def test_databases_of_middleware_are_waited_for(
    rmq_broker: RmqBroker, rmq_client: RmqClient, tmp_path: Path
) -> None:
    seen = SeenInDatabase(lambda: sqlite3.connect(tmp_path / "seen.db"))
    seen.create()
    bodies: list[bytes] = []

    async def handle(msg: Received) -> None:
        bodies.append(msg.body)

    client = await rmq_broker.client(middleware=[Idempotence(seen, by="key")])
    await rmq_broker.create_topic("T")
    async with client.push_consumer("T", handle, group="g", begin=FIRST):
        for number in range(20):
            for _ in range(2):
                await rmq_client.send("T", b"%d" % number, keys=[f"k{number}"])
                await rmq_broker.settle()
                assert bodies == [b"%d" % each for each in range(number + 1)]
        await rmq_broker.clock.advance(10)
        assert rmq_broker.lag("T", "g") == 0


class _SeenLate(SeenInMemory):
    def __init__(self, known: Future[set[str]]) -> None:
        super().__init__()
        self._later = known

    async def known(self, words: Sequence[str]) -> set[str]:
        return await asyncio.wrap_future(self._later)


async def test_a_call_that_no_thread_has_begun_is_waited_for() -> None:
    """Its thread is older than the broker, and idle when it is asked: only the call itself is known."""
    begin, ended = threading.Event(), Future[set[str]]()

    def answer() -> None:
        begin.wait()
        ended.set_result(set())

    threading.Thread(target=answer, daemon=True).start()
    bodies: list[bytes] = []

    async def handle(msg: Received) -> None:
        bodies.append(msg.body)

    async with RmqBroker() as broker:
        client = await broker.client(middleware=[Idempotence(_SeenLate(ended))])
        await broker.create_topic("T")
        producer = (await broker.client()).producer()
        async with producer, client.push_consumer("T", handle, group="g", begin=FIRST):
            await producer.send("T", b"x")
            broker.patience_s = 0.05
            with pytest.raises(NotSettled, match=r"a thread works for _SeenLate.known, .*test_settling.py:\d+"):
                await broker.settle()
            broker.patience_s = 30
            begin.set()
            await broker.settle()
            assert bodies == [b"x"]


async def test_threads_of_tasks_that_a_handler_waits_for(rmq_broker: RmqBroker, rmq_client: RmqClient) -> None:
    ended = 0
    with ThreadPoolExecutor(1) as pool:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(pool, int)

        async def work() -> None:
            nonlocal ended
            await loop.run_in_executor(pool, int)
            ended += 1

        async def divides(msg: Received) -> None:
            for _ in range(50):
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(work())

        await handled(rmq_broker, rmq_client, divides)
        assert ended == 50


async def test_a_handler_at_a_real_socket_is_waited_for(rmq_broker: RmqBroker, rmq_client: RmqClient) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.05)
        writer.write(await reader.readline())
        writer.close()

    answers: list[bytes] = []
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:

        async def asks(msg: Received) -> None:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(msg.body + b"\n")
            answers.append(await reader.readline())
            writer.close()

        await handled(rmq_broker, rmq_client, asks)
        assert answers == [b"x\n"]


def _thread_that(never: threading.Event) -> Callable[[Received], Awaitable[None]]:
    async def waits(msg: Received) -> None:
        await asyncio.to_thread(never.wait)

    return waits


async def test_a_thread_that_does_not_end_is_named(rmq_broker: RmqBroker, rmq_client: RmqClient) -> None:
    never = threading.Event()
    rmq_broker.patience_s = 0.05
    try:
        with pytest.raises(
            NotSettled, match=r"(?s)after 0.05 s of real time: .*test_settling\.py:\d+.*patience_s = 30"
        ):
            await handled(rmq_broker, rmq_client, _thread_that(never))
        before = rmq_broker.clock.monotonic()
        with pytest.raises(NotSettled):
            await rmq_broker.clock.advance(60)
        assert rmq_broker.clock.monotonic() == before
        rmq_broker.patience_s = None
        await rmq_broker.clock.advance(60)
        assert rmq_broker.clock.monotonic() == before + 60
    finally:
        never.set()


async def test_a_real_sleep_that_does_not_end_is_named(rmq_broker: RmqBroker, rmq_client: RmqClient) -> None:
    async def oversleeps(msg: Received) -> None:
        await asyncio.sleep(3600)

    rmq_broker.patience_s = 0.05
    with pytest.raises(NotSettled, match="oversleeps"):
        await handled(rmq_broker, rmq_client, oversleeps)


async def test_a_handler_that_waits_for_the_clock_holds_nothing_up(
    rmq_broker: RmqBroker, rmq_client: RmqClient
) -> None:
    ended: list[int] = []

    async def waits(msg: Received) -> None:
        await rmq_broker.clock.sleep(60)
        ended.append(rmq_broker.clock.now_ms() - msg.born_ms)

    rmq_broker.patience_s = 0  # whoever is waited for is an error
    await handled(rmq_broker, rmq_client, waits)
    await rmq_broker.clock.advance(59)
    assert ended == []
    await rmq_broker.clock.advance(1)
    assert ended == [60_000]


async def test_a_handler_whose_own_send_is_slow_holds_nothing_up(rmq_broker: RmqBroker, rmq_client: RmqClient) -> None:
    async def sends_on(msg: Received) -> None:
        rmq_broker.faults.delay(2, SENDS, times=1)
        await asyncio.gather(rmq_client.send("on", b"1"), rmq_broker.clock.sleep(1))

    await rmq_broker.create_topic("on")
    rmq_broker.patience_s = 0
    await handled(rmq_broker, rmq_client, sends_on)
    assert rmq_broker.messages("on") == []
    await rmq_broker.clock.advance(2)
    assert [message.body for message in rmq_broker.messages("on")] == [b"1"]


async def test_a_handler_that_waits_for_another_or_for_the_test_holds_nothing_up(
    rmq_broker: RmqBroker, rmq_client: RmqClient
) -> None:
    """Neither a timer of the loop nor a socket or thread is there that could end it before the test or clock does."""
    lock, gate, ended = asyncio.Lock(), asyncio.Event(), 0

    async def takes_turns(msg: Received) -> None:
        nonlocal ended
        async with lock:
            await gate.wait()
            ended += 1

    rmq_broker.patience_s = 0
    await rmq_client.send("T", b"0")
    await rmq_client.send("T", b"1")
    await handled(rmq_broker, rmq_client, takes_turns)
    await rmq_broker.clock.advance(60)
    assert ended == 0
    gate.set()
    await rmq_broker.settle()
    assert ended == 3


async def test_a_handler_that_hangs_ends_by_its_own_time_limit(rmq_broker: RmqBroker, rmq_client: RmqClient) -> None:
    attempts: list[int] = []

    async def hangs(msg: Received) -> None:
        attempts.append(msg.attempt)
        await asyncio.Event().wait()

    rmq_broker.patience_s = 0
    await handled(rmq_broker, rmq_client, hangs)
    await rmq_broker.clock.advance(minutes=15, seconds=10)
    assert attempts == [1, 2]


async def test_a_check_of_a_transaction_that_takes_real_time_is_waited_for(
    rmq_broker: RmqBroker, rmq_client: RmqClient
) -> None:
    async def checks(msg: Received) -> bool:
        await asyncio.sleep(0.05)
        return True

    rmq_client.producer.transaction_check("T", checks)
    async with rmq_client.producer.transaction("T", b"half") as transaction:
        transaction.leave_open()
    await rmq_broker.clock.advance(minutes=1)
    assert [message.body for message in rmq_broker.messages("T")] == [b"half"]


async def test_what_is_ready_for_ever_is_named(rmq_broker: RmqBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "BUSY_S", 0.05)

    async def polls() -> None:
        while True:  # noqa: ASYNC110 - the fault that is looked for
            await asyncio.sleep(0)

    task = asyncio.ensure_future(polls())
    with pytest.raises(NotSettled, match=r"did not come to rest within 0.05 s .*polls"):
        await rmq_broker.settle()
    task.cancel()
    await rmq_broker.settle()


async def test_several_may_settle_at_once(rmq_broker: RmqBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "BUSY_S", 1.0)
    await asyncio.gather(*(rmq_broker.settle() for _ in range(5)), rmq_broker.clock.advance(60))


async def _waits_for_ever(msg: Received) -> None:
    await asyncio.Event().wait()


async def _entered_and_left(broker: RmqBroker, consumer: PushConsumer) -> None:
    """As `async with`; a limit of real time stands only around the end, since it counts as the outside."""
    await consumer.__aenter__()
    await broker.settle()
    async with asyncio.timeout(30):
        await consumer.__aexit__(None, None, None)


@pytest.mark.parametrize("orderly", [False, True])
async def test_a_block_with_a_handler_that_never_ends_is_left(
    rmq_broker: RmqBroker, rmq_client: RmqClient, caplog: pytest.LogCaptureFixture, orderly: bool
) -> None:
    """The stop waits for `grace_s` of a clock that nobody can move meanwhile."""
    rmq_broker.patience_s = 0.05
    await rmq_client.send("T", b"x")
    before = rmq_broker.clock.monotonic()
    consumer = rmq_client.client.push_consumer("T", _waits_for_ever, group="g", begin=FIRST, grace_s=7, orderly=orderly)
    await _entered_and_left(rmq_broker, consumer)
    assert 7 <= rmq_broker.clock.monotonic() - before < 30
    assert rmq_broker.patience_s == 0.05
    (said,) = [each.getMessage() for each in caplog.records if "the clock goes on by itself" in each.getMessage()]
    assert "_waits_for_ever" in said
    assert "test_settling.py" in said
    assert rmq_broker.lag("T", "g") == 1


async def test_a_handler_that_sleeps_by_the_clock_ends_in_the_grace(
    rmq_broker: RmqBroker, rmq_client: RmqClient
) -> None:
    ended: list[bytes] = []

    async def sleeps(msg: Received) -> None:
        await rmq_broker.clock.sleep(5)
        ended.append(msg.body)

    rmq_broker.patience_s = 0.05
    await rmq_client.send("T", b"x")
    await _entered_and_left(rmq_broker, rmq_client.client.push_consumer("T", sleeps, group="g", begin=FIRST))
    assert ended == [b"x"]
    assert rmq_broker.lag("T", "g") == 0


async def test_a_stop_beside_the_test_leaves_the_clock_to_the_test(
    rmq_broker: RmqBroker, rmq_client: RmqClient
) -> None:
    await rmq_client.send("T", b"x")
    consumer = rmq_client.client.push_consumer("T", _waits_for_ever, group="g", begin=FIRST, grace_s=7)
    await consumer.start()
    await rmq_broker.settle()
    rmq_broker.patience_s = 20
    stopping = asyncio.ensure_future(consumer.stop())
    before = rmq_broker.clock.monotonic()
    await rmq_broker.settle()
    await rmq_broker.clock.advance(6)
    assert not stopping.done()
    await rmq_broker.clock.advance(1)
    assert stopping.done()
    assert rmq_broker.clock.monotonic() == before + 7


async def test_a_handler_that_is_not_to_be_cancelled_is_named_and_left_behind(
    rmq_broker: RmqBroker, rmq_client: RmqClient, caplog: pytest.LogCaptureFixture
) -> None:
    gate = asyncio.Event()

    async def stays(msg: Received) -> None:
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                continue

    rmq_broker.patience_s = 0.05
    await rmq_client.send("T", b"x")
    consumer = rmq_client.client.push_consumer("T", stays, group="g", begin=FIRST, grace_s=1)
    await consumer.start()
    await rmq_broker.settle()
    await consumer.stop()
    (said,) = [each for each in caplog.messages if "a handler goes on although it was cancelled" in each]
    assert re.search(r"test_settling\.py:\d+ in stays", said)
    assert rmq_broker.lag("T", "g") == 1
    gate.set()


async def test_a_plain_function_is_named_by_its_own_name(rmq_broker: RmqBroker, rmq_client: RmqClient) -> None:
    never = threading.Event()

    def blocks(msg: Received) -> None:
        never.wait()

    rmq_broker.patience_s = 0.05
    try:
        with pytest.raises(NotSettled, match=r"a thread works for .*<locals>\.blocks, .*test_settling\.py:\d+"):
            await handled(rmq_broker, rmq_client, blocks)
    finally:
        never.set()
