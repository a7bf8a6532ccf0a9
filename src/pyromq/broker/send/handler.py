"""Sending: requests 10, 310 and 320. Decode, check, build the record, put it; the answer leaves when it is stored."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from ...config import Live
from ...errors import RequestRefused
from ...kernel.records import Placed, count_messages
from ...model.codes import ResponseCode
from ...model.ids import pack_host
from ...model.message import WRAPPED_BATCH, Property, SysFlag
from ...model.names import DLQ_PREFIX, TIMER_TOPIC
from ...model.wire_text import INT_MAX, whole_number
from ...protocol.batch import ENTRY_BYTES, BatchEntry
from ...protocol.bodies.topics import TopicConfig
from ...protocol.frame import FrameLimits
from ...protocol.headers.send import SendMessage
from ...protocol.properties import MAX_PROPERTIES_BYTES, NAME_END, PAIR_END, decode_properties
from ...protocol.record import CRC_PROPERTY_BYTES, Record
from ...protocol.requests import RequestCode
from ...store.files.disk import DiskError
from ...transport.address import parse_address
from ...transport.dispatch import Answer, Reply, Request, RequestOf, await_answer
from ..config import BrokerConfig
from ..intake.intake import Outcome, SendIntake, illegal_batch
from ..intake.message_type import PRIORITY, message_type, takes_plain
from ..intake.put_answers import answer, late_reply
from ..metadata.attributes import CLEANUP_POLICY, QUEUE_TYPE
from ..metadata.saving import NewTopics
from ..stats.counters import PutCounter
from .admission import Admission
from .answers import most_in_batch, place_fields, recall_handle, region_fields
from .checks import Destination, SendChecks, batch_entries, check_batch
from .properties import SPECIAL, TYPED_SPECIAL, Stamp, admitted, having_any, unique_id, without_own
from .type_checks import TypeChecks

_SPECIAL = having_any(SPECIAL)
_ORDER_KEY = f"{Property.SHARDING_KEY}\x01"
_NO_WAIT = f"{Property.WAIT}\x01false\x02"


@dataclass(slots=True)
class _Send:
    request: Request
    header: SendMessage
    config: BrokerConfig
    to: Destination
    given: str  # properties as they came
    unique: str | None = None  # id of the message, as the client or the broker made it
    batch_id: str | None = None  # set for a batch that is kept as one record

    @property
    def wait_s(self) -> float:
        return 0.0 if _NO_WAIT in self.given else self.config.put_wait_s


@dataclass(slots=True, eq=False, repr=False)
class SendHandler:
    """Event loop only."""

    live: Live[BrokerConfig]
    checks: SendChecks
    types: TypeChecks
    intake: SendIntake
    stamp: Stamp
    store_host: bytes
    admit: Admission  # raises RequestRefused(SYSTEM_BUSY) while the broker is overloaded
    count: PutCounter
    new_topics: NewTopics
    frame: FrameLimits  # of our answers
    _batch_messages: int = field(init=False)
    _region: tuple[BrokerConfig, dict[str, str]] = field(init=False)

    def __post_init__(self) -> None:
        self._batch_messages = most_in_batch(self.frame, self.store_host)
        self._region = (self.live.config, region_fields(self.live.config))

    def __call__(self, request: RequestOf[SendMessage, bytes]) -> Answer:
        config = self.live.config
        code = request.command.code
        header = request.header
        self.admit(config, request.arrived, header.timeout_ms)
        try:
            to = self.checks.destination(header, config, request.command.version)
            saving = self.new_topics.saving(to.topic.topic_name)
            if saving is not None:
                return self._when_saved(saving, request)
            send = _Send(request, header, config, to, header.properties or "")
            if header.batch or code == RequestCode.SEND_BATCH_MESSAGE:
                self._batch(send)
            else:
                self._single(send)
        except RequestRefused as refused:
            refused.fields = region_fields(config)  # clients name their trace topic after it, on refusals too
            raise
        return None

    async def _when_saved(self, saving: Awaitable[None], request: Request) -> Reply | None:
        """Send once the new topic is saved: an ack must not be ahead of it. Then all checks are made once more."""
        try:
            await saving
        except DiskError as fault:
            raise RequestRefused(
                f"service not available now, the new topic cannot be kept: {fault}",
                ResponseCode.SERVICE_NOT_AVAILABLE,
            ) from None
        return await await_answer(self(request))

    # --- one message ----------------------------------------------------------------------------------------------

    def _single(self, send: _Send) -> None:
        trace_on = send.config.trace_on
        if not send.request.command.body:
            raise RequestRefused("the message is illegal: its body is empty", ResponseCode.MESSAGE_ILLEGAL)
        if send.to.dead or _SPECIAL.search(send.given) is not None or _must_decode(send.to.topic, send.given):
            properties = self._check_special(send, decode_properties(send.given))
            if not send.to.dead and _is_text_of(send.given, properties):
                stored, send.unique = self.stamp.single(send.given, trace_on)
            else:
                stored, send.unique = self.stamp.changed(properties, trace_on)
            record = self.intake.park(self._record(send, stored), properties)
        else:
            stored, send.unique = self.stamp.single(send.given, trace_on)
            record = self._record(send, stored)
        if record.sys_flag & (SysFlag.TRANSACTION_MASK | WRAPPED_BATCH) and record.topic == send.header.topic:
            raise RequestRefused(
                f"the message is illegal: sysFlag {send.header.sys_flag} is not for a plain message",
                ResponseCode.MESSAGE_ILLEGAL,
            )
        self.intake.put(record, lambda outcome: self._answer(send, record, outcome), send.wait_s)

    def _check_special(self, send: _Send, properties: dict[str, str]) -> Mapping[str, str]:
        """Return the properties, checked against the topic, and changed where Java changes them."""
        topic, config = send.to.topic, send.config
        if send.to.dead:
            return without_own(properties) | {Property.DELAY: "-1"}
        properties = admitted(properties)
        if topic.attributes.get(CLEANUP_POLICY) == "COMPACTION" and not properties.get(Property.KEYS, "").strip():
            raise RequestRefused("Required message key is missing", ResponseCode.MESSAGE_ILLEGAL)
        if config.reject_transaction_message and properties.get(Property.TRAN_MSG, "").lower() == "true":
            raise RequestRefused(
                f"the broker[{config.broker_name}] sending transaction message is forbidden",
                ResponseCode.NO_PERMISSION,
            )
        self.types.check(topic, properties, config)
        self._prioritise(send, properties)
        return properties

    def _prioritise(self, send: _Send, properties: dict[str, str]) -> None:
        """Send a message with a priority to the queue of that number; without a meaning the property goes."""
        priority = properties.get(Property.PRIORITY)
        if priority is None:
            return
        number = whole_number(priority, high=INT_MAX)
        if message_type(properties) != PRIORITY or number is None:
            del properties[Property.PRIORITY]
            return
        topic = send.to.topic
        send.to = Destination(topic, min(number, topic.write_queue_nums - 1))

    # --- batches --------------------------------------------------------------------------------------------------

    def _batch(self, send: _Send) -> None:
        check_batch(send.header, send.given, send.request.command.body, send.config.max_messages_in_batch)
        entries = self.types.check_batch(send.to.topic, lambda: self._entries(send), send.config)
        send.unique = unique_id(send.given)
        if send.to.topic.attributes.get(QUEUE_TYPE) == "BatchCQ" and send.unique is not None:
            self._inner_batch(send)
            return
        size = len(send.request.command.body)
        # Only a large batch can have a message whose properties are too long, or too many messages.
        if size > max_property_bytes(send.config) or size > self._batch_messages * ENTRY_BYTES:
            count, entries = self._counted(send, entries)
            # Java's clients expect the ids of all messages in the answer's header.
            if count > self._batch_messages and not send.request.command.is_oneway:
                raise illegal_batch(
                    f"{count} messages in it, and no answer can carry the ids of more than {self._batch_messages}. "
                    "Send it in parts"
                )
        # A batch has no record of its own; its identity is all that is wanted of its properties.
        record = self._record(send, send.given.encode() if Property.SEND_ID in send.given else b"")
        self.intake.put_batch(record, lambda outcome: self._answer(send, record, outcome), send.wait_s, entries)

    def _counted(self, send: _Send, entries: Sequence[BatchEntry] | None) -> tuple[int, Sequence[BatchEntry] | None]:
        """Return how many messages a batch has, decoded if it takes that. RequestRefused for properties too long."""
        if entries is None and count_messages is not None:
            count = count_messages(send.request.command.body, max_property_bytes(send.config))
            if count >= 0:
                return count, None
        entries = entries or self._entries(send)
        return len(entries), entries

    def _entries(self, send: _Send) -> list[BatchEntry]:
        return batch_entries(send.request.command.body, max_property_bytes(send.config))

    def _inner_batch(self, send: _Send) -> None:
        """Put a batch as one record with one queue entry, as a topic with batch queues keeps it."""
        count = len(self._entries(send))
        if not 0 < count < 1 << 15:
            raise illegal_batch(f"{count} messages in it")
        stored, send.unique = self.stamp.inner_batch(send.given, count, send.config.trace_on)
        send.batch_id = send.unique
        record = self._record(send, stored)
        record.sys_flag |= WRAPPED_BATCH
        self.intake.put(record, lambda outcome: self._answer(send, record, outcome), send.wait_s)

    # --- records and answers --------------------------------------------------------------------------------------

    def _record(self, send: _Send, properties: bytes) -> Record:
        header, topic = send.header, send.to.topic
        limit = max_property_bytes(send.config)
        if len(properties) > limit:
            raise RequestRefused(
                f"the message is illegal: its properties take {len(properties)} bytes, the limit is {limit}",
                ResponseCode.MESSAGE_ILLEGAL,
            )
        return Record(
            topic=topic.topic_name,
            queue_id=send.to.queue_id,
            body=send.request.raw_body,
            properties=properties,
            flag=header.flag,
            sys_flag=header.sys_flag | (SysFlag.MULTI_TAGS if topic.topic_filter_type == "MULTI_TAG" else 0),
            born_timestamp=header.born_timestamp,
            born_host=born_host(send.request.peer.address),
            store_host=self.store_host,
            reconsume_times=header.reconsume_times or 0,
        )

    def _answer(self, send: _Send, record: Record, outcome: Outcome) -> None:
        if self._region[0] is not send.config:
            self._region = (send.config, region_fields(send.config))
        fields = self._region[1].copy()
        if outcome.refusal is not None:
            reply = Reply(outcome.refusal.code, remark=str(outcome.refusal), fields=fields)
        else:
            fields |= place_fields(outcome.places, self.store_host)
            if record.topic != send.to.topic.topic_name:
                fields["queueId"] = str(send.to.queue_id)  # it waits elsewhere, the client asked for this one
            if not outcome.repeat:
                self._count_put(send, record, outcome.places)
                if send.to.dead:
                    group = record.topic.removeprefix(DLQ_PREFIX)
                    self.types.counters.events.dead[group, send.header.topic] += 1
            if send.unique is not None:
                fields["transactionId"] = send.unique
            if send.batch_id is not None:
                fields["batchUniqId"] = send.batch_id
            if record.topic == TIMER_TOPIC and send.unique is not None:
                topic, broker_name = send.to.topic.topic_name, send.config.broker_name
                fields["recallHandle"] = recall_handle(topic, broker_name, record, send.unique)
            reply = Reply(fields=fields) if outcome.late is None else late_reply(send.config, fields, outcome.late)
        answer(send.request, reply)

    def _count_put(self, send: _Send, record: Record, places: Sequence[Placed]) -> None:
        first = places[0]
        if len(places) == 1:
            messages, size = first.messages, first.size
        else:
            messages, size = len(places), sum([placed.size for placed in places])
        self.count(record.topic, record.queue_id, messages, size)
        if _ORDER_KEY in send.given and record.topic == send.header.topic:
            self.types.counters.put_typed(record.topic, "fifo", messages, size)


def _must_decode(topic: TopicConfig, properties: str) -> bool:
    """Return whether the topic's attributes may object to the properties. Plain messages are fine with most."""
    if not topic.attributes:
        return False
    return not takes_plain(topic.attributes) or any(name in properties for name in TYPED_SPECIAL)


def _is_text_of(text: str, properties: Mapping[str, str]) -> bool:
    """Return whether `text` holds exactly these properties, none dropped since it was decoded: it is stored as is."""
    count = len(properties)
    return text.count(NAME_END) == count == text.count(PAIR_END) and text.endswith(PAIR_END)


def max_property_bytes(config: BrokerConfig) -> int:
    return MAX_PROPERTIES_BYTES - (CRC_PROPERTY_BYTES if config.whole_record_crc else 0)


@lru_cache(maxsize=1 << 16)
def born_host(address: str) -> bytes:
    """Return a peer's address as a record holds it. What is no IP address (in-memory streams) is stored as nothing."""
    host, port = parse_address(address)
    try:
        return pack_host(host, port)
    except ValueError:
        return bytes(8)
