"""The blocks of all queues that are popped in order: `config/consumerOrderInfo.json` as Java keeps it, and its journal.

Every change goes into pop's journal in the commit log before it is answered, so that a kill loses none; the file is
written on the saver's turn and at a stop, and what the journal has since then is applied at a start (`replay`).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from .... import logs
from ....store.tables.json_tables import JsonTable, TableDamaged
from ...metadata.groups import Groups
from ...metadata.table_content import entry, section
from ...metadata.topics import Topics
from .block import MOST_MESSAGES, Block

log = logs.get("pyromq.broker")

SECTION, COUNT, LEVEL = "table", "orderInfoCount", "orderedConsumptionLevel"
SEPARATOR = "@"
UNUSED_MS = 24 * 3_600_000  # after which a block is forgotten, as by Java
CLEAN_MS = 60_000
CHANGE, SAVED = 128, 129  # kinds of our entries in pop's journal


class OrderLane(NamedTuple):
    """A queue as one group consumes it."""

    topic: str
    group: str
    queue_id: int

    @property
    def key(self) -> str:
        return f"{self.topic}{SEPARATOR}{self.group}"


class _Change(msgspec.Struct, array_like=True):
    """An entry of the journal: the block as it is after the change, None if it is gone since `gone_ms`."""

    topic: str
    group: str
    queue_id: int
    block: Block | None
    gone_ms: int = 0
    number: int = 0  # entries are counted


class _Saved(msgspec.Struct, kw_only=True):
    """A block as Java's file has it."""

    a: str | None = None
    cm: int = 0
    i: int | None = None
    last: int = msgspec.field(default=0, name="l")
    o: list[int] = []
    oc: dict[int, int] | None = None
    ot: dict[int, int] | None = None
    pop_time: int = msgspec.field(default=0, name="popTime")
    pyromq: str | None = None  # ours: a block by message group; Java ignores it, and leaves it out when it writes


class OrderTable:
    """Event loop only. `note` takes an entry of the journal, by its kind."""

    def __init__(self, table: JsonTable, note: Callable[[int, bytes], None]) -> None:
        self._table = table
        self._note = note
        self._lanes: dict[str, dict[int, Block]] = {}
        self._changed: set[str] = set()
        self._cleaned_ms = 0
        self._number = 0  # of the last entry
        self.unsaved: dict[OrderLane, int] = {}  # lanes that the journal told of since the tables were saved
        content = table.load()
        what = f"{SECTION} in {table.name}"
        for key, queues in entry(dict[str, dict[int, _Saved]], section(content, SECTION), what).items():
            if blocks := {number: _loaded(one) for number, one in queues.items() if one.o}:
                self._lanes[key] = blocks
        if SECTION not in content:
            table.replace(COUNT, 0)
            table.replace(LEVEL, "QUEUE")
            table.replace(SECTION, {})

    def __len__(self) -> int:
        return sum(map(len, self._lanes.values()))

    def find(self, lane: OrderLane) -> Block | None:
        return self._lanes.get(lane.key, {}).get(lane.queue_id)

    def all(self) -> Iterator[tuple[OrderLane, Block]]:
        """Yield every lane with its block. Nothing may change meanwhile."""
        for key, queues in self._lanes.items():
            topic, _, group = key.partition(SEPARATOR)
            for number, block in queues.items():
                yield OrderLane(topic, group, number), block

    def in_flight(self) -> int:
        """Count the messages that were given and are not acked."""
        return sum(len(block.open_offsets()) for _, block in self.all())

    def given_end(self, topic: str, group: str, queue_id: int) -> int:
        """Return the offset behind the last message of a queue that was given and is not acked; 0: there is none."""
        block = self.find(OrderLane(topic, group, queue_id))
        return 0 if block is None else max((offset + 1 for offset in block.open_offsets()), default=0)

    def of_pair(self, pair: str) -> list[OrderLane]:
        """Return the lanes of a `topic@group` that have a block."""
        topic, _, group = pair.partition(SEPARATOR)
        return [OrderLane(topic, group, number) for number in self._lanes.get(pair, ())]

    def put(self, lane: OrderLane, block: Block) -> None:
        """Keep a block that is new or has changed; a replay of the journal brings it back."""
        self._apply(lane, block)
        self._journal(_Change(*lane, block))

    def drop(self, lane: OrderLane, now_ms: int) -> None:
        """Forget a block: the group's offset was reset, or it is gone."""
        if self.find(lane) is not None:
            self._apply(lane, None)
            self._journal(_Change(*lane, None, now_ms))

    def _journal(self, change: _Change) -> None:
        self._number = change.number = self._number + 1
        self._note(CHANGE, msgspec.msgpack.encode(change))

    def _apply(self, lane: OrderLane, block: Block | None) -> None:
        queues = self._lanes.setdefault(lane.key, {})
        if block is None:
            queues.pop(lane.queue_id, None)
        else:
            queues[lane.queue_id] = block
        if not queues:
            del self._lanes[lane.key]
        self._changed.add(lane.key)

    # --- at a start -----------------------------------------------------------------------------------------------

    def replay(self, kind: int, body: bytes) -> None:
        """Apply an entry of the journal, unless the file has a newer block: then another broker wrote it since."""
        try:
            if kind == SAVED:
                number = _NUMBERS.decode(body)
                self.unsaved = {lane: last for lane, last in self.unsaved.items() if last > number}
            elif kind == CHANGE:
                self._replay(_CHANGES.decode(body))
        except (msgspec.DecodeError, msgspec.ValidationError) as fault:
            log.error("an entry on messages in order cannot be read and is left out", why=str(fault))

    def _replay(self, change: _Change) -> None:
        lane = OrderLane(change.topic, change.group, change.queue_id)
        self._number = self.unsaved[lane] = change.number
        known, told = self.find(lane), change.block
        if told is None:
            if known is not None and known.last_pop_ms <= change.gone_ms:
                self._apply(lane, None)
        elif known is None or told.pop_time > known.pop_time:
            self._apply(lane, told)
        elif told.pop_time == known.pop_time:
            told.acked |= known.acked
            self._apply(lane, told)

    # --- to disk --------------------------------------------------------------------------------------------------

    @property
    def number(self) -> int:
        """Return the number of the last entry, for `note_saved`."""
        return self._number

    def note_saved(self, number: int) -> None:
        """Say in the journal that everything up to this entry is in files now, the groups' offsets too."""
        self._note(SAVED, msgspec.msgpack.encode(number))

    def store_changed(self, topics: Topics, groups: Groups, now_ms: int) -> bool:
        """Hand what changed to the table, and drop what nobody can use any more. False: nothing is new."""
        if now_ms - self._cleaned_ms >= CLEAN_MS:
            self._cleaned_ms = now_ms
            self._clean(topics, groups, now_ms)
        if not self._changed:
            return False
        for key in self._changed:
            queues = self._lanes.get(key)
            if queues is None:
                self._table.drop(SECTION, key)
            else:
                self._table.put(SECTION, key, {number: _saved(block) for number, block in sorted(queues.items())})
        self._changed.clear()
        self._table.replace(COUNT, len(self))
        self._table.replace(LEVEL, "QUEUE")
        return True

    def _clean(self, topics: Topics, groups: Groups, now_ms: int) -> None:
        for lane, block in list(self.all()):
            topic = topics.find(lane.topic)
            is_known = topic is not None and lane.queue_id < topic.read_queue_nums and lane.group in groups
            if not is_known or now_ms - block.last_pop_ms > UNUSED_MS:
                self._apply(lane, None)
                log.info("order of a queue forgotten", topic=lane.topic, group=lane.group, queue=lane.queue_id)


_CHANGES = msgspec.msgpack.Decoder(_Change)
_NUMBERS = msgspec.msgpack.Decoder(int)


_BLOCKS = msgspec.msgpack.Decoder(Block)


def _loaded(saved: _Saved) -> Block:
    """Return a block; our own of message groups, unless another broker has written the file since."""
    if saved.pyromq is not None:
        try:
            block = _BLOCKS.decode(base64.b64decode(saved.pyromq))
        except (ValueError, msgspec.DecodeError, msgspec.ValidationError) as fault:
            raise TableDamaged(f"a block by message group in consumerOrderInfo.json: {fault}") from None
        if block.pop_time == saved.pop_time:
            return block
    first = saved.o[0]
    offsets = (first, *(first + distance for distance in saved.o[1:]))
    invisible_ms = saved.i or 0
    return Block(saved.pop_time, invisible_ms, offsets, saved.last, saved.a, saved.cm, saved.oc, dict(saved.ot or {}))


def _saved(block: Block) -> dict[str, Any]:
    """Return a block as Java writes it: members by name, offsets behind the first as distances from it.

    Of one by message group Java gets the first open offsets, so that it holds the queue until their time is over.
    """
    offsets, acked, own = block.offsets[:MOST_MESSAGES], block.acked, None
    if block.is_by_group:
        own = base64.b64encode(msgspec.msgpack.encode(block)).decode()
        if not offsets:
            offsets, acked = (max(0, block.position - 1),), 1
    first = offsets[0]
    return {
        "a": block.attempt_id,
        "cm": acked,
        "i": block.invisible_ms,
        "l": block.last_pop_ms,
        "o": [first, *(offset - first for offset in offsets[1:])],
        "oc": None if block.counts is None else dict(sorted(block.counts.items())),
        "ot": dict(sorted(block.visible.items())) or None,
        "popTime": block.pop_time,
        "pyromq": own,
    }
