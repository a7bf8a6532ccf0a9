"""The broker's side of a kernel's pops and acks: which it may serve, and what follows from what it did.

A verdict ("a pop with these fields is allowed, from these queues and by these tags") holds until something changes that
it was given for: settings, the topic or its retry topics, the group, which lanes are open, or who pulls. Pops in order,
by expression, and of topics with priorities are Python's. Event loop only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Protocol, cast

from ...errors import RequestRefused
from ...kernel import pops, state
from ...kernel.pops import AnswerTemplate, PopQuery, PopTemplates, SearchRules
from ...kernel.pulls import Changes, PullLimits
from ...kernel.seam import FeedConnection
from ...kernel.state import Allowance, ChangeFlag, QueueTail, ResidentFiles
from ...model.codes import ResponseCode
from ...model.pop_names import JOURNAL_TOPIC, retry_topic_v1, retry_topic_v2
from ...model.receipt import NORMAL, RETRY_V1, RETRY_V2
from ...protocol.command import Command, encode_header
from ...protocol.headers.pop import ChangeInvisibleTimeAnswer, PopMessage, PopMessageAnswer
from ...protocol.requests import RequestCode
from ...store.layout import QUEUE_ENTRY_BYTES
from ...store.log.reader import SCAN_ENTRIES
from ...store.message_store import MessageStore
from ...store.queues.consume_queue import ConsumeQueue
from ...transport.dispatch import Reply
from ...transport.peer import FramePeer, Peer
from ..config import BrokerConfig
from ..intake.message_type import PRIORITY
from ..metadata.attributes import MESSAGE_TYPE
from ..metadata.offsets import SEPARATOR, Offsets
from ..reading.charging import charge_read
from .ack import AckHandler
from .handler import PopHandler
from .rollback import NOT_SET
from .tickets import FOUND, NOTHING, KernelPop
from .young.lane_source import LaneSource
from .young.lanes import Lanes

MOST_QUEUES = 256  # of a topic: pops of more are Python's
_OPAQUE = 1_999_999_999  # stands for the request's own in a template
_SLOTS = {
    "popTime": pops.POP_TIME,
    "invisibleTime": pops.INVISIBLE_TIME,
    "reviveQid": pops.REVIVE_QUEUE,
    "restNum": pops.REST,
    "startOffsetInfo": pops.START_OFFSETS,
    "msgOffsetInfo": pops.MESSAGE_OFFSETS,
}


class _Nobody:
    """Stands for the peer in checks whose texts nobody reads."""

    address = ""


class ChangeFlags(Protocol):
    """What verdicts depend on, as flags that are set with a change."""

    def of(self, topic: str, group: str) -> Changes:
        """Return those of settings, topic and group."""
        ...


@dataclass(frozen=True, slots=True)
class Popping:
    """The parts that a pop goes through in Python, which a verdict stands for."""

    handler: PopHandler
    source: LaneSource
    acks: AckHandler
    lanes: Lanes
    offsets: Offsets
    changes: ChangeFlags


class PopVerdicts:
    """One listener's. Implements `kernel.pops.PopHost`. `pulls` is the kernel's feed for what is no pop."""

    def __init__(self, parts: Popping, module: Any, pulls: Any) -> None:
        self._parts = parts
        self._module = module
        self._open: dict[str, ChangeFlag] = {}  # by topic and group: lanes that opened since then
        handler = parts.handler
        self.kernel = module.PopFeed(
            self, pulls, parts.lanes.table, templates(), JOURNAL_TOPIC, parts.source.reading, handler.held
        )
        self._unmade: dict[str, ChangeFlag] = {}  # by topic: queues without a message that a verdict was given for
        parts.lanes.watch(self._lane_opened)
        self._store.queues.on_make.append(self._queue_made)
        handler.pulled.watch(self._lane_opened)
        handler.journal.blocks.append(self.kernel.block)

    # --- what the kernel asks -------------------------------------------------------------------------------------

    def next_search(self) -> tuple[int, int]:
        return self._parts.handler.next_search()

    def give_back(self, revive_queue: int, chance: int) -> None:
        self._parts.handler.given_back = revive_queue, chance

    def hold(
        self,
        connection: FeedConnection,
        verdict: object,
        frame: bytes,
        allowance: Allowance | None,
        born_ms: int,
        poll_ms: int,
    ) -> int:
        peer, monotonic = cast(FramePeer, connection), self._parts.handler.clock.monotonic
        on_answer = None if allowance is None else partial(charge_read, allowance, monotonic)
        ticket = KernelPop(peer, frame, born_ms, self.kernel, allowance, on_answer)
        place = cast(tuple[str, str, int], verdict)
        return self._parts.handler.hold(place, born_ms + poll_ms, peer, ticket).value

    def is_journal_awaited(self) -> bool:
        return self._parts.handler.journal.is_awaited

    def put_journal(self) -> bool:
        return self._parts.handler.journal.put_now()

    def settled(self, lanes: Sequence[int], acked: int, is_put: bool) -> None:
        for lane in lanes:
            self._parts.lanes.settle(lane)
        self._parts.acks.acked += acked
        if is_put:
            self._parts.handler.journal.note_put()

    def wake(self, verdict: object) -> None:
        topic, group, queue_id = cast(tuple[str, str, int], verdict)
        self._parts.handler.held.wake(topic, group, queue_id)

    def judge_ack(self, group: bytes, topic: bytes, queue_id: int) -> object | None:
        name, its_group = topic.decode("ascii", "replace"), group.decode("ascii", "replace")
        found = self._parts.handler.checks.topics.find(name)
        lane = self._parts.lanes.find(its_group, name, queue_id)
        queue = self._store.queues.get(name, queue_id)
        if found is None or lane is None or queue_id >= found.read_queue_nums or not isinstance(queue, ConsumeQueue):
            return None
        changes = self._parts.changes.of(name, its_group)
        return self._module.AckGrant(self._parts.lanes.table, lane, queue.tail, tuple(changes))  # type: ignore[no-any-return]

    def judge_pop(self, query: PopQuery) -> object | None:
        handler, config = self._parts.handler, self._parts.handler.live.config
        header = _header(query)
        if config.enable_pop_message_threshold or not (config.pop_waits_for_flush or not config.answers_wait):
            return None
        if config.is_slave:
            return None  # Python says it to each
        try:
            allowed = handler.checks.check(header, cast(Peer, _Nobody()), config, handler.clock.now_ms())
        except RequestRefused:
            return None  # Python says it to each
        if allowed.wanted.record_filter is not None or allowed.topic.attributes.get(MESSAGE_TYPE) == PRIORITY:
            return None
        if allowed.group.consume_message_orderly:
            return None
        if handler.pulled.has_any(header.topic, header.consumer_group):
            return None  # Python passes those queues over
        numbers = range(allowed.topic.read_queue_nums) if query.queue_id < 0 else (query.queue_id,)
        group, codes = header.consumer_group, allowed.wanted.tag_codes
        places = [[(header.topic, number) for number in numbers]]
        places += [[(name, number) for number in self._retry_queues(name)] for name in _retries(header)]
        if sum(map(len, places)) > MOST_QUEUES:
            return None
        queues = [
            tuple(self._queue(group, name, number, codes, config, mark) for name, number in each)
            for each, mark in zip(places, (NORMAL, RETRY_V1, RETRY_V2), strict=True)
        ]
        if not queues[0] or any(None in each for each in queues):
            return None
        handler.subscriptions.note(group, header.topic, header.exp_type, header.exp)
        rules = _rules(header, config)
        return self._module.PopGrant((header.topic, group, query.queue_id), self._changes(header), *queues, rules)  # type: ignore[no-any-return]

    @property
    def _store(self) -> MessageStore:
        return self._parts.source.store

    def _retry_queues(self, name: str) -> range:
        found = self._parts.handler.checks.topics.find(name)
        return range(0 if found is None else found.read_queue_nums)

    def _queue(
        self, group: str, topic: str, queue_id: int, codes: frozenset[int] | None, config: BrokerConfig, mark: str
    ) -> object | None:
        queue = self._store.queues.get(topic, queue_id)
        lane = self._parts.lanes.find(group, topic, queue_id)
        start = self._parts.offsets.find(topic, group, queue_id) if lane is None else 0
        if start is None or not isinstance(queue, ConsumeQueue | None):
            return None
        if lane is None and self._parts.offsets.has_reset(topic, group, queue_id):
            return None  # Python lets that happen
        tail, entries = _unmade(topic, queue_id) if queue is None else (queue.tail, queue.entries.sequence.resident())
        return self._module.PopQueue(  # type: ignore[no-any-return]
            self._parts.lanes.table,
            lane,
            start,
            group,
            tail,
            entries,
            codes,
            _limits(config, is_filtered=codes is not None),
            ord(mark),
        )

    # --- what ends verdicts ---------------------------------------------------------------------------------------

    def _changes(self, header: PopMessage) -> tuple[ChangeFlag, ...]:
        group = header.consumer_group
        names = (header.topic, *_retries(header))
        flags = list(self._parts.changes.of(header.topic, group))
        flags += [self._parts.changes.of(name, group).topic for name in names[1:]]
        flags += [self._unmade.setdefault(name, state.ChangeFlag()) for name in names]
        return (*flags, *(self._open.setdefault(f"{name}{SEPARATOR}{group}", state.ChangeFlag()) for name in names))

    def _lane_opened(self, pair: str) -> None:
        _set(self._open, pair)

    def _queue_made(self, topic: str) -> None:
        _set(self._unmade, topic)


def _set(flags: dict[str, ChangeFlag], name: str) -> None:
    flag = flags.pop(name, None)
    if flag is not None:
        flag.is_set = True


def _unmade(topic: str, queue_id: int) -> tuple[QueueTail, ResidentFiles]:
    """Return what stands for a queue that has had no message yet."""
    tail = state.QueueTail(topic, queue_id, QUEUE_ENTRY_BYTES, lambda _, __: None, set())
    return tail, state.ResidentFiles(QUEUE_ENTRY_BYTES, lambda _: None, lambda _, __: None)


def _retries(header: PopMessage) -> tuple[str, str]:
    return retry_topic_v1(header.topic, header.consumer_group), retry_topic_v2(header.topic, header.consumer_group)


def _limits(config: BrokerConfig, *, is_filtered: bool) -> PullLimits:
    count = config.max_transfer_count_on_message_in_memory
    deep = config.max_filter_message_size // QUEUE_ENTRY_BYTES if is_filtered else 0
    return PullLimits(count, config.max_transfer_bytes_on_message_in_memory, max(SCAN_ENTRIES, count, deep))


def _rules(header: PopMessage, config: BrokerConfig) -> SearchRules:
    return SearchRules(
        header.queue_id < 0,
        config.max_transfer_count_on_message_in_memory,
        config.priority_order_asc,
        config.pop_from_retry_probability,
        config.enable_retry_topic_v2,
        config.retrieve_message_from_pop_retry_topic_v1,
        b"" if config.pop_response_return_actual_retry_topic else header.topic.encode(),
        config.broker_name.encode(),
    )


def _header(query: PopQuery) -> PopMessage:
    """Return the header that the checks need; times and counts play no part in a verdict."""
    return PopMessage(
        consumer_group=query.group.decode("ascii", "replace"),
        topic=query.topic.decode("ascii", "replace"),
        queue_id=query.queue_id,
        max_msg_nums=1,
        invisible_time=0,
        poll_time=0,
        init_mode=query.init_mode,
        exp_type=None if query.expression_type is None else query.expression_type.decode("ascii", "replace"),
        exp=None if query.expression is None else query.expression.decode("ascii", "replace"),
    )


@lru_cache(1)
def templates() -> PopTemplates:
    """Return the answers of the feed, as Python's own way makes them."""
    found = PopMessageAnswer(
        pop_time=0, invisible_time=0, revive_qid=0, rest_num=0, start_offset_info="", msg_offset_info=""
    )
    changed = ChangeInvisibleTimeAnswer(pop_time=0, invisible_time=0, revive_qid=0)
    return PopTemplates(
        _template(RequestCode.POP_MESSAGE, FOUND, found.to_fields()),
        _template(RequestCode.POP_MESSAGE, NOTHING, found.to_fields(), ResponseCode.POLLING_TIMEOUT),
        _template(RequestCode.ACK_MESSAGE, None, {}),
        _template(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, NOT_SET, changed.to_fields()),
    )


def _template(
    request_code: int, remark: str | None, fields: dict[str, str], code: int = ResponseCode.SUCCESS
) -> AnswerTemplate:
    """Cut a header around the values that differ from answer to answer."""
    marked = {name: f"<{name}>" for name in fields}
    request = Command(code=request_code, opaque=_OPAQUE)
    header = encode_header(Reply(code, remark=remark, fields=marked).to_command(request))
    marks = {text.encode(): _SLOTS[name] for name, text in marked.items()} | {b"%d" % _OPAQUE: pops.OPAQUE}
    pieces, slots = list[bytes](), list[int]()
    while marks:
        at, mark = min((header.index(mark), mark) for mark in marks)
        pieces.append(header[:at])
        slots.append(marks.pop(mark))
        header = header[at + len(mark) :]
    return AnswerTemplate([*pieces, header], slots)
