"""Plain sends from received bytes to the log, in readable Python: `native/feed.pxi` does the same in C.

One listener's: `SendFeed`. Records, queue entries, keys and answers of a received buffer are made in memory first; then
the `Appender` takes them all, or none, and then the whole buffer is left to the handlers. So are batches, here. Event
loop only.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from ...errors import RequestRefused
from ...protocol.command import Command, Encoding
from ...protocol.frame import FrameLimits
from ...protocol.headers.send import SendMessage, SendMessageV2
from ...protocol.properties import rejoin_properties
from ...protocol.record import Record
from ..put_counts import SIZE_BOUNDS, PutCount
from ..seam import DRAIN, NOTHING, Fed, FeedConnection, PendingReply
from ..sends import Detour, Grant, SendHost, SendSettings, Way
from .appender import Appender
from .frames import MOST_FIELDS, code_of, decoded, frame_end
from .keys import index_keys
from .placed import place_burst
from .pull import ENTRY
from .quotas.allowance import Allowance
from .quotas.allowances import Allowances
from .state import Gate, QueueTail, TimeSource

MOST_GRANTS = 10_000
_SENDS = {10: SendMessage, 310: SendMessageV2}
_OTHER_SENDS = (320, 324, 325, -1)  # batches, replies, and what may be a send: later sends wait for them
_NOT_PLAIN = 0x0C | 0xC0  # sysFlag: transaction bits, marks of inner batches
_QUICK_S = 0.001
_ORDER_KEY = "__SHARDINGKEY"


@dataclass(slots=True)
class _Plain:
    """What a message's properties say of it: what is stored of them, and where it waits if it takes a detour."""

    stored: bytes
    unique: str
    detour: Detour | None = None
    way: Way | None = None


class FrameOutcome(Enum):
    """What became of a frame."""

    TAKEN = 1
    LEFT = 2
    STOP = 3  # the log's file has no room for it


class Notes:
    """Of one connection: its born host, who it was last shown to be, and the topics that handlers have frames of which
    may not be finished."""

    def __init__(self, born_host: bytes, address: str) -> None:
        self.born_host = born_host
        self.address = address
        self.source = address.rpartition(":")[0]
        self.identity: object = None  # the guard's
        self.user = ""  # whose requests the connection's are now
        self.allowances: dict[tuple[str, str, str], Allowance] = {}  # by user, topic and group
        self.left: set[str] = set()
        self.all_left = False


@dataclass(slots=True)
class BurstCount:
    """What was stored in one queue, for the statistics."""

    messages: int = 0
    size: int = 0
    sizes: list[int] = field(
        default_factory=lambda: [0] * (len(SIZE_BOUNDS) + 1)
    )  # requests by bytes of their messages
    ordered: int = 0  # messages with an order key
    ordered_size: int = 0

    def note(self, size: int, is_ordered: bool) -> None:
        self.messages += 1
        self.size += size
        self.sizes[bisect_left(SIZE_BOUNDS, size)] += 1
        self.ordered += is_ordered
        self.ordered_size += size * is_ordered

    def add(self, other: BurstCount) -> None:
        self.messages += other.messages
        self.size += other.size
        self.sizes = [mine + its for mine, its in zip(self.sizes, other.sizes, strict=True)]
        self.ordered += other.ordered
        self.ordered_size += other.ordered_size


@dataclass(slots=True)
class Burst:
    """What one received buffer adds to the log, from `position` on."""

    notes: Notes
    is_admitted: bool | None = None  # None: not asked yet
    start: int = 0
    room: int = 0
    store_time: int = 0
    size: int = 0
    last: int = 0
    records: list[bytes] = field(default_factory=list)
    entries: dict[QueueTail, list[bytes]] = field(default_factory=dict)
    keys: list[bytes] = field(default_factory=list)
    answers: list[bytes] = field(default_factory=list)
    counts: dict[tuple[str, int], BurstCount] = field(default_factory=dict)
    drain: bool = False  # a send was left for no reason but that others before it were
    refused_mark: int = 0
    drawn: list[tuple[Allowance, int]] = field(default_factory=list)  # what is paid for, with bytes of each message
    refused: bool = False


class SendFeed:
    """`host` is the broker's side of it: `kernel/sends.py` says what it must have."""

    def __init__(self, host: SendHost, appender: Appender, gate: Gate, time: TimeSource) -> None:
        self._host = host
        self._appender = appender
        self._gate = gate
        self._time = time
        self._settings: SendSettings
        self._limits = FrameLimits()
        self._special: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())
        self._detours: dict[str, Detour] = {}
        self._asides: dict[bytes, Grant] = {}  # on the topics where messages wait that take a detour
        self._grants: dict[str, Grant] = {}
        self._counts: dict[tuple[str, int], BurstCount] = {}
        self._quick = 0
        self.allowances: Allowances | None = None  # None: nobody has a quota
        self.messages = 0  # taken since the start

    def use(self, settings: SendSettings) -> None:
        """Serve by these settings, and by no verdict that was given before."""
        self._settings = settings
        self._limits = FrameLimits(
            frame_bytes=settings.frame_bytes, header_bytes=settings.header_bytes, header_fields=MOST_FIELDS
        )
        special = frozenset(name.decode() for name in settings.special)
        self._special = special, special | {name.decode() for name in settings.typed_special}
        self._detours = {detour.name.decode(): detour for detour in settings.detours}
        self._asides = {detour.name: Grant(detour.topic, len(detour.ways)) for detour in settings.detours}
        self._grants.clear()

    def hold_to(self, allowances: Allowances) -> None:
        """Hold what is sent and read to quotas; the feed of pulls before this one, too."""
        self.allowances = allowances

    def revoke(self, topic: bytes) -> None:
        """Take back the verdict on a topic."""
        self._grants.pop(topic.decode(), None)

    def take_counts(self) -> tuple[list[PutCount], int]:
        """Return what was stored in each queue since the last call, and how many messages were put within a
        millisecond.
        """
        counts, self._counts = self._counts, {}
        quick, self._quick = self._quick, 0
        found = [
            (*place, of.messages, of.size, of.messages, tuple(of.sizes), (of.ordered, of.ordered_size))
            for place, of in counts.items()
        ]
        return found, quick

    # --- a buffer -------------------------------------------------------------------------------------------------

    def feed(self, connection: FeedConnection, received: memoryview) -> Fed | bytes:
        """Return what was done with the bytes: `kernel/seam.py` has the contract."""
        notes = self.notes_of(connection)
        if (notes.all_left or notes.left) and not connection.unfinished_sends:
            notes.all_left = False
            notes.left.clear()
        burst, at, left = Burst(notes), 0, []
        if self.allowances is not None:
            burst.refused_mark = self.allowances.mark(notes)
        outcome = FrameOutcome.TAKEN
        while (end := frame_end(received, at, self._limits)) > 0:
            frame = received[at:end]
            outcome = self._one(burst, frame)
            if outcome is FrameOutcome.STOP:
                notes.all_left = True  # the handlers go on in the log's next file
                break
            if outcome is FrameOutcome.LEFT:
                left.append(frame)
            at = end
        if burst.records and not self._append(burst):
            self._undo_draws(burst)
            notes.all_left, burst.records, burst.refused = True, [], False
        if self.allowances is not None:
            self.allowances.flush(notes, connection)
        if not burst.records and not burst.refused:
            return DRAIN if burst.drain else NOTHING
        answers = b"".join(burst.answers)
        if self._settings.waits and answers:
            return Fed(at, b"", (PendingReply(burst.start + burst.size, answers),), left, burst.drain)
        return Fed(at, answers, (), left, burst.drain)

    def notes_of(self, connection: FeedConnection) -> Notes:
        if type(connection.notes) is not Notes:
            connection.notes = Notes(self._host.born_host(connection.address), connection.address)
        return connection.notes

    def _append(self, burst: Burst) -> bool:
        """Hand the burst to the appender, all in one. False: it took nothing, or writing has ended."""
        if self._appender.stopped is not None:
            return False
        queues = [(tail, b"".join(entries), len(entries)) for tail, entries in burst.entries.items()]
        begun = self._time.monotonic()
        try:
            self._appender.append(b"".join(burst.records), burst.last, burst.store_time, queues, b"".join(burst.keys))
        except Exception:  # the handlers meet it too, and answer
            return False
        seconds, messages = self._time.monotonic() - begun, len(burst.records)
        if seconds < _QUICK_S:
            self._quick += messages
        else:
            self._host.note_slow(seconds, messages)
        self.messages += messages
        for place, new in burst.counts.items():
            self._counts.setdefault(place, BurstCount()).add(new)
        return True

    def _undo_draws(self, burst: Burst) -> None:
        """Give back what was drawn: nothing of the buffer is stored, and the handlers count all of it."""
        for allowance, size in burst.drawn:
            allowance.give_back_send(size, 1)
        if self.allowances is not None:
            self.allowances.forget(burst.notes, burst.refused_mark)

    # --- a frame --------------------------------------------------------------------------------------------------

    def _one(self, burst: Burst, frame: memoryview) -> FrameOutcome:
        code = code_of(frame)
        if code not in _SENDS:
            burst.notes.all_left = burst.notes.all_left or code in _OTHER_SENDS
            return FrameOutcome.LEFT
        command = decoded(frame, self._limits)
        header = None if command is None else _header(command)
        if command is None or header is None:
            burst.notes.all_left = True
            return FrameOutcome.LEFT
        allowance = None
        if self.allowances is not None and self.allowances.is_on and not command.flag & ~2:
            allowance = self.allowances.find(burst.notes, header.topic, header.producer_group)
            if allowance is None or allowance.sends is None:
                return self._leave(burst, header)
            if self.allowances.refuses(burst.notes, allowance.sends, command):
                burst.refused = True
                return FrameOutcome.TAKEN
        if burst.notes.all_left or header.topic in burst.notes.left:
            burst.drain = burst.drain or self._would_take(header)
            return self._leave(burst, header)
        grant = None if not self._is_plain(command, header) else self._grant_for(header.topic)
        if grant is None or header.queue_id >= grant.queues or not self._is_admitted(burst):
            return self._leave(burst, header)
        tail = self._tail(grant, header.queue_id)
        plain = self._properties(header, grant)
        if plain is not None and plain.detour is not None and plain.way is not None:
            if allowance is not None and plain.detour.name in allowance.aside:
                return self._leave(burst, header)
            tail = self._tail(self._asides[plain.detour.name], plain.way.queue_id)
        elif header.sys_flag & _NOT_PLAIN or not grant.takes_plain:
            plain = None
        if tail is None or plain is None:
            return self._leave(burst, header)
        outcome = self._add(burst, command, header, tail, plain)
        if outcome is FrameOutcome.TAKEN and allowance is not None and self.allowances is not None:
            burst.drawn.append((allowance, len(command.body)))
            allowance.take_send(len(command.body), 1, self.allowances.now())
        return outcome

    def _leave(self, burst: Burst, header: SendMessage) -> FrameOutcome:
        """Leave a send to the handlers. Later ones of this connection to that topic must not overtake it."""
        burst.notes.left.add(header.topic)
        return FrameOutcome.LEFT

    def _would_take(self, header: SendMessage) -> bool:
        """Return whether a send is left for no other reason than its place in line, as far as can be told quickly."""
        grant = self._grant_for(header.topic)
        plain = self._properties(header, grant) if grant is not None and grant.takes_plain else None
        return plain is not None and plain.detour is None

    def _is_plain(self, command: Command, header: SendMessage) -> bool:
        return (
            not command.flag & ~2
            and not header.batch
            and header.queue_id >= 0
            and 0 < len(command.body) <= self._settings.body_bytes
        )

    def _grant_for(self, topic: str) -> Grant | None:
        """Return the verdict on a topic, as long as it is not revoked; else the broker is asked."""
        grant = self._grants.get(topic)
        if grant is None and topic.isascii():
            grant = self._host.judge(topic.encode())
            if grant is not None:
                if len(self._grants) >= MOST_GRANTS:
                    self._grants.clear()
                self._grants[topic] = grant
        return grant

    def _tail(self, grant: Grant, queue_id: int) -> QueueTail | None:
        """Return the store's queue as it is now; None: there is none, or one of another kind."""
        tail = grant.tails.get(queue_id)
        if tail is None or tail.is_removed:
            tail = self._host.queue(grant.topic, queue_id)
            if tail is not None:
                grant.tails[queue_id] = tail
        return tail

    def _is_admitted(self, burst: Burst) -> bool:
        """Return whether anything may be appended; asked once a buffer, and only if there is something to append."""
        if burst.is_admitted is None:
            gate, log = self._gate, self._appender.log
            is_open = not gate.closed and log.end <= gate.log_limit and self._time.monotonic() <= gate.due
            burst.is_admitted = is_open or self._host.admit()
            burst.start, burst.room = log.end, log.room
            burst.store_time = max(self._time.now_ms(), log.last_time)
        return burst.is_admitted

    def _properties(self, header: SendMessage, grant: Grant) -> _Plain | None:
        """Return what is stored of a message's properties, and the detour that it takes, if any.

        None: the handlers have to look at it, or it has no unique id."""
        settings, text = self._settings, header.properties or ""
        try:
            given = text.encode()
        except UnicodeEncodeError:
            return None
        found = {"UNIQ_KEY": "", "KEYS": "", "TAGS": ""}  # hashed, so they must be ASCII and come once
        aside: list[tuple[str, str]] = []
        for name, value in _pairs(text):
            if name in self._special[grant.is_typed]:
                aside.append((name, value))
            elif settings.waits and name.endswith("WAIT") and value == "false":
                return None
            elif value and name in found:
                if found[name] or not value.isascii():
                    return None
                found[name] = value
        end = b"" if given.endswith(b"\x02") else b"\x02"
        stored = given + end + settings.tail
        unique = found["UNIQ_KEY"]
        if len(given) > settings.property_bytes or len(stored) > settings.stored_property_bytes:
            return None
        if not unique.isprintable() or not unique or '"' in unique or "\\" in unique:
            return None
        plain = _Plain(stored, unique)
        if not aside:
            return plain
        return self._aside(header, grant, given, plain, *aside[0]) if len(aside) == 1 else None

    def _aside(
        self, header: SendMessage, grant: Grant, given: bytes, plain: _Plain, name: str, value: str
    ) -> _Plain | None:
        """Return the message as it waits; None: the handlers have to look at it."""
        detour = self._detours.get(name)
        if detour is None or detour.name not in grant.detours:
            return None
        way = detour.ways.get(value.encode())
        if way is None or header.sys_flag & _NOT_PLAIN & ~detour.cleared_bits or not _are_distinct_pairs(given):
            return None
        if any(text in given for text in detour.without):
            return None
        stored = plain.stored + rejoin_properties(detour.noted(header.topic, header.queue_id, plain.unique))
        return _Plain(stored, plain.unique, detour, way) if len(stored) <= detour.property_bytes else None

    def _add(self, burst: Burst, command: Command, header: SendMessage, tail: QueueTail, plain: _Plain) -> FrameOutcome:
        entries = burst.entries.get(tail, [])
        detour, way = plain.detour, plain.way
        record = Record(
            topic=header.topic if detour is None else detour.topic,
            queue_id=header.queue_id if way is None else way.queue_id,
            body=bytes(command.body),
            properties=plain.stored,
            flag=header.flag,
            sys_flag=header.sys_flag if detour is None else header.sys_flag & ~detour.cleared_bits,
            queue_offset=tail.next_offset + len(entries),
            born_timestamp=header.born_timestamp,
            born_host=burst.notes.born_host,
            store_host=self._settings.store_host,
            reconsume_times=header.reconsume_times or 0,
        )
        position = burst.start + burst.size
        (raw,), (placed,) = place_burst([record], position, burst.store_time, {}, self._settings.with_crc)
        if burst.size + len(raw) > burst.room:
            return FrameOutcome.STOP
        burst.entries[tail] = entries
        tag_code = placed.tag_code if way is None or way.wait_ms is None else burst.store_time + way.wait_ms
        entries.append(ENTRY.pack(position, len(raw), tag_code))
        burst.records.append(raw)
        burst.size += len(raw)
        burst.last = position
        if self._settings.index_keys:
            burst.keys.append(index_keys((placed,), -1, self._settings.index_tags))
        is_ordered = any(name == _ORDER_KEY and value for name, value in _pairs(header.properties or ""))
        burst.counts.setdefault((record.topic, record.queue_id), BurstCount()).note(len(raw), is_ordered)
        if not command.is_oneway:
            burst.answers.append(self._answer(command, record, header.queue_id, plain.unique))
        return FrameOutcome.TAKEN

    def _answer(self, command: Command, record: Record, queue_id: int, unique: str) -> bytes:
        host = self._settings.store_host.hex().upper()
        values = f"{host}{record.physical_offset:016X}", queue_id, record.queue_offset, unique
        texts = [str(value).encode() for value in values]
        if command.encoding is Encoding.JSON:
            texts.append(b"%d" % command.opaque)
            pieces = self._settings.json
            header = b"".join(piece + text for piece, text in zip(pieces, texts, strict=False)) + pieces[-1]
            return _framed(header, 0)
        fixed, region, *names = self._settings.binary
        fields = region + b"".join(_field(name, text) for name, text in zip(names, texts, strict=True))
        fixed = fixed[:5] + (command.opaque & 0xFFFFFFFF).to_bytes(4, "big") + fixed[9:]
        return _framed(fixed + bytes(4) + len(fields).to_bytes(4, "big") + fields, 1)


def _header(command: Command) -> SendMessage | None:
    try:
        return _SENDS[command.code].from_fields(command.fields)
    except RequestRefused:
        return None  # the handler says what is wrong


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for pair in text.split("\x02"):
        name, separator, value = pair.partition("\x01")
        if separator:
            yield name, value


def _are_distinct_pairs(given: bytes) -> bool:
    """Return whether the handlers store the properties as they came: pairs with a value, each name once."""
    *pairs, rest = given.split(b"\x02")
    split = [pair.split(b"\x01") for pair in pairs]
    are_pairs = not rest and all(len(one) == 2 and all(one) for one in split)
    return are_pairs and len({one[0] for one in split}) == len(split)


def _field(name: bytes, value: bytes) -> bytes:
    return len(name).to_bytes(2, "big") + name + len(value).to_bytes(4, "big") + value


def _framed(header: bytes, encoding: int) -> bytes:
    return (4 + len(header)).to_bytes(4, "big") + (encoding << 24 | len(header)).to_bytes(4, "big") + header
