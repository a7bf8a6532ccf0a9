"""The broker's side of a native kernel: which sends need no look, and the way of a kernel's burst into the store.

A verdict ("plain messages for this topic are allowed") is given per listener and topic. It holds as long as settings
and topic are the very objects that it was given for, and that is looked at again for each received buffer: so whatever
changes (permission, type, attributes, deletion, a setting), no verdict outlives it. Disk, overload and a burst that
Python has not put yet are asked for in `open`, before each buffer's first append. Who must sign his requests gets no
verdicts at all. Event loop only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...ambient import Clock
from ...config import Live
from ...errors import RequestRefused
from ...kernel.appends import Burst, Sights, Terms
from ...kernel.choice import native
from ...kernel.seam import Feed
from ...model.message import Property
from ...model.names import is_retry
from ...protocol.bodies.topics import TopicConfig
from ...protocol.command import Command, Encoding, encode_header
from ...protocol.frame import MOST_HEADER_BYTES, FrameLimits, decode_frames, encode_frame
from ...protocol.record import CRC_NAME
from ...protocol.requests import RequestCode
from ...store.config import FlushMode
from ...store.log.retention import DiskSpaceGate
from ...store.message_store import MessageStore
from ...store.queues.consume_queue import ConsumeQueue
from ...transport.connection.pending_replies import ReplyTimeout
from ...transport.dispatch import Reply
from ...transport.limits import Limits
from ..config import BrokerConfig
from ..intake.intake import Intake
from ..intake.message_type import takes_plain
from ..metadata.new_topics import NewTopics
from ..metadata.topics import Topics
from ..stats.counters import Counters
from .admission import LoopLag
from .send import SPECIAL, TYPED_SPECIAL, born_host, late_reply, most_in_batch, property_room, region_fields
from .send_checks import MOST_VERDICTS, SendChecks
from .stamp import RESERVED, Stamp

_OPAQUE = 1_999_999_999  # stands for the request's own in a template
_OWN_FIELDS = ("msgId", "queueId", "queueOffset", "transactionId")
_KERNEL_FIELDS = 17  # of a send, at most: 14, and three of a signature
_OWN_ANSWERS = FrameLimits(frame_bytes=(1 << 31) - 1, header_bytes=MOST_HEADER_BYTES)  # we made them, however long


@dataclass(frozen=True, slots=True)
class Sending:
    """The parts that a send goes through in Python, which a verdict stands for."""

    live: Live[BrokerConfig]
    topics: Topics
    checks: SendChecks
    admit: Callable[[BrokerConfig, float], None]
    intake: Intake
    stamp: Stamp
    store_host: bytes
    new_topics: NewTopics
    store: MessageStore
    clock: Clock
    counters: Counters
    lag: LoopLag
    gate: DiskSpaceGate
    limits: Limits


class _Verdict(NamedTuple):
    config: BrokerConfig
    topic: TopicConfig
    grant: Any


class Verdicts:
    """One listener's. Implements `kernel.appends.AppendHost`."""

    def __init__(self, parts: Sending, module: Any) -> None:
        self._parts = parts
        self.module = module
        self._grant = module.Grant
        steps = parts.store.steps(module.Steps)
        sights = Sights(
            parts.live,
            parts.topics.all().get,  # no call of Python's in between
            parts.clock.monotonic,
            parts.clock.now_ms,
            parts.lag,
            parts.gate,
            parts.store.flushed,
            parts.intake,
        )
        self._kernel = module.SendFeed(self, steps, sights)
        self._config: BrokerConfig | None = None
        self._given: dict[bytes, _Verdict] = {}
        self._use(parts.live.config)
        parts.counters.sources.append(self.settle)
        parts.intake.times.sources.append(self.settle)

    @property
    def feed(self) -> Feed:
        return self._kernel.feed  # type: ignore[no-any-return]

    @property
    def kernel(self) -> Any:
        """Return the kernel's `SendFeed`."""
        return self._kernel

    @property
    def messages(self) -> int:
        """What the kernel stored since the start."""
        return int(self._kernel.messages)

    # --- what the kernel asks -------------------------------------------------------------------------------------

    def born_host(self, address: str) -> bytes:
        return born_host(address)

    def grant(self, topic: bytes) -> Any:
        parts = self._parts
        verdict = self._given.get(topic)
        if verdict is not None:
            if verdict.config is parts.live.config and verdict.topic is parts.topics.find(verdict.topic.topic_name):
                return verdict.grant
            del self._given[topic]
        return self._judge(topic)

    def open(self) -> tuple[int, int, int] | None:
        parts, config = self._parts, self._parts.live.config
        if config is not self._config:
            self._use(config)
        try:
            parts.admit(config, parts.clock.monotonic())
        except RequestRefused:
            return None  # Python says it to each
        if parts.intake.is_gathering:
            parts.intake.flush()  # what came before stays before
        log = parts.store.commit_log
        return log.end, log.tail.room, max(parts.clock.now_ms(), log.last_time)

    def queue(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        queue = self._parts.store.queues.get(topic, queue_id)
        return queue if isinstance(queue, ConsumeQueue) else None

    def put(self, burst: Burst) -> bool:
        if not self._parts.intake.put_encoded(burst):
            return False  # Python meets it too, and answers
        for topic, queue_id, messages, size, requests in burst.counts:
            self._parts.counters.put(topic, queue_id, messages, size, requests)
        return True

    def slow(self, seconds: float, messages: int) -> None:
        self._parts.intake.times.note(seconds, messages)

    def settle(self) -> None:
        """Tell the statistics what the kernel has counted for itself: before anybody looks at them."""
        counts, quick = self._kernel.take_counts()
        for topic, queue_id, messages, size, requests in counts:
            self._parts.counters.put(topic, queue_id, messages, size, requests)
        if quick:
            self._parts.intake.times.note(0.0, quick)

    # --- judging --------------------------------------------------------------------------------------------------

    def _judge(self, raw: bytes) -> Any:
        parts, config = self._parts, self._parts.live.config
        name = raw.decode("ascii", "replace")
        topic = parts.checks.standing(name, config)
        if topic is None or not _is_plain(topic) or name in parts.new_topics:
            return None
        if config.start_accept_send_request_time_stamp:
            return None  # depends on the time
        grant = self._grant(
            name, max(topic.write_queue_nums, topic.read_queue_nums), bool(topic.attributes), config, topic
        )
        if len(self._given) > MOST_VERDICTS:
            self._given.clear()
        self._given[raw] = _Verdict(config, topic, grant)
        return grant

    def _use(self, config: BrokerConfig) -> None:
        self._kernel.use(_terms(self._parts, config), config)
        self._config = config


def native_verdicts(parts: Sending) -> Verdicts | None:
    """For one listener; None where the Python kernel serves, or limits are so low that only Python knows them."""
    module = native()
    if module is None or parts.limits.frame.header_fields < _KERNEL_FIELDS:
        return None
    return Verdicts(parts, module)


def patience(live: Live[BrokerConfig]) -> ReplyTimeout:
    """What applies to answers of the kernel that wait for the disk: syncFlushTimeout, as it is when they begin to."""

    def late(answers: bytes) -> bytes:
        commands, _, _ = decode_frames(answers, _OWN_ANSWERS)
        return b"".join(encode_frame(late_reply(live.config, one.fields).to_command(one)) for one in commands)

    return ReplyTimeout(lambda: live.config.sync_flush_timeout / 1000, late)


def _is_plain(topic: TopicConfig) -> bool:
    return takes_plain(topic.attributes) and topic.topic_filter_type == "SINGLE_TAG" and not is_retry(topic.topic_name)


def _terms(parts: Sending, config: BrokerConfig) -> Terms:
    limits = parts.limits
    special = [*SPECIAL, *RESERVED, Property.SEND_ID]
    return Terms(
        json=_json_pieces(config),
        binary=_binary_pieces(config),
        special=[name.encode() for name in special],
        typed_special=[name.encode() for name in TYPED_SPECIAL],
        batch_special=[CRC_NAME],
        tail=parts.stamp.tails[config.trace_on].encode(),
        store_host=parts.store_host,
        frame_bytes=limits.frame.frame_bytes,
        header_bytes=limits.frame.header_bytes,
        body_bytes=config.max_message_bytes,
        property_bytes=limits.property_bytes,
        stored_property_bytes=property_room(config),
        batch_messages=min(most_in_batch(limits.frame, parts.store_host), config.max_messages_in_batch),
        with_crc=config.whole_record_crc,
        waits=config.flush_mode is FlushMode.SYNC,
        index_keys=config.index_enabled,
        index_tags=config.index_tags,
        lag_ms=config.max_loop_lag_ms,
        unflushed_bytes=config.max_unflushed_bytes,
    )


def _answer(fields: dict[str, str], encoding: Encoding) -> bytes:
    """The header of an answer, as Python's own way makes it."""
    request = Command(code=RequestCode.SEND_MESSAGE_V2, opaque=_OPAQUE, encoding=encoding)
    return encode_header(Reply(fields=fields).to_command(request))


def _json_pieces(config: BrokerConfig) -> list[bytes]:
    """The constant parts around message id, queue, offset, unique id and opaque."""
    marks = {name: f"<{name}>" for name in _OWN_FIELDS}
    rest = _answer(region_fields(config) | marks, Encoding.JSON)
    pieces = []
    for mark in (*marks.values(), str(_OPAQUE)):
        piece, _, rest = rest.partition(mark.encode())
        pieces.append(piece)
    return [*pieces, rest]


def _binary_pieces(config: BrokerConfig) -> list[bytes]:
    """Fixed part, fields of the region (between them the lengths of remark and fields), names of the other fields."""
    header = _answer(region_fields(config), Encoding.ROCKETMQ)
    return [header[:13], header[21:], *(name.encode() for name in _OWN_FIELDS)]
