"""What was put into a store, what was promised about it, and the check of what a store shows after a fault.

Every body is unique, so each message that is read tells which put it came from. The rules:

- promised messages are there, at the offset they were given
- nothing is shown that was not put just so: no torn, stale or invented message, none twice
- what is lost was not promised, and is a tail of the log: never a hole
- what was lost never comes back
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyromq.protocol.properties import decode_properties
from pyromq.protocol.record import Record, decode_record
from pyromq.store.message_store import MessageStore
from tests.store.small import by_key

READ_AT_ONCE = 32


class Broken(AssertionError):
    """A promise was broken."""


@dataclass(frozen=True, slots=True)
class Put:
    """One message as it was stored."""

    number: int
    topic: str
    queue_id: int
    offset: int
    position: int
    end: int
    body: bytes = field(repr=False)
    properties: bytes
    key: str


@dataclass(slots=True)
class History:
    """The messages that a store should hold, in the order of its log."""

    puts: list[Put] = field(default_factory=list)
    attempts: dict[bytes, Record] = field(default_factory=dict)  # by body: puts that did not return may be there
    lost: dict[bytes, Put] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)  # numbers of puts that a reader was shown
    expired_before: int = 0  # retention has dropped the log up to here; a power cut may bring its last files back
    next_number: int = 0

    def attempt(self, record: Record) -> None:
        """A put begins; `add` follows if it returns."""
        self.attempts[record.body] = record

    def add(self, record: Record, offset: int, position: int, end: int) -> None:
        self.attempts.pop(record.body, None)
        key = decode_properties(record.properties)["KEYS"]
        place = (record.topic, record.queue_id, offset, position, end)
        self.puts.append(Put(self.next_number, *place, record.body, record.properties, key))
        self.next_number += 1

    def _adopt_attempts(self, shown: dict[tuple[str, int, int], Record]) -> None:
        """A put that a fault cut short may have made it all the same; nobody was told either way."""
        survivors = [(record.physical_offset, place, record) for place, record in shown.items()]
        for position, (topic, queue_id, offset), record in sorted(survivors, key=lambda survivor: survivor[0]):
            attempt = self.attempts.get(record.body)
            if attempt is not None and (attempt.topic, attempt.queue_id) == (topic, queue_id):
                self.add(attempt, offset, position, position + record.size)
        self.attempts.clear()

    def check(self, store: MessageStore, promised_until: int, *, keep_seen: bool) -> None:
        """Compare with what the store shows; then forget what is lost. Raises Broken."""
        shown = read_everything(store)
        self._adopt_attempts(shown)
        expected = {(put.topic, put.queue_id, put.offset): put for put in self.puts}
        present: set[int] = set()
        for place, record in shown.items():
            put = expected.get(place)
            if put is None or put.body != record.body or put.position != record.physical_offset:
                was_lost = self.lost.get(record.body)
                raise Broken(f"{place} shows {record.body[:40]!r}, put was {put}; lost before: {was_lost is not None}")
            if not record.properties.startswith(put.properties):
                raise Broken(f"torn properties are shown: {record.properties!r}, put was {put}")
            present.add(put.number)
        if store.commit_log.start > self.expired_before:
            raise Broken(f"the log starts at {store.commit_log.start}, dropped was only up to {self.expired_before}")
        self.puts = [put for put in self.puts if put.position >= store.commit_log.start]
        missing = [put for put in self.puts if put.number not in present]
        for put in missing:
            if put.end <= promised_until:
                raise Broken(f"promised up to {promised_until}, but this is gone: {put}")
            if keep_seen and put.number in self.seen:
                raise Broken(f"a reader was shown this, and it is gone: {put}")
        if missing:
            first_missing = min(put.position for put in missing)
            after = [put for put in self.puts if put.number in present and put.position > first_missing]
            if after:
                raise Broken(f"a hole: {missing[0]} is gone, {after[0]} behind it is there")
        self.lost |= {put.body: put for put in missing}
        self.puts = [put for put in self.puts if put.number in present]

    def check_keys(self, store: MessageStore, puts: list[Put]) -> None:
        for put in puts:
            found = by_key(store, put.topic, put.key)
            if [record.physical_offset for record in found] != [put.position]:
                raise Broken(f"key {put.key} finds {[record.physical_offset for record in found]}: {put}")


def read_everything(store: MessageStore) -> dict[tuple[str, int, int], Record]:
    """All messages of all queues by (topic, queue, offset), read as a consumer reads. Raises Broken on a gap."""
    shown: dict[tuple[str, int, int], Record] = {}
    bodies: set[bytes] = set()
    for queue in store.queues:
        offset = queue.min_offset
        while offset < queue.readable_end:
            picked = store.reader.select(queue.topic, queue.queue_id, offset, max_count=READ_AT_ONCE, max_bytes=1 << 20)
            records = [decode_record(raw) for raw in store.reader.read_cold(picked.ranges)]
            offsets = [record.queue_offset for record in records]
            if offsets != list(range(offset, picked.next_offset)) or not offsets:
                raise Broken(f"{queue.topic} {queue.queue_id}: {offsets} read from {offset} to {picked.next_offset}")
            for record in records:
                if record.body in bodies:
                    raise Broken(f"{queue.topic} {queue.queue_id} shows {record.body[:40]!r} twice")
                bodies.add(record.body)
                shown[queue.topic, queue.queue_id, record.queue_offset] = record
            offset = picked.next_offset
    return shown
