"""The broker's side of a kernel's pulls: which it may answer, what is noted of them, and those that are suspended.

A verdict ("a pull with these fields is allowed, by these limits and tags") holds until something changes that it was
given for; who changes it is watched (`PullChanges`), so no verdict outlives it. Expressions, batch queues and groups
with a reset pending get none. Event loop only.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, cast

from ...config import Live
from ...errors import RequestRefused
from ...kernel import state
from ...kernel.pulls import AnswerPieces, Changes, PullGrant, PullLimits, PullQuery
from ...kernel.seam import FeedConnection
from ...kernel.state import Allowance, ChangeFlag
from ...protocol.command import Command, Encoding, encode_header
from ...protocol.headers.pull import PullMessage, PullMessageAnswer
from ...protocol.requests import RequestCode
from ...store.layout import QUEUE_ENTRY_BYTES
from ...store.log.reader import SCAN_ENTRIES, GetStatus
from ...store.queues.consume_queue import ConsumeQueue
from ...transport.dispatch import Reply
from ...transport.limits import Limits
from ...transport.peer import FramePeer
from ..clients.consumers import Consumers
from ..config import BrokerConfig
from ..metadata.config_table import Watched
from ..metadata.groups import Groups
from ..metadata.offsets import SEPARATOR, Offsets
from ..metadata.topics import Topics
from ..reading.charging import charge_read
from ..stats.counters import Counters
from .checks import Allowed
from .handler import PullHandler
from .tickets import KernelTicket, limits_of

_OPAQUE = 1_999_999_999  # stands for the request's own in a template
_NUMBERS = ("nextBeginOffset", "minOffset", "maxOffset")
_REMARK_AT = 13  # of a binary header


class PullChanges:
    """What verdicts depend on, as flags: settings, topics, groups with their subscriptions, resets and pops.

    A flag is shared by all verdicts on a topic or group, and a new one made for those after its change.
    """

    def __init__(
        self, live: Live[BrokerConfig], topics: Topics, groups: Groups, consumers: Consumers, offsets: Offsets
    ) -> None:
        self._settings = state.ChangeFlag()
        self._topics: dict[str, ChangeFlag] = {}
        self._groups: dict[str, ChangeFlag] = {}
        live.watch(lambda _: self.end_all())
        topics.watch(lambda topic: _set(self._topics, topic))
        groups.watch(self._group_changed)
        consumers.watch(self._group_changed)
        offsets.watch(lambda pair: self._group_changed(pair.partition(SEPARATOR)[2].partition(SEPARATOR)[0]))

    def watch_pops(self, lanes: Watched) -> None:
        """End verdicts on what a group begins to pop, or may."""
        lanes.watch(lambda pair: self._group_changed(pair.partition(SEPARATOR)[2]))

    def of(self, topic: str, group: str) -> Changes:
        """Return what a verdict that is given now depends on."""
        return Changes(self._settings, _flag(self._topics, topic), _flag(self._groups, group))

    def end_all(self) -> None:
        """End every verdict: something has changed that all of them depend on."""
        self._settings.is_set = True
        self._settings = state.ChangeFlag()

    def _group_changed(self, group: str) -> None:
        _set(self._groups, group)


def _flag(flags: dict[str, ChangeFlag], name: str) -> ChangeFlag:
    found = flags.get(name)
    if found is None:
        found = flags[name] = state.ChangeFlag()
    return found


def _set(flags: dict[str, ChangeFlag], name: str) -> None:
    flag = flags.pop(name, None)
    if flag is not None:
        flag.is_set = True


@dataclass(frozen=True, slots=True)
class Pulling:
    """The parts that a pull goes through in Python, which a verdict stands for."""

    handler: PullHandler
    changes: PullChanges
    counters: Counters
    limits: Limits


class PullVerdicts:
    """One listener's. Implements `kernel.pulls.PullHost`. `sends` is the kernel's feed for what is no pull."""

    def __init__(self, parts: Pulling, module: Any, sends: Any) -> None:
        self._parts = parts
        self._grant = module.PullGrant
        log, limits = parts.handler.store.commit_log, parts.limits.frame
        self.kernel = module.PullFeed(
            self,
            sends,
            log.tail,
            log.sequence.resident(),
            parts.handler.clock.monotonic,
            limits.frame_bytes,
            limits.header_bytes,
        )
        parts.counters.sources.append(self.read_counts)
        parts.handler.backlog.sources.append(self.read_counts)
        parts.handler.durations.append(lambda: self.kernel.longest_ms)

    # --- what the kernel asks -------------------------------------------------------------------------------------

    def note_pull(self, grant: PullGrant, offset: int, commit: int) -> None:
        queue = grant.queue
        grant.pulled = self._parts.handler.note_pull(queue.topic, grant.group, queue.queue_id, offset, commit)

    def suspend(
        self,
        connection: FeedConnection,
        grant: PullGrant,
        frame: bytes,
        allowance: Allowance | None,
        offset: int,
        wait_ms: int,
    ) -> bool:
        peer, allowed = cast(FramePeer, connection), cast(Allowed, grant.verdict)
        answer_from = partial(self.kernel.resume, grant, frame, allowance)
        monotonic = self._parts.handler.clock.monotonic
        on_answer = None if allowance is None else partial(charge_read, allowance, monotonic)
        ticket = KernelTicket(peer, frame, allowed, answer_from, on_answer)
        place = (grant.queue.topic, grant.queue.queue_id, offset)
        handler = self._parts.handler
        return handler.suspended.add(place, wait_ms, peer, ticket, handler.live.config)

    def read_counts(self) -> None:
        """Add what the kernel has counted for itself to the statistics: before anybody reads them."""
        for one in self.kernel.take_counts():
            self._parts.handler.backlog.note(one.group, one.behind)
            self._parts.counters.got(
                one.topic, one.group, one.queue_id, one.messages, one.size, one.took_ms, times=one.answers
            )
            self._parts.counters.by_kernel[1] += one.answers

    def judge(self, query: PullQuery) -> PullGrant | None:
        handler, config = self._parts.handler, self._parts.handler.live.config
        header = _header(query)
        topic, group, queue_id = header.topic, header.consumer_group, header.queue_id
        queue = handler.store.queues.get(topic, queue_id)
        if config.reject_pull_consumer_enable or not isinstance(queue, ConsumeQueue):
            return None
        if handler.slave_reads.vary:
            return None  # by what is read
        try:
            handler.slave_reads.check()
            allowed = handler.checks.check(header, query.code, config)
        except RequestRefused:
            return None  # Python says it to each
        if allowed.wanted.record_filter is not None or handler.offsets.has_reset(topic, group, queue_id):
            return None
        if handler.pops is not None and handler.pops.must_see_pulls(topic, group, queue_id):
            return None  # the group pops it: Python lets that end first
        codes = allowed.wanted.tag_codes
        grant: PullGrant = self._grant(
            allowed,
            group,
            queue.tail,
            queue.entries.sequence.resident(),
            self._parts.changes.of(topic, group),
            _limits(header, config, is_filtered=codes is not None),
            codes,
            _pieces(
                allowed.topic.topic_sys_flag,
                allowed.group.group_sys_flag,
                handler.slave_reads.suggested(allowed.group),
            ),
        )
        return grant


def _limits(header: PullMessage, config: BrokerConfig, *, is_filtered: bool) -> PullLimits:
    count, size = limits_of(header, config)
    deep = config.max_filter_message_size // QUEUE_ENTRY_BYTES if is_filtered else 0
    return PullLimits(count, size, max(SCAN_ENTRIES, count, deep))


def _header(query: PullQuery) -> PullMessage:
    """Return the header that the checks need; offsets and times play no part in a verdict."""
    return PullMessage(
        consumer_group=query.group.decode("ascii", "replace"),
        topic=query.topic.decode("ascii", "replace"),
        queue_id=query.queue_id,
        queue_offset=0,
        max_msg_nums=query.max_count,
        sys_flag=query.sys_flag,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription=None if query.subscription is None else query.subscription.decode("ascii", "replace"),
        sub_version=query.sub_version,
        expression_type=None if query.expression_type is None else query.expression_type.decode("ascii", "replace"),
        max_msg_bytes=query.max_bytes,
    )


@lru_cache(64)
def _pieces(topic_sys_flag: int, group_sys_flag: int, suggested: int) -> AnswerPieces:
    """Cut the header of an answer, as Python's own way makes it, around its numbers."""
    marks = {name: f"<{name}>" for name in _NUMBERS}
    fields = (
        PullMessageAnswer(
            suggest_which_broker_id=suggested,
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
    return AnswerPieces(json, binary, _REMARK_AT + 4 + len(remark))


def _cut(header: bytes, marks: list[bytes]) -> list[bytes]:
    pieces = []
    for mark in marks:
        piece, _, header = header.partition(mark)
        pieces.append(piece)
    return [*pieces, header]
