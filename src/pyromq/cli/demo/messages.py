"""The broker: a topic, messages there and back, and all of them again after kill -9."""

from __future__ import annotations

from contextlib import AsyncExitStack

from rich.table import Table

from ...errors import PyroError
from ...model import names
from ...model.codes import RequestCode
from ...model.message import StoredMessage
from ...model.topic import Perm
from ...protocol.headers.pull import PullMessage
from ...protocol.headers.send import SendMessage, SendMessageAnswer
from ...protocol.headers.topics import CreateTopic
from ...protocol.messages import decode_messages
from ...protocol.properties import encode_properties
from .routes import until_route
from .stage import Daemon, Stage

BROKER = "demo-broker"
TOPIC = "greetings"
QUEUES = 4
GREETINGS = ("Hello", "Bonjour", "Hallo", "Hola", "Ciao", "Olá", "Hej", "你好", "こんにちは", "Привет")

# RocketMQ's own file form and key names; small files, since a demo should not take a gigabyte of disk.
BROKER_CONF = """\
brokerName={broker}
storePathRootDir={folder}/store
mappedFileSizeCommitLog=4194304
mappedFileSizeConsumeQueue=60000
maxHashSlotNum=1000
maxIndexNum=4000
"""


async def messages(stage: Stage) -> None:
    """Send, read back, kill, start again, read back again."""
    (stage.folder / "broker.conf").write_text(BROKER_CONF.format(broker=BROKER, folder=stage.folder), "utf-8")
    async with AsyncExitStack() as first:
        broker = await _start_broker(stage, first)
        await until_route(stage, names.AUTO_CREATE_TOPIC, {BROKER})
        stage.say(f"broker is up at {broker.address}, process {broker.process.pid}, and registered")
        await _create_topic(stage)
        await until_route(stage, TOPIC, {BROKER})
        stage.say(f"topic {TOPIC} is made, and its route known to the name server")
        for number, text in enumerate(GREETINGS):
            await _send(stage, number, text)
        stage.say(f"sent {len(GREETINGS)} messages")
        _show(stage, await _read_back(stage))
        broker.process.kill()
        await broker.process.wait()
    await _start_broker(stage, stage.closing)
    found = await _read_back(stage)
    stage.say(f"broker killed with kill -9 and started again: all {len(found)} messages are there")


async def _start_broker(stage: Stage, closing: AsyncExitStack) -> Daemon:
    options = {"--namesrv": stage.namesrv, "--config": str(stage.folder / "broker.conf")}
    broker = await stage.start("broker", options, closing)
    stage.broker = broker.address
    return broker


async def _create_topic(stage: Stage) -> None:
    header = CreateTopic(
        topic=TOPIC,
        default_topic=names.AUTO_CREATE_TOPIC,
        read_queue_nums=QUEUES,
        write_queue_nums=QUEUES,
        perm=int(Perm.READ_WRITE),
        topic_filter_type="SINGLE_TAG",
    )
    await stage.ask(stage.broker, RequestCode.UPDATE_AND_CREATE_TOPIC, header)


async def _send(stage: Stage, number: int, text: str) -> None:
    properties = encode_properties({"KEYS": f"greeting-{number}", "TAGS": "demo", "WAIT": "true"}).decode()
    header = SendMessage(
        producer_group="demo-producers",
        topic=TOPIC,
        default_topic=names.AUTO_CREATE_TOPIC,
        default_topic_queue_nums=QUEUES,
        queue_id=number % QUEUES,
        sys_flag=0,
        born_timestamp=stage.clock.now_ms(),
        flag=0,
        properties=properties,
    )
    answer = await stage.ask(stage.broker, RequestCode.SEND_MESSAGE, header, text.encode())
    if SendMessageAnswer.from_fields(answer.fields).queue_offset != number // QUEUES:
        raise PyroError(f"message {number} was answered with {answer.fields}, not with its place in the queue")


async def _read_back(stage: Stage) -> list[StoredMessage]:
    """Everything that is in the queues, which must be everything that was sent."""
    found: list[StoredMessage] = []
    for queue_id in range(QUEUES):
        header = PullMessage(
            consumer_group="demo-consumers",
            topic=TOPIC,
            queue_id=queue_id,
            queue_offset=0,
            max_msg_nums=32,
            sys_flag=4,  # the subscription comes with the pull
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription="*",
            sub_version=0,
        )
        answer = await stage.ask(stage.broker, RequestCode.PULL_MESSAGE, header)
        found += decode_messages(answer.body)
    if sorted(one.body.decode() for one in found) != sorted(GREETINGS):
        raise PyroError(f"sent {len(GREETINGS)} messages, found {[one.body for one in found]}")
    return found


def _show(stage: Stage, found: list[StoredMessage]) -> None:
    table = Table(title=f"messages of {TOPIC}", title_justify="left")
    for heading in ("queue", "offset", "key", "body"):
        table.add_column(heading, no_wrap=True)
    for one in found:
        table.add_row(str(one.queue_id), str(one.queue_offset), one.properties["KEYS"], one.body.decode())
    stage.console.print(table)
