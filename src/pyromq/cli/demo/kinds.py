"""Every kind of message, sent and consumed by the SDK over real sockets, with kill -9 while some of them wait."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from ...client.client import Client, connect
from ...client.core.retry import Reject, RetryLater
from ...client.produce.producer import Producer
from ...client.received import Received
from ...client.subscription import sql, tag
from ...errors import PyroError
from ...model.group import ConsumeFromWhere
from .run import DemoRun, kill_and_start

GREETINGS = ("Hello", "Bonjour", "Hallo", "Hola", "Ciao", "Olá", "Hej", "你好", "こんにちは", "Привет")
STEPS = ("created", "paid", "packed", "sent")
WAIT_S = 3
FIRST = ConsumeFromWhere.FIRST_OFFSET


async def kinds(run: DemoRun) -> None:
    async with connect(run.namesrv, trace=True) as client, client.producer("demo") as producer:
        await _plain(run, client, producer)
        await _in_order(run, client, producer)
        await _only_some(run, client, producer)
        await _all_or_nothing(run, client, producer)
        await _again_or_given_up(run, client, producer)
        await _question(run, client, producer)
        await _everybody(run, producer)
        await _later(run, client, producer)


async def _plain(run: DemoRun, client: Client, producer: Producer) -> None:
    for number, text in enumerate(GREETINGS):
        sent = await producer.send("greetings", text, tag="demo", keys=[f"greeting-{number}"])
        run.message_ids["greetings"] = sent.message_id
    async with _consumer(run, client, "greetings", "readers") as inbox:
        _same(await inbox.take(len(GREETINGS)), GREETINGS)
    run.say(f"plain: {len(GREETINGS)} greetings sent and consumed")


async def _in_order(run: DemoRun, client: Client, producer: Producer) -> None:
    customers = ("ann", "bob")
    for customer in customers:
        await asyncio.gather(*(producer.send("steps", step, order_key=customer) for step in STEPS))
    async with _consumer(run, client, "steps", "followers", orderly=True) as inbox:
        got = await inbox.take_messages(len(STEPS) * len(customers))
    for customer in customers:
        seen = tuple(msg.body.decode() for msg in got if msg.order_key == customer)
        if seen != STEPS:
            raise PyroError(f"the steps of {customer} came as {seen}")
    run.say(f"in order: {', '.join(STEPS)} for {' and '.join(customers)} each")


async def _only_some(run: DemoRun, client: Client, producer: Producer) -> None:
    for size in range(6):
        await producer.send("parcels", str(size), tag="large" if size > 3 else "small", props={"size": str(size)})
    async with _consumer(run, client, "parcels", "by-tag", filter=tag("large")) as inbox:
        _same(await inbox.take(2), ("4", "5"))
    async with _consumer(run, client, "parcels", "by-sql", filter=sql("size BETWEEN 1 AND 2")) as inbox:
        _same(await inbox.take(2), ("1", "2"))
    run.say("only some: two of six parcels by tag, two by the SQL92 expression size BETWEEN 1 AND 2")


async def _all_or_nothing(run: DemoRun, client: Client, producer: Producer) -> None:
    asked: list[str] = []

    def check(msg: Received) -> bool:
        asked.append(msg.body.decode())
        return True

    producer.transaction_check("payments", check)
    async with producer.transaction("payments", "committed"):
        pass
    async with producer.transaction("payments", "rolled back") as tx:
        tx.rollback()
    async with producer.transaction("payments", "undecided") as tx:
        tx.leave_open()
    async with _consumer(run, client, "payments", "books") as inbox:
        _same(await inbox.take(2), ("committed", "undecided"))
    if asked != ["undecided"]:
        raise PyroError(f"the broker asked about {asked}")
    run.say("all or nothing: committed is there, rolled back is not, about undecided the broker came and asked")


async def _again_or_given_up(run: DemoRun, client: Client, producer: Producer) -> None:
    await producer.send("tasks", "hard")
    await producer.send("tasks", "nonsense")
    attempts: Counter[str] = Counter()
    done = asyncio.Event()

    async def work(task: str) -> None:
        attempts[task] += 1
        if task == "nonsense":
            raise Reject("nobody can do this")
        if attempts[task] < 3:
            raise RetryLater(1)
        done.set()

    async with client.push_consumer("tasks", work, group="workers", begin=FIRST), run.patience("the third attempt"):
        await done.wait()
    async with _consumer(run, client, "%DLQ%workers", "undertakers") as inbox:
        _same(await inbox.take(1), ("nonsense",))
    run.say("again: a hard task succeeds at its third attempt; given up: nonsense is a dead letter at once")


async def _question(run: DemoRun, client: Client, producer: Producer) -> None:
    async def square(number: int, msg: Received) -> None:
        await producer.reply(msg, number * number)

    async with client.push_consumer("squares", square, group="calculators", begin=FIRST):
        answer = await producer.request("squares", 12, timeout=30)
    if answer.decode(int) != 144:
        raise PyroError(f"12 squared is not {answer.body!r}")
    run.say("question and answer: 12 squared is 144")


async def _everybody(run: DemoRun, producer: Producer) -> None:
    await producer.send("news", "the topic is there")
    options: dict[str, Any] = {"broadcast": True, "begin": ConsumeFromWhere.LAST_OFFSET}
    options["offsets_folder"] = run.folder / "offsets"
    async with (
        connect(run.namesrv, instance="ann") as ann,
        connect(run.namesrv, instance="bob") as bob,
        _consumer(run, ann, "news", "crowd", **options) as of_ann,
        _consumer(run, bob, "news", "crowd", **options) as of_bob,
    ):
        await producer.send("news", "rain")
        for inbox in (of_ann, of_bob):
            _same(await inbox.take(1), ("rain",))
    run.say("to everybody: both members of a broadcast group heard of the rain")


async def _later(run: DemoRun, client: Client, producer: Producer) -> None:
    """Send two timers that wait while the broker is killed, and a third that is recalled before."""
    taken_back = await producer.send("alarms", "never", delay=WAIT_S)
    due = {text: (await producer.send("alarms", text, delay=WAIT_S)).message_id for text in ("tea", "eggs")}
    await producer.recall(taken_back)
    await kill_and_start(run)
    async with _consumer(run, client, "alarms", "sleepers") as inbox:
        got = await inbox.take_messages(len(due))
    _same([msg.body.decode() for msg in got], due)
    run.message_ids["alarms"] = due["tea"]
    early = [msg for msg in got if msg.stored_ms < msg.born_ms + 1000 * WAIT_S - 1000]
    if early:
        raise PyroError(f"{len(early)} alarms came before their time")
    async with _consumer(run, client, "greetings", "late-readers") as inbox:
        _same(await inbox.take(len(GREETINGS)), GREETINGS)
    run.say(f"later: two alarms rang after {WAIT_S} s, one was taken back; nothing that was sent before is lost")


@dataclass(slots=True)
class _Inbox:
    run: DemoRun
    what: str
    messages: asyncio.Queue[Received] = field(default_factory=asyncio.Queue)

    async def handle(self, msg: Received) -> None:
        self.messages.put_nowait(msg)

    async def take_messages(self, count: int) -> list[Received]:
        async with self.run.patience(f"{count} messages of {self.what}"):
            return [await self.messages.get() for _ in range(count)]

    async def take(self, count: int) -> list[str]:
        return [msg.body.decode() for msg in await self.take_messages(count)]


@asynccontextmanager
async def _consumer(run: DemoRun, client: Client, topic: str, group: str, **options: Any) -> AsyncIterator[_Inbox]:
    inbox = _Inbox(run, topic)
    options.setdefault("begin", FIRST)
    async with client.push_consumer(topic, inbox.handle, group=group, **options):
        yield inbox


def _same(found: Iterable[str], wanted: Iterable[str]) -> None:
    found, wanted = sorted(found), sorted(wanted)
    if found != wanted:
        raise PyroError(f"{wanted} were to come, {found} came")
