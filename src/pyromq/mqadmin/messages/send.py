"""Messages sent by the tool itself: one, a few to look at a broker, or one again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from ...client.errors import Error
from ...model.message import Property, StoredMessage
from ...protocol.bodies.keyed import MessageQueue
from ..command import Failed, Run, command
from ..options import TOPIC
from ..printing import queue_text

if TYPE_CHECKING:
    from ...client.produce.producer import Producer
    from ...client.produce.queue_choice import QueueChoice
    from ...client.produce.sending import SendResult

SENT = "{:<32}  {:<4}  {:<20}    {}"
GROUP = "mqadmin"
_OWN = {value for name, value in vars(Property).items() if name.isupper()}


@asynccontextmanager
async def producer_of(run: Run, *, unit: str = "", trace: bool = False) -> AsyncIterator[Producer]:
    """Yield a producer with a client of its own, as unit and traces are settings of a client."""
    from ...client.client import Client  # not at the top: most commands send nothing, and it takes a while to import

    config = run.session.config
    instance = f"{config.instance}-sender" + (f"@{unit}" if unit else "")
    async with (
        Client(replace(config, instance=instance, trace=trace)) as client,
        client.producer(GROUP) as producer,
    ):
        yield producer


def result_text(result: SendResult) -> str:
    """Return SendResult's toString()."""
    return (
        f"SendResult [sendStatus={_status(result)}, msgId={result.message_id}, offsetMsgId={result.offset_message_id}, "
        f"messageQueue={queue_text(result.queue)}, queueOffset={result.queue_offset}, "
        f"recallHandle={result.recall_handle or 'null'}]"
    )


def _status(result: SendResult) -> str:
    return {"OK": "SEND_OK"}.get(result.status.name, result.status.name)


async def resend(run: Run, message: StoredMessage, unit: str = "") -> SendResult:
    """Send the same body, keys, tag and properties under a new id. CannotCopy if the message cannot be read."""
    from ...admin.copies import check_readable  # not at the top, as of the client

    check_readable(message)
    props = {name: value for name, value in message.properties.items() if name not in _OWN}
    async with producer_of(run, unit=unit) as producer:
        return await producer.send(
            message.topic, message.body, tag=message.tags or None, keys=message.keys, props=props
        )


@command("Send a message", TOPIC)
async def send_message(run: Run) -> None:
    """[-b broker=]       name of the broker, with -i
    [-c tags=]            its tag
    [-i qid=]             the queue, with -b
    [-k key=]             its keys, with blanks between
    [-m msgTraceEnable=]  true: write a trace
    -p body=              its body, as text"""
    if ("b" in run) != ("i" in run):
        raise Failed("the broker and queue must be set together: -b with -i")
    queue = None
    if "b" in run:
        queue = _only(MessageQueue(topic=run["t"], broker_name=run["b"], queue_id=run.number("i")))
    async with producer_of(run, trace=run.truth("m")) as producer:
        result = await producer.send(
            run["t"], run["p"].encode(), tag=run.get("c") or None, keys=run.get("k").split(), queue=queue
        )
    run.say(SENT.format("#Broker Name", "#QID", "#Send Result", "#MsgId"))
    run.say(SENT.format(result.queue.broker_name, result.queue.queue_id, _status(result), result.message_id))


def _only(wanted: MessageQueue) -> QueueChoice:
    return lambda queues: wanted


@command("Send messages to a broker and show each answer")
async def send_msg_status(run: Run) -> None:
    """-b brokerName=  name of the broker: each has a topic of its own name
    [-c count=]        how many, default 50
    [-s messageSize=]  bytes of a message, default 128"""
    body = b"x" * run.number("s", 128)
    async with producer_of(run) as producer:
        await producer.send(run["b"], body)  # finds the route, so that what is measured is the broker
        for _ in range(run.number("c", 50)):
            began = run.clock.monotonic()
            result = await producer.send(run["b"], body)
            run.say(f"rt={(run.clock.monotonic() - began) * 1000:.0f}ms, SendResult={result_text(result)}")


@command("How long it takes to send a message to each queue in turn", TOPIC)
async def check_msg_send_rt(run: Run) -> None:
    """[-a amount=]  how many, default 100
    [-s size=]       bytes of a message, default 128"""
    amount, topic = run.number("a", 100), run["t"]
    body = b"x" * run.number("s", 128)
    run.say(SENT.format("#Broker Name", "#QID", "#Send Result", "#RT"))
    elapsed = 0.0
    async with producer_of(run) as producer:
        queues = (await run.session.route_to_write(topic)).writable
        for number in range(amount):
            queue = queues[number % len(queues)]
            began, good = run.clock.monotonic(), True
            try:
                await producer.send(topic, body, queue=_only(queue))
            except Error as fault:
                good = False
                run.warn(str(fault))
            elapsed_ms = (run.clock.monotonic() - began) * 1000
            elapsed += elapsed_ms if number else 0  # the first one connects
            run.say(SENT.format(queue.broker_name, queue.queue_id, str(good).lower(), f"{elapsed_ms:.0f}"))
    run.say(f"Avg RT: {elapsed / max(1, amount - 1):.2f}")
