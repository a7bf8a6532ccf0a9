"""Messages as the Java tool shows them: one line with everything, or a line per field; and who has consumed them."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from ...admin import offsets, topics
from ...client.errors import Error
from ...model.codes import ResponseCode
from ...model.group import ConsumeType, MessageModel
from ...model.ids import host_text
from ...model.java_hash import unsigned_hash
from ...model.message import Property, StoredMessage, SysFlag
from ...protocol.bodies.connections import ConsumeMessageDirectlyResult, ConsumerConnection
from ..command import Failed, Run
from ..files import write_private
from ..groups.progress import members_of
from ..printing import as_line, java, java_object, when

BUCKETS = 128  # of the map that Java decodes properties into


def property_text(properties: Mapping[str, str]) -> str:
    """Return the properties in the order of Java's hash map, so that lines compare with those of the Java tool."""

    def bucket(name: str) -> int:
        code = unsigned_hash(name)
        return (code ^ code >> 16) % BUCKETS

    return java({name: properties[name] for name in sorted(properties, key=bucket)})


def line_of(message: StoredMessage, broker_name: str) -> str:
    """Return MessageExt's toString()."""
    body = ", ".join(str(byte - 256 if byte > 127 else byte) for byte in message.body)
    return (
        f"MessageExt [brokerName={broker_name}, queueId={message.queue_id}, storeSize={message.store_size}, "
        f"queueOffset={message.queue_offset}, sysFlag={_plain_flag(message)}, bornTimestamp={message.born_timestamp}, "
        f"bornHost=/{host_text(message.born_host)}, storeTimestamp={message.store_timestamp}, "
        f"storeHost=/{host_text(message.store_host)}, msgId={message.offset_id}, "
        f"commitLogOffset={message.physical_offset}, bodyCRC={message.body_crc}, "
        f"reconsumeTimes={message.reconsume_times}, "
        f"preparedTransactionOffset={message.prepared_transaction_offset}, "
        f"toString()=Message{{topic='{message.topic}', flag={message.flag}, "
        f"properties={property_text(message.properties)}, body=[{body}], "
        f"transactionId='{message.properties.get(Property.TRANSACTION_ID, 'null')}'}}]"
    )


def print_messages(
    run: Run, messages: list[StoredMessage], broker_name: str, *, charset: str = "UTF-8", with_body: bool = True
) -> None:
    """Print a line each; the bodies at their ends keep their own line ends, as Java's tool prints them."""
    for message in messages:
        body = message.body.decode(charset, "replace") if with_body else "NOT PRINT BODY"
        run.print(as_line(f"MSGID: {message.message_id} {line_of(message, broker_name)} BODY: ") + body + "\n")


def _plain_flag(message: StoredMessage) -> int:
    """Return the flag of the plain body that is shown; the kind of compression stays."""
    return message.sys_flag & ~SysFlag.COMPRESSED


async def show(
    run: Run, address: str, message: StoredMessage, *, with_place: bool = True, number: int = 0, charset: str = ""
) -> None:
    """Print a line per field, the body into a file, and a line per group that consumes the topic on this broker."""
    keys, tags = (message.properties.get(name, "null") for name in (Property.KEYS, Property.TAGS))
    rows = {
        "OffsetID:": message.offset_id,
        "Topic:": message.topic,
        "Tags:": f"[{tags}]",
        "Keys:": f"[{keys}]",
        "Queue ID:": message.queue_id,
        "Queue Offset:": message.queue_offset,
        "CommitLog Offset:": message.physical_offset,
        "Reconsume Times:": message.reconsume_times,
        "Born Timestamp:": when(message.born_timestamp),
        "Store Timestamp:": when(message.store_timestamp),
        "Born Host:": host_text(message.born_host),
        "Store Host:": host_text(message.store_host),
        "System Flag:": _plain_flag(message),
        "Properties:": property_text(message.properties),
        "Message Body Path:": _body_file(run, message, number),
    }
    if not with_place:
        del rows["OffsetID:"]
    for name, value in rows.items():
        run.say(f"{name:<20} {value}")
    if charset:
        run.print(f"{'Message Body:':<20} {message.body.decode(charset, 'replace')}\n")
    run.say("", "")
    run.say_all(await tracks_of(run, address, message) or ["WARN: No Consumer"])


def _body_file(run: Run, message: StoredMessage, number: int) -> Path | str:
    """Write the body into a file, where other programs find it. The message is shown also if that fails."""
    name = f"{message.message_id}_{number}" if number else message.message_id
    try:
        return write_private(Path(tempfile.gettempdir()), ("rocketmq", "msgbodys"), name, message.body)
    except (Failed, OSError) as fault:
        run.warn(f"the body is in no file: {fault}")
        return "null"


# --- who has consumed it ----------------------------------------------------------------------------------------------


async def tracks_of(run: Run, address: str, message: StoredMessage) -> list[str]:
    """Return a line per group that consumes the topic on the message's broker: whether it has passed this message."""
    lines = []
    for group in await topics.groups(run.calls, address, message.topic):
        kind, fault = await _track(run, address, message, group)
        lines.append(f"MessageTrack [consumerGroup={group}, trackType={kind}, exceptionDesc={fault}]")
    return lines


async def _track(run: Run, address: str, message: StoredMessage, group: str) -> tuple[str, str]:
    try:
        members = await members_of(run, group, [address])
        if members is None:
            code = int(ResponseCode.CONSUMER_NOT_ONLINE)
            return "NOT_ONLINE", f"CODE:{code} DESC:the consumer group[{group}] not online"
        if members.consume_type is ConsumeType.ACTIVELY:
            return "PULL", "null"
        if members.message_model is MessageModel.BROADCASTING:
            return "CONSUME_BROADCASTING", "null"
        stats = await offsets.progress(run.calls, address, group, message.topic)
    except Error as fault:
        return "UNKNOWN", str(fault)
    of_queue = [at for queue, at in stats.offset_table.items() if queue.queue_id == message.queue_id]
    if not any(at.consumer_offset > message.queue_offset for at in of_queue):
        return "NOT_CONSUME_YET", "null"
    return ("CONSUMED" if _wants(members, message) else "CONSUMED_BUT_FILTERED"), "null"


def _wants(members: ConsumerConnection, message: StoredMessage) -> bool:
    wanted = members.subscription_table.get(message.topic)
    return wanted is None or not wanted.tags_set or bool({"*", message.tags}.intersection(wanted.tags_set))


def consumed_text(result: ConsumeMessageDirectlyResult) -> str:
    layout = "ConsumeMessageDirectlyResult [order, autoCommit, consumeResult, remark, spentTimeMills]"
    return java_object(layout, result, remark=result.remark or None)
