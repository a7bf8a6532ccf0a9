"""The broker's side of a native kernel's pulls: which need no look, what they handed out, and those that wait.

A verdict ("a pull with these fields is allowed, by these limits and tags") holds as long as settings, topic, group,
queue and subscription are the very objects that it was given for, which is looked at for each pull: whatever changes,
no verdict outlives it. Expressions, batch queues and groups with a reset pending get none. Event loop only.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from ...ambient import Clock
from ...config import Live
from ...errors import RequestRefused
from ...kernel.pulls import PullSights, Question
from ...kernel.seam import Feed
from ...model.group import MessageModel
from ...protocol.bodies.groups import SubscriptionGroupConfig
from ...protocol.bodies.heartbeat import SubscriptionData
from ...protocol.bodies.topics import TopicConfig
from ...protocol.command import Command, Encoding, encode_header
from ...protocol.headers.pull import PullMessage, PullMessageAnswer
from ...protocol.pulls import PullFlag
from ...protocol.requests import RequestCode
from ...store.layout import QUEUE_ENTRY_BYTES
from ...store.log.reader import GetStatus
from ...store.message_store import MessageStore
from ...store.queues.consume_queue import ConsumeQueue
from ...transport.dispatch import Reply
from ...transport.limits import Limits
from ..clients.consumers import ConsumerGroup, Consumers
from ..config import BrokerConfig
from ..metadata.groups import Groups
from ..metadata.offsets import SEPARATOR, Offsets
from ..metadata.topics import Topics
from ..stats.counters import Counters
from .pull import PullHandler
from .pull_checks import Allowed, PullChecks
from .pull_tickets import FramePeer, KernelTicket, limits_of
from .slow_readers import Backlog

_OPAQUE = 1_999_999_999  # stands for the request's own in a template
_NUMBERS = ("nextBeginOffset", "minOffset", "maxOffset")
_REMARK_AT = 13  # of a binary header


@dataclass(frozen=True, slots=True)
class Pulling:
    """The parts that a pull goes through in Python, which a verdict stands for."""

    live: Live[BrokerConfig]
    clock: Clock
    store: MessageStore
    topics: Topics
    groups: Groups
    consumers: Consumers
    offsets: Offsets
    checks: PullChecks
    handler: PullHandler
    backlog: Backlog
    counters: Counters
    limits: Limits


@dataclass(frozen=True, slots=True)
class _Verdict:
    config: BrokerConfig
    allowed: Allowed
    topic: TopicConfig
    group: SubscriptionGroupConfig
    topic_name: str
    group_name: str
    queue_id: int
    queue: ConsumeQueue
    pair: str
    members: ConsumerGroup | None  # where the subscription comes from heartbeats
    subscription: SubscriptionData | None


class PullVerdicts:
    """One listener's. Implements `kernel.pulls.PullHost`. `others` is the feed for what is no pull."""

    def __init__(self, parts: Pulling, module: Any, others: Feed) -> None:
        self._parts = parts
        self._grant = module.PullGrant
        limits = parts.limits.frame
        self._topics, self._groups = parts.topics.all(), parts.groups.all()
        sights = PullSights(
            parts.live,
            self._topics,
            self._groups,
            parts.store.queues.by_topic,
            parts.offsets.resets,
            parts.store.commit_log,
            parts.clock.monotonic,
            *parts.offsets.pulled_tables,
            parts.backlog,
            parts.handler,
        )
        self._kernel = module.PullFeed(self, sights, others, limits.frame_bytes, limits.header_bytes)
        parts.counters.sources.append(self.settle)

    @property
    def feed(self) -> Feed:
        return self._kernel.feed  # type: ignore[no-any-return]

    @property
    def messages(self) -> int:
        """What the kernel handed out since the start."""
        return int(self._kernel.messages)

    @property
    def held(self) -> int:
        """Pulls that waited, or wait, for the kernel to answer them."""
        return int(self._kernel.held)

    @property
    def held_bytes(self) -> int:
        """About what the verdicts take that were used lately."""
        return int(self._kernel.grants_bytes)

    def forget_unused(self) -> None:
        """Drop those that no pull has used since the last call."""
        self._kernel.forget_unused()

    # --- what the kernel asks and tells ---------------------------------------------------------------------------

    def look(self, verdict: _Verdict) -> tuple[int, int, int, int] | None:
        parts, queue = self._parts, verdict.queue
        topic, group, queue_id = verdict.topic_name, verdict.group_name, verdict.queue_id
        if (
            parts.live.config is not verdict.config
            or self._topics.get(topic) is not verdict.topic
            or self._groups.get(group) is not verdict.group
            or parts.store.queues.get(topic, queue_id) is not queue
            or (verdict.members is not None and not self._still_subscribed(verdict))
            or parts.offsets.has_reset(topic, group, queue_id)
        ):
            return None
        log = parts.store.commit_log
        return queue.min_offset, queue.readable_end, log.start, log.end

    def _still_subscribed(self, verdict: _Verdict) -> bool:
        parts, members = self._parts, verdict.members
        assert members is not None
        return (
            parts.consumers.find(verdict.group_name) is members
            and members.subscriptions.get(verdict.topic_name) is verdict.subscription
            and (verdict.group.consume_broadcast_enable or members.message_model is not MessageModel.BROADCASTING)
            and parts.groups.may_read(verdict.group_name, verdict.topic_name)
        )

    def asked(self, verdict: _Verdict, offset: int, commit: int) -> None:
        self._parts.handler.asked(verdict.topic_name, verdict.group_name, verdict.queue_id, offset, commit)

    def settle(self) -> None:
        """Tell the statistics what the kernel has counted for itself: before anybody looks at them."""
        for topic, group, queue_id, messages, size, ms, times in self._kernel.take_counts():
            self._parts.counters.got(topic, group, queue_id, messages, size, ms, times=times)

    def hold(self, connection: FramePeer, grant: Any, frame: bytes, offset: int, wait_ms: int) -> bool:
        verdict: _Verdict = grant.verdict
        ticket = KernelTicket(connection, frame, verdict.allowed, partial(self._kernel.again, grant, frame))
        return self._parts.handler.hold_frame((verdict.topic_name, verdict.queue_id, offset), wait_ms, ticket)

    # --- judging --------------------------------------------------------------------------------------------------

    def judge(self, question: Question) -> Any:
        parts, config = self._parts, self._parts.live.config
        header = _header(question)
        queue = parts.store.queues.get(header.topic, header.queue_id)
        if config.reject_pull_consumer_enable or not isinstance(queue, ConsumeQueue):
            return None
        try:
            allowed = parts.checks.check(header, question.code, config)
        except RequestRefused:
            return None  # Python says it to each
        if allowed.wanted.sieve is not None:
            return None
        verdict = self._verdict(header, config, allowed, queue)
        count, size = limits_of(header, config)
        json, binary, block_at = _pieces(allowed.topic.topic_sys_flag, allowed.group.group_sys_flag)
        deep = config.max_filter_message_size // QUEUE_ENTRY_BYTES
        return self._grant(verdict, queue.files, allowed.wanted.tag_codes, count, size, deep, json, binary, block_at)

    def _verdict(self, header: PullMessage, config: BrokerConfig, allowed: Allowed, queue: ConsumeQueue) -> _Verdict:
        topic, group = header.topic, header.consumer_group
        members = None if header.sys_flag & PullFlag.SUBSCRIPTION else self._parts.consumers.find(group)
        subscription = None if members is None else members.subscriptions.get(topic)
        place = (topic, group, header.queue_id, queue, f"{topic}{SEPARATOR}{group}")
        return _Verdict(config, allowed, allowed.topic, allowed.group, *place, members, subscription)


def _header(question: Question) -> PullMessage:
    """What the checks look at; offsets and times play no part in a verdict."""
    return PullMessage(
        consumer_group=question.group.decode("ascii", "replace"),
        topic=question.topic.decode("ascii", "replace"),
        queue_id=question.queue_id,
        queue_offset=0,
        max_msg_nums=question.max_count,
        sys_flag=question.sys_flag,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription=None if question.subscription is None else question.subscription.decode("ascii", "replace"),
        sub_version=question.sub_version,
        expression_type=None if question.kind is None else question.kind.decode("ascii", "replace"),
        max_msg_bytes=question.max_bytes,
    )


@lru_cache(64)
def _pieces(topic_sys_flag: int, group_sys_flag: int) -> tuple[list[bytes], list[bytes], int]:
    """The constant parts of an answer in JSON and binary around its numbers, and where the binary one has the length
    of all its fields. As Python's own way makes it."""
    marks = {name: f"<{name}>" for name in _NUMBERS}
    fields = (
        PullMessageAnswer(
            suggest_which_broker_id=0,
            next_begin_offset=0,
            min_offset=0,
            max_offset=0,
            topic_sys_flag=topic_sys_flag,
            group_sys_flag=group_sys_flag,
        ).to_fields()
        | marks
    )
    remark = GetStatus.FOUND.value

    def header(encoding: Encoding) -> bytes:
        request = Command(code=RequestCode.PULL_MESSAGE, opaque=_OPAQUE, encoding=encoding)
        return encode_header(Reply(remark=remark, fields=fields).to_command(request))

    texts = [mark.encode() for mark in marks.values()]
    json = _cut(header(Encoding.JSON), [*texts, b"%d" % _OPAQUE])
    binary = _cut(header(Encoding.ROCKETMQ), [struct.pack(">i", len(text)) + text for text in texts])
    return json, binary, _REMARK_AT + 4 + len(remark)


def _cut(header: bytes, marks: list[bytes]) -> list[bytes]:
    pieces = []
    for mark in marks:
        piece, _, header = header.partition(mark)
        pieces.append(piece)
    return [*pieces, header]
