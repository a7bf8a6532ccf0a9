"""The broker's side of a native kernel: which sends need no look, and whether anything may be appended.

A verdict ("plain messages for this topic are allowed") is given per listener and topic, and depends on settings and
topic alone. Each change of one of them (permission, type, attributes, deletion, a setting) revokes it before anything
else can run. Disk, overload and messages that Python has gathered are in the kernel's gate; where that is closed it
asks here (`admit`) before each buffer's first append. Where requests must be signed, the guard before the feeds
(`broker/wiring/guarding.py`) lets none through that its sender may not send. Event loop only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...config import Live
from ...errors import RequestRefused
from ...kernel.choice import native
from ...kernel.python import feeds as python_feeds
from ...kernel.sends import Detour, Grant, SendSettings
from ...kernel.state import Gate, QueueTail, time_source
from ...model.codes import ResponseCode
from ...model.message import Property
from ...model.names import is_retry
from ...protocol.command import Command, Encoding, encode_header
from ...protocol.frame import MOST_HEADER_BYTES, FrameLimits, decode_frames, encode_frame
from ...protocol.record import CRC_NAME
from ...protocol.requests import RequestCode
from ...store.queues.consume_queue import ConsumeQueue
from ...transport.connection.pending_replies import Passage, ReplyTimeout
from ...transport.dispatch import Reply
from ...transport.limits import Limits
from ..config import BrokerConfig
from ..intake.intake import LogAccess, PutStatus
from ..intake.message_type import takes_kind, takes_plain
from ..intake.put_answers import late_reply
from ..stats.counters import Counters
from .answers import most_in_batch, region_fields
from .handler import SendHandler, born_host, max_property_bytes
from .properties import RESERVED, SPECIAL, TYPED_SPECIAL

_OPAQUE = 1_999_999_999  # stands for the request's own in a template
_OWN_FIELDS = ("msgId", "queueId", "queueOffset", "transactionId")
_KERNEL_FIELDS = 19  # of a send, at most: 14, four of a signature, and a time-out
_OWN_ANSWERS = FrameLimits(frame_bytes=(1 << 31) - 1, header_bytes=MOST_HEADER_BYTES)  # we made them, however long


@dataclass(frozen=True, slots=True)
class Sending:
    """The parts that a send goes through in Python, which a verdict stands for."""

    handler: SendHandler
    access: LogAccess
    counters: Counters
    gate: Gate
    limits: Limits
    detours: Callable[[BrokerConfig], Sequence[tuple[str, Detour]]]  # that messages of each type may take


class Verdicts:
    """One listener's. Implements `kernel.sends.SendHost`."""

    def __init__(self, parts: Sending, module: Any) -> None:
        self._parts = parts
        self.module = module
        self.kernel = module.SendFeed(self, parts.access.store.appender, parts.gate, time_source(parts.access.clock))
        self._use(parts.handler.live.config)
        parts.handler.live.watch(self._use)
        parts.handler.checks.topics.watch(self._note_topic)
        parts.counters.sources.append(self.settle)
        parts.access.intake.times.sources.append(self.settle)

    # --- what the kernel asks -------------------------------------------------------------------------------------

    def born_host(self, address: str) -> bytes:
        return born_host(address)

    def judge(self, topic: bytes) -> Grant | None:
        handler, config = self._parts.handler, self._parts.handler.live.config
        name = topic.decode("ascii", "replace")
        found = handler.checks.standing(name, config)
        if found is None or found.topic_filter_type != "SINGLE_TAG" or is_retry(name) or name in handler.new_topics:
            return None
        if config.start_accept_send_request_time_stamp or config.is_slave:
            return None  # depends on the time; or nobody sends to a slave
        detours = frozenset(detour.name for kind, detour in self._detours if takes_kind(found.attributes, kind))
        takes_plain_ones = takes_plain(found.attributes)
        if not takes_plain_ones and not detours:
            return None
        grant: Grant = self.module.Grant(
            name,
            max(found.write_queue_nums, found.read_queue_nums),
            bool(found.attributes),
            takes_plain_ones,
            detours,
        )
        return grant

    def admit(self) -> bool:
        handler, access = self._parts.handler, self._parts.access
        try:
            handler.admit(handler.live.config, access.clock.monotonic())
        except RequestRefused:
            return False  # Python says it to each
        access.intake.flush()  # what came before stays before
        return True

    def queue(self, topic: str, queue_id: int) -> QueueTail | None:
        queue = self._parts.access.store.queues.get(topic, queue_id)
        return queue.tail if isinstance(queue, ConsumeQueue) else None

    def note_slow(self, seconds: float, messages: int) -> None:
        self._parts.access.intake.times.note(seconds, messages)

    def settle(self) -> None:
        """Add what the kernel has counted for itself to the statistics: before anybody reads them."""
        counts, quick = self.kernel.take_counts()
        for count in counts:
            self._parts.counters.put_by_kernel(count)
        if quick:
            self._parts.access.intake.times.note(0.0, quick)

    # --- what revokes verdicts ------------------------------------------------------------------------------------

    def _use(self, config: BrokerConfig) -> None:
        self._detours = self._parts.detours(config)
        self.kernel.use(_settings(self._parts, config, [detour for _, detour in self._detours]))

    def _note_topic(self, name: str) -> None:
        self.kernel.revoke(name.encode())


def kernel_verdicts(parts: Sending) -> Verdicts | None:
    """Return the verdicts of one listener; None where limits are so low that only the handlers know them."""
    if parts.limits.frame.header_fields < _KERNEL_FIELDS:
        return None
    return Verdicts(parts, native() or python_feeds)


def reply_timeout(live: Live[BrokerConfig], status: PutStatus) -> ReplyTimeout:
    """Return how long answers of the kernel wait for disk and slaves, by the settings at the time of the send."""

    def late(position: int, answers: bytes) -> bytes:
        return _said_late(live.config, answers, status(position) or ResponseCode.FLUSH_DISK_TIMEOUT)

    return ReplyTimeout(lambda: live.config.put_wait_s, late)


def passage(live: Live[BrokerConfig], readable: Callable[[], int], status: PutStatus) -> Passage:
    """Return how answers leave where what they say has become readable although slaves lack it."""

    def judged(position: int, answers: bytes) -> bytes:
        code = status(position)
        return answers if code == ResponseCode.SUCCESS else _said_late(live.config, answers, code)

    return Passage(readable, judged)


def _said_late(config: BrokerConfig, answers: bytes, code: ResponseCode) -> bytes:
    commands, _, _ = decode_frames(answers, _OWN_ANSWERS)
    return b"".join(encode_frame(_late(one, config, code)) for one in commands)


def _late(answer: Command, config: BrokerConfig, code: ResponseCode) -> Command:
    """Return what is said instead. Popped messages leave as they are: they are handed out, whatever the disk does."""
    return answer if "popTime" in answer.fields else late_reply(config, answer.fields, code).to_command(answer)


def _settings(parts: Sending, config: BrokerConfig, detours: Sequence[Detour]) -> SendSettings:
    limits = parts.limits
    special = [*SPECIAL, *RESERVED, Property.SEND_ID]
    return SendSettings(
        json=_json_pieces(config),
        binary=_binary_pieces(config),
        special=[name.encode() for name in special],
        detours=detours,
        typed_special=[name.encode() for name in TYPED_SPECIAL],
        batch_special=[CRC_NAME],
        tail=parts.handler.stamp.tails[config.trace_on].encode(),
        store_host=parts.access.store_host,
        frame_bytes=limits.frame.frame_bytes,
        header_bytes=limits.frame.header_bytes,
        body_bytes=config.max_message_bytes,
        property_bytes=limits.property_bytes,
        stored_property_bytes=max_property_bytes(config),
        batch_messages=min(most_in_batch(limits.frame, parts.access.store_host), config.max_messages_in_batch),
        with_crc=config.whole_record_crc,
        waits=config.answers_wait,
        index_keys=config.index_enabled,
        index_tags=config.index_tags,
    )


def _answer(fields: dict[str, str], encoding: Encoding) -> bytes:
    """Return the header of an answer, as Python's own way makes it."""
    request = Command(code=RequestCode.SEND_MESSAGE_V2, opaque=_OPAQUE, encoding=encoding)
    return encode_header(Reply(fields=fields).to_command(request))


def _json_pieces(config: BrokerConfig) -> list[bytes]:
    """Return the constant parts around message id, queue, offset, unique id and opaque."""
    marks = {name: f"<{name}>" for name in _OWN_FIELDS}
    rest = _answer(region_fields(config) | marks, Encoding.JSON)
    pieces = []
    for mark in (*marks.values(), str(_OPAQUE)):
        piece, _, rest = rest.partition(mark.encode())
        pieces.append(piece)
    return [*pieces, rest]


def _binary_pieces(config: BrokerConfig) -> list[bytes]:
    """Return the fixed part, the fields of the region, and the names of the other fields."""
    header = _answer(region_fields(config), Encoding.ROCKETMQ)
    return [header[:13], header[21:], *(name.encode() for name in _OWN_FIELDS)]
