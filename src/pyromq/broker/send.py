"""Sending: requests 10, 310 and 320. Decode, check, build the record, put it, answer.

The answer leaves at once under ASYNC_FLUSH; under SYNC_FLUSH a message that waits for the disk costs a task.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from ..config import Live
from ..errors import ProtocolError, RequestRefused
from ..kernel.records import Placed
from ..model.codes import RequestCode, ResponseCode
from ..model.ids import offset_message_id, pack_host
from ..model.message import WRAPPED_BATCH, Property, SysFlag
from ..model.names import MAX_TOPIC, is_retry
from ..protocol.batch import decode_batch
from ..protocol.bodies.topics import TopicConfig
from ..protocol.headers.send import SendMessage, SendMessageV2
from ..protocol.properties import MAX_PROPERTIES_BYTES, decode_properties
from ..protocol.record import CRC_PROPERTY_BYTES, Record
from ..transport.address import parse_address
from ..transport.dispatch import Answer, Reply, Request
from .config import BrokerConfig
from .intake import Intake
from .message_type import PRIORITY, message_type, type_fault
from .metadata.attributes import CLEANUP_POLICY, QUEUE_TYPE
from .send_checks import Destination, SendChecks
from .stamp import Stamp, unique_id

# Properties that make a message more than plain: where none of them is found, the text need not be taken apart.
_SPECIAL = re.compile(
    "(?:^|\x02)(?:"
    + "|".join(
        (
            Property.DELAY,
            Property.TIMER_DELAY_SEC,
            Property.TIMER_DELAY_MS,
            Property.TIMER_DELIVER_MS,
            Property.TRAN_MSG,
            Property.LITE_TOPIC,
            Property.PRIORITY,
            Property.INNER_NUM,
        )
    )
    + ")\x01"
)
_NO_WAIT = f"{Property.WAIT}\x01false\x02"

# Called with topic, queue, messages and bytes of everything that was stored.
PutCounter = Callable[[str, int, int, int], None]


@dataclass(slots=True)
class _Send:
    """One request on its way."""

    header: SendMessage
    body: bytes
    config: BrokerConfig
    to: Destination
    born_host: bytes


class SendHandler:
    """Event loop only."""

    def __init__(
        self,
        live: Live[BrokerConfig],
        checks: SendChecks,
        intake: Intake,
        stamp: Stamp,
        store_host: bytes,
        admit: Callable[[BrokerConfig], None] = lambda config: None,
        count: PutCounter = lambda topic, queue_id, messages, size: None,
    ) -> None:
        """`admit` raises RequestRefused(SYSTEM_BUSY) while the broker is overloaded."""
        self._live = live
        self._checks = checks
        self._intake = intake
        self._stamp = stamp
        self._store_host = store_host
        self._admit = admit
        self._count = count

    def __call__(self, request: Request) -> Answer:
        config = self._live.config
        kind = SendMessage if request.command.code == RequestCode.SEND_MESSAGE else SendMessageV2
        header = request.header(kind)
        self._admit(config)
        try:
            to = self._checks.destination(header, config, request.command.version)
            send = _Send(header, request.body, config, to, born_host(request.peer.address))
            if header.batch or request.command.code == RequestCode.SEND_BATCH_MESSAGE:
                return self._batch(send)
            return self._single(send)
        except RequestRefused as refused:
            refused.fields = self._region(config)  # clients name their trace topic after it, on refusals too
            raise

    # --- one message ----------------------------------------------------------------------------------------------

    def _single(self, send: _Send) -> Answer:
        header, config, topic = send.header, send.config, send.to.topic
        given = header.properties or ""
        if not send.body:
            raise RequestRefused("the message is illegal: its body is empty", ResponseCode.MESSAGE_ILLEGAL)
        special = send.to.dead or topic.attributes or _SPECIAL.search(given) is not None
        if special:
            properties = self._look(send, decode_properties(given))
            stored, unique = self._stamp.changed(properties, config.trace_on)
        else:
            stored, unique = self._stamp.single(given, config.trace_on)
        record = self._record(send, send.body, stored)
        if record.sys_flag & (SysFlag.TRANSACTION_MASK | WRAPPED_BATCH) and not special:
            raise RequestRefused(
                f"the message is illegal: sysFlag {header.sys_flag} without the properties that belong to it",
                ResponseCode.MESSAGE_ILLEGAL,
            )
        if special:
            record = self._intake.park(record, properties)
        placed = self._intake.put(record)
        self._count(record.topic, record.queue_id, placed.messages, placed.size)
        answer = self._answer(placed.position, record.queue_id, placed.queue_offset, unique, config)
        return self._reply(answer, placed.end, given, config)

    def _look(self, send: _Send, properties: dict[str, str]) -> Mapping[str, str]:
        """What only some messages have: checked against the topic, and changed where Java changes it."""
        topic = send.to.topic
        if send.to.dead:
            return properties | {Property.DELAY: "-1"}
        if topic.attributes.get(CLEANUP_POLICY) == "COMPACTION" and not properties.get(Property.KEYS, "").strip():
            raise RequestRefused("Required message key is missing", ResponseCode.MESSAGE_ILLEGAL)
        if Property.INNER_NUM in properties:
            raise RequestRefused(
                f"the message is illegal: {Property.INNER_NUM} is for batches", ResponseCode.MESSAGE_ILLEGAL
            )
        if send.config.reject_transaction_message and properties.get(Property.TRAN_MSG, "").lower() == "true":
            raise RequestRefused(
                f"the broker[{send.config.broker_name}] sending transaction message is forbidden",
                ResponseCode.NO_PERMISSION,
            )
        if send.config.enforce_message_type and not is_retry(topic.topic_name):
            fault = type_fault(topic.topic_name, topic.attributes, properties)
            if fault is not None:
                raise RequestRefused(fault, ResponseCode.MESSAGE_ILLEGAL)
        self._prioritise(send, properties)
        return properties

    def _prioritise(self, send: _Send, properties: dict[str, str]) -> None:
        """A message with a priority goes to the queue of that number; without a meaning the property goes."""
        priority = properties.get(Property.PRIORITY)
        if priority is None:
            return
        if message_type(properties) != PRIORITY or not priority.isdigit():
            del properties[Property.PRIORITY]
            return
        topic = send.to.topic
        send.to = Destination(topic, min(int(priority), topic.write_queue_nums - 1))

    # --- batches --------------------------------------------------------------------------------------------------

    def _batch(self, send: _Send) -> Answer:
        header, topic = send.header, send.to.topic
        given = header.properties or ""
        if is_retry(header.topic):
            raise RequestRefused(
                f"batch request does not support retry group {header.topic}", ResponseCode.MESSAGE_ILLEGAL
            )
        if len(header.topic) > MAX_TOPIC:
            raise RequestRefused(f"message topic length too long {len(header.topic)}", ResponseCode.MESSAGE_ILLEGAL)
        if _SPECIAL.search(given) is not None:
            raise RequestRefused(
                "the batch is illegal: delay, timer and transaction properties are for single messages",
                ResponseCode.MESSAGE_ILLEGAL,
            )
        unique = unique_id(given)
        if topic.attributes.get(QUEUE_TYPE) == "BatchCQ" and unique is not None:
            return self._inner_batch(send, given)
        record = self._record(send, send.body, b"")
        places = self._put_batch(record)
        ids = ",".join(offset_message_id(self._store_host, placed.position) for placed in places)
        self._count(record.topic, record.queue_id, len(places), sum(placed.size for placed in places))
        answer = self._answer_fields(ids, record.queue_id, places[0].queue_offset, unique, send.config)
        return self._reply(answer, places[-1].end, given, send.config)

    def _put_batch(self, record: Record) -> list[Placed]:
        try:
            places = self._intake.put_batch(record)
        except ProtocolError as fault:
            raise RequestRefused(f"the batch is illegal: {fault}", ResponseCode.MESSAGE_ILLEGAL) from None
        if not places:
            raise RequestRefused("the batch is illegal: there is no message in it", ResponseCode.MESSAGE_ILLEGAL)
        return places

    def _inner_batch(self, send: _Send, given: str) -> Answer:
        """A topic with batch queues keeps the batch as one record, and one queue entry stands for all of it."""
        try:
            count = len(decode_batch(send.body))
        except ProtocolError as fault:
            raise RequestRefused(f"the batch is illegal: {fault}", ResponseCode.MESSAGE_ILLEGAL) from None
        if not 0 < count < 1 << 15:
            raise RequestRefused(f"the batch is illegal: {count} messages in it", ResponseCode.MESSAGE_ILLEGAL)
        stored, unique = self._stamp.inner_batch(given, count, send.config.trace_on)
        record = self._record(send, send.body, stored)
        record.sys_flag |= WRAPPED_BATCH
        placed = self._intake.put(record)
        self._count(record.topic, record.queue_id, count, placed.size)
        answer = self._answer(placed.position, record.queue_id, placed.queue_offset, unique, send.config)
        answer["batchUniqId"] = unique
        return self._reply(answer, placed.end, given, send.config)

    # --- records and answers --------------------------------------------------------------------------------------

    def _record(self, send: _Send, body: bytes, properties: bytes) -> Record:
        header, topic = send.header, send.to.topic
        room = MAX_PROPERTIES_BYTES - (CRC_PROPERTY_BYTES if send.config.whole_record_crc else 0)
        if len(properties) > room:
            raise RequestRefused(
                f"the message is illegal: its properties take {len(properties)} bytes, the limit is {room}",
                ResponseCode.MESSAGE_ILLEGAL,
            )
        return Record(
            topic=topic.topic_name,
            queue_id=send.to.queue_id,
            body=body,
            properties=properties,
            flag=header.flag,
            sys_flag=_sys_flag(header, topic),
            born_timestamp=header.born_timestamp,
            born_host=send.born_host,
            store_host=self._store_host,
            reconsume_times=header.reconsume_times or 0,
        )

    def _answer(self, position: int, queue_id: int, offset: int, unique: str, config: BrokerConfig) -> dict[str, str]:
        return self._answer_fields(offset_message_id(self._store_host, position), queue_id, offset, unique, config)

    def _answer_fields(
        self, ids: str, queue_id: int, offset: int, unique: str | None, config: BrokerConfig
    ) -> dict[str, str]:
        fields = self._region(config)
        fields["msgId"] = ids
        fields["queueId"] = str(queue_id)
        fields["queueOffset"] = str(offset)
        if unique is not None:
            fields["transactionId"] = unique
        return fields

    def _region(self, config: BrokerConfig) -> dict[str, str]:
        return {"MSG_REGION": config.region_id, "TRACE_ON": "true" if config.trace_on else "false"}

    def _reply(self, fields: dict[str, str], end: int, properties: str, config: BrokerConfig) -> Answer:
        if not self._intake.waits_for_disk or _NO_WAIT in properties:
            return Reply(fields=fields)
        return self._reply_when_safe(fields, end, config.sync_flush_timeout / 1000)

    async def _reply_when_safe(self, fields: dict[str, str], end: int, timeout_s: float) -> Reply:
        if await self._intake.safe(end, timeout_s):
            return Reply(fields=fields)
        return Reply(
            ResponseCode.FLUSH_DISK_TIMEOUT,
            remark=f"stored, but not on disk within {timeout_s:g} s (syncFlushTimeout)",
            fields=fields,
        )


def _sys_flag(header: SendMessage, topic: TopicConfig) -> int:
    return header.sys_flag | (SysFlag.MULTI_TAGS if topic.topic_filter_type == "MULTI_TAG" else 0)


@lru_cache(maxsize=1 << 16)
def born_host(address: str) -> bytes:
    """A peer's address as a record holds it. What is no IP address (in-memory streams) is stored as nothing."""
    host, port = parse_address(address)
    try:
        return pack_host(host, port)
    except ValueError:
        return bytes(8)
