"""Single messages, found by id, key, place or trace; handed to a consumer or sent again."""

from __future__ import annotations

from typing import Any

from ...admin import cluster, messages
from ...model.codes import ResponseCode
from ...model.group import ConsumeType
from ...model.ids import host_text, parse_offset_message_id
from ...model.message import Property, StoredMessage
from ...model.message_trace import Consumed, Sent, Traced, is_about
from ...model.names import TRACE_TOPIC
from ...protocol.headers.clients import ConsumeMessageDirectly
from ...protocol.requests import RequestCode
from ...protocol.trace import TraceError, decode_trace
from ..command import Failed, Run, command, failed
from ..groups.progress import members_of
from ..options import ROUTE_BY, TOPIC, UsageError
from ..printing import Columns, when_s
from .send import resend, result_text
from .text import consumed_text, show

NOTHING = "query message by key finished, but no message."
HOUR_MS = 3_600_000
KEYED = Columns("{#Message ID:<50} {#QID:>4} {#Offset:>40} {#IndexKey:<200}")
TRACED = "{:<10} {:<20} {:<20} {:<20} {:<10} {:<10}"
MOST_BY_ID = 32
BODY = "[-f bodyFormat=]  print the body too, in this charset"
CLIENT = "[-d clientId=]  hand the message to this member, with -g"
GROUP = "[-g consumerGroup=]  the group of the member of -d"


Found = tuple[str, StoredMessage]  # a message and its broker


async def _by_id(run: Run, topic: str, message_id: str) -> Found:
    """Return the message at the place that an offset id names, else the one with that unique id, and its broker."""
    try:
        place = parse_offset_message_id(message_id)
    except ValueError:
        return (await _by_unique_id(run, topic, message_id))[0]
    # Unique ids look the same, and would send us to any machine: only brokers are asked.
    address, known = host_text(place.host), {each.address for each in await cluster.brokers(run.calls)}
    if address in known and (found := await messages.at_position(run.calls, address, place.physical_offset, topic)):
        return address, found
    return (await _by_unique_id(run, topic, message_id))[0]


async def _by_unique_id(run: Run, topic: str, message_id: str, **times: int) -> list[Found]:
    """Return all messages with the id, the oldest first; several where a producer sent it again."""
    known = await _indexed(run, topic, message_id, run.get("c"), most=MOST_BY_ID, is_id=True, **times)
    found = [each for each in known if each[1].unique_id == message_id]
    if not found:
        raise failed(ResponseCode.NO_MESSAGE, NOTHING)
    return sorted(found, key=lambda pair: pair[1].store_timestamp)


async def _indexed(run: Run, topic: str, key: str, route_topic: str, **wanted: Any) -> list[Found]:
    """Return what the indexes of the topic's brokers have under the key; `wanted` as of `messages.by_key`."""
    found = []
    for address in (await run.brokers_of(route_topic or topic)).values():
        found += [(address, each) for each in await messages.by_key(run.calls, address, topic, key, **wanted)]
    return found


def _times(run: Run, begin: str, end: str) -> dict[str, int]:
    return {"begin_ms": run.number(begin, 0), "end_ms": run.number(end, messages.FOR_EVER_MS)}


@command("Show messages by id; hand them to a consumer, or send them again", ROUTE_BY, CLIENT, BODY, GROUP, TOPIC)
async def query_msg_by_id(run: Run) -> None:
    """-i msgId=       ids, with commas
    [-s sendMessage=]  true: send the message again
    [-u unitName=]     unit of the producer, with -s"""
    charset = run.charset("f")
    for message_id in run.words("i"):
        address, message = await _by_id(run, run["t"], message_id)
        if "g" in run and "d" in run:
            await _hand_over(run, address, message)
        elif run.truth("s"):
            run.print(f"prepare resend msg. originalMsgId={message_id}")
            run.say(result_text(await resend(run, message, run.get("u"))))
        elif "s" not in run:
            await show(run, address, message, charset=charset)


async def _hand_over(run: Run, address: str, message: StoredMessage) -> None:
    group, client_id = run["g"], run["d"]
    brokers = await run.brokers_of_group(group)
    members = await members_of(run, group, brokers)
    if members is None or members.consume_type is not ConsumeType.PASSIVELY:
        raise Failed(f"this {client_id} client is not push consumer ,not support direct push ")
    header = ConsumeMessageDirectly(
        consumer_group=group, client_id=client_id, msg_id=message.offset_id, topic=message.topic
    )
    run.say(consumed_text((await run.ask(address, RequestCode.CONSUME_MESSAGE_DIRECTLY, header)).body))


@command("Show a message by the id that its producer gave; hand it to a consumer", ROUTE_BY, CLIENT, GROUP, TOPIC)
async def query_msg_by_unique_key(run: Run) -> None:
    """[-a showAll]  all that have it, at most 32
    [-e endTime=]    stored before, ms
    -i msgId=        the id
    [-s startTime=]  stored after, ms"""
    found = await _by_unique_id(run, run["t"], run["i"], **_times(run, "s", "e"))
    if "g" in run and "d" in run:
        await _hand_over(run, *found[0])
        return
    for number, (address, message) in enumerate(found if "a" in run else found[:1]):
        await show(run, address, message, with_place=False, number=number)


@command("Messages with a key", ROUTE_BY, TOPIC)
async def query_msg_by_key(run: Run) -> None:
    """[-b beginTimestamp=]  stored after, ms
    [-e endTimestamp=]       stored before, ms
    -k msgKey=               the key
    [-l lastKey=]            go on behind this index key, of brokers with a RocksDB index
    [-m maxNum=]             at most so many, default 64
    [-p keyType=]            K: keys, the default; T: tags"""
    key, kind, most = run["k"], run.get("p", "K"), run.number("m", 64)
    if kind not in ("K", "T"):
        raise UsageError(f"-p {kind}: K (keys) or T (tags)")
    wanted = {"most": most, "index_type": kind, "last_key": run.get("l") or None}
    known = await _indexed(run, run["t"], key, run.get("c"), **wanted, **_times(run, "b", "e"))
    found = [each for _, each in known if key in (each.keys if kind == "K" else [each.tags])]
    if not found:
        raise failed(ResponseCode.NO_MESSAGE, NOTHING)
    run.say(KEYED.head)
    for each in found:
        hour = each.store_timestamp // HOUR_MS * HOUR_MS
        # The key as an index in RocksDB would have it.
        index_key = f"{hour}@{each.topic}@{kind}@{key}@{each.message_id}@{each.physical_offset}"
        run.say(KEYED.format(each.message_id, each.queue_id, each.queue_offset, index_key))


@command("Show the message at an offset of a queue", BODY, TOPIC)
async def query_msg_by_offset(run: Run) -> None:
    """-b brokerName=  name of the broker
    -i queueId=        the queue
    -o offset=         the offset
    [-r routeTopic=]   topic whose route is used"""
    charset = run.charset("f")
    address = (await run.brokers_of(run.get("r") or run["t"])).get(run["b"])
    if address is None:
        raise Failed(f"the broker name {run['b']} has nothing of topic {run.get('r') or run['t']}")
    wanted = run.number("o")
    page = await messages.read_queue(run.calls, address, run["t"], run.number("i"), wanted, most=1)
    found = [each for each in page.messages if each.queue_offset >= wanted]
    if not found:
        run.warn(f"no message at {wanted}: the queue has {page.first} to {page.end - 1}")
        return
    await show(run, address, with_limits(found[0], page), charset=charset)


def with_limits(message: StoredMessage, page: messages.Page) -> StoredMessage:
    """Add the limits of the queue to the message's properties, as clients do with what they pulled."""
    limits = {Property.MIN_OFFSET: str(page.first), Property.MAX_OFFSET: str(page.end)}
    message.properties = message.properties | limits
    return message


@command("What clients traced of a message", f"[-t traceTopic=]  where traces are, default {TRACE_TOPIC}")
async def query_msg_trace_by_id(run: Run) -> None:
    """[-b beginTimestamp=]  traced after, ms
    [-c maxNum=]             at most so many trace messages, default 64
    [-e endTimestamp=]       traced before, ms
    -i msgId=                the message's id"""
    events = await _traced(run, run.get("t") or TRACE_TOPIC, run["i"])
    for host, event in events:
        if isinstance(event, Sent):
            run.say(TRACED.format("#Type", "#ProducerGroup", "#ClientHost", "#SendTime", "#CostTimes", "#Status"))
            run.say(_trace_row("Pub", host, event), "")
    consumed = [(host, event) for host, event in events if isinstance(event, Consumed)]
    for group in dict.fromkeys(event.group for _, event in consumed):
        run.say(TRACED.format("#Type", "#ConsumerGroup", "#ClientHost", "#ConsumerTime", "#CostTimes", "#Status"))
        for host, event in consumed:
            if event.group == group:
                run.say(_trace_row("Sub", host, event))
        run.say()


def _trace_row(kind: str, host: str, event: Sent | Consumed) -> str:
    status = "success" if event.success else "failed"
    return TRACED.format(kind, event.group, host, when_s(event.time_ms), f"{event.cost_ms}ms", status)


async def _traced(run: Run, trace_topic: str, message_id: str) -> list[tuple[str, Traced]]:
    """Return the events of the message, each with the address of the client that wrote it."""
    found: list[tuple[str, Traced]] = []
    known = await _indexed(run, trace_topic, message_id, "", most=run.number("c", 64), **_times(run, "b", "e"))
    if not known:
        raise failed(ResponseCode.NO_MESSAGE, NOTHING)
    for _, message in known:
        host = host_text(message.born_host).rpartition(":")[0]
        try:
            found += [(host, event) for event in decode_trace(message.body) if is_about(event, message_id)]
        except TraceError as fault:  # anybody may write to the topic
            run.warn(f"{message.message_id} is no trace: {fault}")
    return found
