"""The messages of a topic or queue, printed one after another. Reading leaves no trace: no offset is committed."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from ...admin import messages, offsets
from ...client.core.routing import route_of
from ...model.message import StoredMessage
from ...protocol.bodies.keyed import MessageQueue
from ..command import Failed, Run, command
from ..groups.offsets import time_of
from ..options import TOPIC, UsageError
from ..printing import queue_text
from .find import with_limits
from .text import print_messages

PAGE = 32
BEGIN = "[-b beginTimestamp =]  stored from, ms or yyyy-MM-dd#HH:mm:ss:SSS"
END = "[-e endTimestamp =]  stored until, ms or yyyy-MM-dd#HH:mm:ss:SSS"
CHARSET = "[-c charsetName =]  charset of the bodies, default UTF-8"
TAGS = "[-s subExpression =]  only these tags, TagA || TagB"


class QueueAtBroker(NamedTuple):
    queue: MessageQueue
    address: str


async def _queues(run: Run, topic: str, route_topic: str) -> list[QueueAtBroker]:
    route = route_of(route_topic, await run.route_of(route_topic))
    return [
        QueueAtBroker(MessageQueue(topic=topic, broker_name=each.broker_name, queue_id=each.queue_id), address)
        for each in route.readable
        if (address := route.reader(each.broker_name)) is not None
    ]


async def _limits(run: Run, place: QueueAtBroker, begin: str = "b", end: str = "e") -> tuple[int, int]:
    """Return first offset and end of a queue, or the offsets of the times that were given."""
    of = (run.calls, place.address, place.queue.topic, place.queue.queue_id)
    first = await (offsets.at_time(*of, time_of(run, run[begin])) if begin in run else offsets.first(*of))
    last = await (offsets.at_time(*of, time_of(run, run[end])) if end in run else offsets.end(*of))
    return first, last


async def _page(
    run: Run, place: QueueAtBroker, offset: int, end: int, *, most: int = PAGE, tags: str = "*", group: str = ""
) -> messages.Page:
    """Return the messages from the offset on, but none from the end on."""
    of = (place.address, place.queue.topic, place.queue.queue_id, offset)
    page = await messages.read_queue(run.calls, *of, most=most, tags=tags, group=group or messages.TOOLS_GROUP)
    fitting = [each for each in page.messages if each.queue_offset < end and _fits(each, tags)]
    for message in fitting:
        with_limits(message, page)
    return messages.Page(fitting, page.next_offset, page.first, page.end)


def _fits(message: StoredMessage, tags: str) -> bool:
    """Compare the tags themselves: brokers compare their hashes."""
    return tags == "*" or message.tags in [tag.strip() for tag in tags.split("||")]


@command("Print the messages of a topic", BEGIN, CHARSET, END, TAGS, TOPIC)
async def print_msg(run: Run) -> None:
    """[-d printBody =]   false: without bodies
    [-l lmqParentTopic=]  parent topic of a light queue: where to look for the route"""
    tags, charset = run.get("s", "*"), run.charset("c", "UTF-8")
    for place in await _queues(run, run["t"], run.get("l") or run["t"]):
        offset, end = await _limits(run, place)
        name = queue_text(place.queue)
        run.say(f"minOffset={offset}, maxOffset={end}, {name}")
        while offset < end:
            page = await _page(run, place, offset, end, tags=tags)
            if page.next_offset <= offset:
                run.say(f"{name} print msg finished. status=OFFSET_ILLEGAL, offset={offset}")
                break
            offset = page.next_offset
            if not page.messages:
                run.say(f"{name} no matched msg. status=NO_MATCHED_MSG, offset={offset}")
            broker = place.queue.broker_name
            print_messages(run, page.messages, broker, charset=charset, with_body=run.truth("d", True))
        run.say("-" * 56)


@command("Print or count the messages of one queue", BEGIN, CHARSET, END, TAGS, TOPIC)
async def print_msg_by_queue(run: Run) -> None:
    """-a brokerName =  name of the broker
    [-d printBody =]    true: with bodies
    [-f calculate=]     true: count by tag
    -i queueId =        the queue
    [-p print msg=]     true: print each message"""
    charset = run.charset("c", "UTF-8")
    place = await _one_queue(run, run["t"], run["a"], run.number("i"))
    offset, end = await _limits(run, place)
    counts: Counter[str] = Counter()
    while offset < end:
        page = await _page(run, place, offset, end, tags=run.get("s", "*"))
        if page.next_offset <= offset:
            break
        offset = page.next_offset
        counts.update(each.tags for each in page.messages if each.tags)
        if run.truth("p"):
            print_messages(run, page.messages, run["a"], charset=charset, with_body=run.truth("d"))
    if run.truth("f"):
        for tag, count in counts.most_common():
            run.say(f"Tag: {tag:<30} Count: {count}")


async def _one_queue(run: Run, topic: str, broker_name: str, queue_id: int) -> QueueAtBroker:
    queue = MessageQueue(topic=topic, broker_name=broker_name, queue_id=queue_id)
    address = (await run.brokers_of(topic)).get(broker_name)
    if address is None:
        raise Failed(f"broker {broker_name} has nothing of topic {topic}: mqadmin topicRoute -t {topic} shows who has")
    return QueueAtBroker(queue, address)


@command("Read messages of a topic or queue", TOPIC)
async def consume_message(run: Run) -> None:
    """[-b brokerName=]    name of the broker
    [-c MessageNumber=]    at most so many, default 128
    [-e endTimestamp =]    stored until, ms or yyyy-MM-dd#HH:mm:ss:SSS
    [-g consumerGroup=]    read as this group; its offsets stay
    [-i queueId=]          the queue, with -b
    [-o offset=]           from this offset on, with -i
    [-s beginTimestamp =]  stored from, ms or yyyy-MM-dd#HH:mm:ss:SSS"""
    most = run.number("c", 128)
    _check_consume(run, most)
    if "i" in run:
        place = await _one_queue(run, run["t"], run["b"], run.number("i"))
        first, end = await _limits(run, place, "s", "e")
        await _consume_from(run, place, max(first, run.number("o", 0)), end, most)
        return
    left = most
    for place in await _queues(run, run["t"], run["t"]):
        if run.get("b", place.queue.broker_name) != place.queue.broker_name:
            continue
        first, end = await _limits(run, place, "s", "e")
        if end - first > left:
            run.say(f"The older {left} message of the {place.queue.queue_id} queue will be provided")
        await _consume(run, place, first, min(end, first + left))
        left -= min(left, end - first)
        if not left:
            return


def _check_consume(run: Run, most: int) -> None:
    if most <= 0:
        raise UsageError("Please input a positive messageNumber!")
    if "i" in run and "b" not in run:
        raise UsageError("Please set the brokerName before queueId!")
    if "o" in run and "i" not in run:
        raise UsageError("Please set queueId before offset!")
    now = run.clock.now_ms()
    begin, end = (time_of(run, run[name]) if name in run else None for name in ("s", "e"))
    if begin is not None and begin > now:
        raise UsageError("Please set the beginTimestamp before now!")
    if end is not None and end > now:
        raise UsageError("Please set the endTimestamp before now!")
    if begin is not None and end is not None and begin > end:
        raise UsageError("Please make sure that the beginTimestamp is less than or equal to the endTimestamp")


async def _consume_from(run: Run, place: QueueAtBroker, first: int, end: int, most: int) -> None:
    if first > end:
        run.say(f"{queue_text(place.queue)} no matched msg, offset={first}")
        return
    if end - first > most:
        run.say(f"The oldler {most} message will be provided")
        end = first + most
    await _consume(run, place, first, end)


async def _consume(run: Run, place: QueueAtBroker, offset: int, end: int) -> None:
    while offset < end:
        page = await _page(run, place, offset, end, most=end - offset, group=run.get("g"))
        if not page.messages or page.next_offset <= offset:
            run.say(f"{queue_text(place.queue)} print msg finished. status=NO_NEW_MSG, offset={page.next_offset}")
            return
        offset = page.next_offset
        run.say("Consume ok")
        print_messages(run, page.messages, place.queue.broker_name)
