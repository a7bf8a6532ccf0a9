"""A small store on a simulated disk: what the store's tests put into it and how they look at it."""

from __future__ import annotations

from dataclasses import replace

from pyromq.protocol.record import Record
from pyromq.store.config import FlushMode, StoreConfig
from pyromq.store.log.reader import KeyQuery
from pyromq.store.message_store import MessageStore
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk

SMALL = StoreConfig(
    commit_log_file_bytes=8192,
    queue_file_bytes=20 * 40,
    batch_queue_file_bytes=46 * 20,
    index_slots=16,
    index_entries=60,
    allocation_step_bytes=4096,
)
SMALL_SYNC = replace(SMALL, flush_mode=FlushMode.SYNC)


def opened(disk: SimulatedDisk, config: StoreConfig = SMALL, clock: ManualClock | None = None) -> MessageStore:
    return MessageStore(disk, config, clock or ManualClock())


def message(body: bytes | str, topic: str = "T", queue_id: int = 0, keys: str = "", sys_flag: int = 0) -> Record:
    properties = f"KEYS\x01{keys}\x02".encode() if keys else b""
    plain = body.encode() if isinstance(body, str) else body
    return Record(topic=topic, queue_id=queue_id, body=plain, properties=properties, sys_flag=sys_flag)


def put(store: MessageStore, *bodies: bytes | str, topic: str = "T", queue_id: int = 0) -> list[int]:
    """One burst; the positions that it got."""
    return [place.position for place in store.put([message(body, topic, queue_id) for body in bodies])]


def bodies(store: MessageStore, topic: str = "T", queue_id: int = 0) -> list[bytes]:
    """Everything that a consumer of the queue gets, from its minimum on."""
    queue = store.queues.get(topic, queue_id)
    if queue is None:
        return []
    found: list[bytes] = []
    offset = queue.min_offset
    while offset < queue.readable_end:
        selection = store.reader.select(topic, queue_id, offset, max_count=32, max_bytes=1 << 20)
        for raw in store.reader.read_cold(selection.ranges):
            record = store.reader.record_at(int.from_bytes(raw[28:36], "big"))
            assert record is not None
            found.append(record.body)
        offset = selection.next_offset
    return found


def log_file(position: int) -> str:
    return f"commitlog/{position - position % SMALL.commit_log_file_bytes:020d}"


def flip(disk: SimulatedDisk, position: int) -> None:
    """Bit rot at a place of the log."""
    disk.flip_bit(log_file(position), position % SMALL.commit_log_file_bytes)


def by_key(store: MessageStore, topic: str, key: str, limit: int = 64) -> list[Record]:
    """The newest records with this key, in ascending order of position, as `MessageStore.by_key` finds them."""
    query = KeyQuery(topic, key, limit=limit)
    search = store.reader.search(query)
    while search is not None and not search.step():
        pass
    found = [] if search is None else sorted(set(search.found))
    return [record for place in found if (record := store.reader.keyed_at(place, query)) is not None]
