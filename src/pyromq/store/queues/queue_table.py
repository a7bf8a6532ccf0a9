"""All queues of the store by topic and queue id: loaded from their folders, or restored on first use, or made.

Recovery loads it; writer, readers and retention ask it for queues. It knows no records.

Queue offsets that were given out once stay reserved, also where the record, or the queue that knew it, is damaged. A
queue that is rebuilt from the log ends behind the last record that can still be read. If the one behind it is damaged,
its offset would be given out a second time, and groups that have committed it would never see the message that gets it.
So whoever rebuilds queues writes down how far they reached: the catalogue of a clean stop, or `store rebuild` by a file
of its own, which is there until the rebuilt queues are on the medium.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from ... import logs
from ..config import StoreConfig
from ..errors import StoreError
from ..files.disk import Disk, read_if_there, replace_durably
from ..files.file_sequence import IrregularFile, parse_queue_name
from ..files.open_files import OpenFiles, UnsyncedFiles
from ..layout import BATCH_QUEUES, QUEUES
from ..recovery.catalogue import Catalogue, KnownQueue
from .batch_queue import BatchQueue
from .consume_queue import ConsumeQueue
from .entry_log import EntryLog
from .queue import StoredQueue
from .unchanged_queues import UnchangedQueues, find_unchanged

log = logs.get("pyromq.store")

RESERVED_FILE = "pyromq/taken"


@dataclass(slots=True, eq=False, repr=False)
class QueueTable:
    """One writer. A topic's queues are all of one kind: batch queues if it says so or has them on disk."""

    disk: Disk
    files: OpenFiles
    unsynced: UnsyncedFiles
    config: StoreConfig
    is_batch_topic: Callable[[str], bool] = lambda topic: False
    on_remove: Callable[[str], None] = lambda topic: None  # called with the topic before its queues go
    on_make: list[Callable[[str], None]] = field(default_factory=list, init=False)  # with the topic of each new queue
    by_topic: dict[str, dict[int, StoredQueue]] = field(default_factory=dict, init=False)  # those that are awake
    unchanged: UnchangedQueues = field(default_factory=UnchangedQueues, init=False)

    def load(
        self, left: Sequence[KnownQueue] = (), folders: Mapping[str, int] | None = None
    ) -> list[tuple[StoredQueue, list[IrregularFile]]]:
        """Load every queue that has a folder, and return each with its irregular files.

        Queues that are as a clean stop `left` them, in these topic `folders`, stay in `unchanged` instead."""
        self.unchanged = find_unchanged(self.disk, self.config, left, folders or {})
        loaded = []
        for root in (QUEUES, BATCH_QUEUES):
            for topic in self.disk.list(root):
                if f"{root}/{topic}" not in self.unchanged.whole:
                    loaded += self._load_topic(root, topic)
        return loaded

    def _load_topic(self, root: str, topic: str) -> list[tuple[StoredQueue, list[IrregularFile]]]:
        loaded = []
        for name in self.disk.list(f"{root}/{topic}"):
            queue_id = parse_queue_name(name)
            if queue_id is None:
                log.warning("stray file in a topic's folder", name=f"{root}/{topic}/{name}")
            elif not self.unchanged.has(topic, queue_id):
                queue = self._make(topic, queue_id, batch=root == BATCH_QUEUES)
                loaded.append((queue, queue.load()))
        return loaded

    def _make(self, topic: str, queue_id: int, *, batch: bool) -> StoredQueue:
        entries = EntryLog(self.disk, self.files, self.unsynced, self.config, topic, queue_id, batch)
        queue: StoredQueue = BatchQueue(entries) if batch else ConsumeQueue(entries)
        self.by_topic.setdefault(topic, {})[queue_id] = queue
        for watcher in self.on_make:
            watcher(topic)
        return queue

    def get(self, topic: str, queue_id: int) -> StoredQueue | None:
        queue = self.by_topic.get(topic, {}).get(queue_id)
        return queue if queue is not None or not self.unchanged else self._restored(topic, queue_id)

    def get_or_make(self, topic: str, queue_id: int, *, holds_batch: bool = False) -> StoredQueue:
        """Return the queue, made if there is none. `holds_batch`: the record is an inner batch.

        Only batch queues can hold those.
        """
        queue = self.get(topic, queue_id)
        return queue if queue is not None else self._new(topic, queue_id, holds_batch)

    def _restored(self, topic: str, queue_id: int) -> StoredQueue | None:
        known = self.unchanged.take(topic, queue_id)
        if known is None or known.state is None:
            return None
        queue = self._make(topic, queue_id, batch=known.state.is_batch)
        queue.restore(known.state, known.next_offset)
        return queue

    def _new(self, topic: str, queue_id: int, holds_batch: bool) -> StoredQueue:
        if not topic or topic in (".", "..") or "/" in topic or "\0" in topic or queue_id < 0:
            raise StoreError(f"queue {queue_id} of topic {topic!r} cannot have a folder")
        return self._make(topic, queue_id, batch=self._has_batches(topic, holds_batch))

    def _has_batches(self, topic: str, holds_batch: bool) -> bool:
        """Return whether a new queue is a batch queue: like its siblings, else as the topic says."""
        siblings = self.by_topic.get(topic)
        if siblings:
            return isinstance(next(iter(siblings.values())), BatchQueue)
        for known in self.unchanged.of_topic(topic):
            return known.state is not None and known.state.is_batch
        return holds_batch or self.is_batch_topic(topic)

    def __iter__(self) -> Iterator[StoredQueue]:
        """Iterate over all queues; unchanged ones are restored by it."""
        for topic in self.topics():
            yield from self.of_topic(topic)

    def loaded(self) -> Iterator[StoredQueue]:
        for queues in list(self.by_topic.values()):
            yield from list(queues.values())

    def file_names(self) -> Iterator[str]:
        for queue in self.loaded():
            yield from queue.entries.file_names()
        yield from self.unchanged.file_names(self.config)

    def topics(self) -> list[str]:
        return list(dict.fromkeys([*self.by_topic, *self.unchanged.topics()]))

    def of_topic(self, topic: str) -> list[StoredQueue]:
        for known in self.unchanged.of_topic(topic):
            self._restored(topic, known.queue_id)
        return list(self.by_topic.get(topic, {}).values())

    def remove_topic(self, topic: str) -> None:
        """Remove a deleted topic's queues and folders; its records stay in the log until they expire."""
        if self.of_topic(topic):
            self.on_remove(topic)
            self.forget_topic(topic)

    def forget_topic(self, topic: str) -> None:
        """Remove the queues of a topic that was deleted before: a kill came before they went."""
        queues = self.of_topic(topic)
        self.by_topic.pop(topic, None)
        for queue in queues:
            queue.tail.is_removed = True
            queue.clear()
            root = BATCH_QUEUES if isinstance(queue, BatchQueue) else QUEUES
            self.files.finish_removals(f"{root}/{topic}/{queue.queue_id}/")  # files of it that have expired
            if self.disk.is_folder(f"{root}/{topic}/{queue.queue_id}"):
                self.disk.remove_folder(f"{root}/{topic}/{queue.queue_id}")
        for root in (QUEUES, BATCH_QUEUES):
            if self.disk.is_folder(f"{root}/{topic}") and not self.disk.list(f"{root}/{topic}"):
                self.disk.remove_folder(f"{root}/{topic}")
                self.unsynced.folders.add(root)


def queue_ends(disk: Disk, config: StoreConfig, catalogue: Catalogue | None, end: int) -> list[KnownQueue]:
    """Return how far each queue reaches in the log up to its `end`: by the catalogue, else by the queues."""
    if catalogue is not None:
        return catalogue.known_queues()
    files = OpenFiles(disk, 64)
    table = QueueTable(disk, files, UnsyncedFiles(), config)
    known = []
    for queue, _ in table.load():
        ahead = queue.count_from(end)  # entries for what the log does not have
        last = queue.last_entry()
        if last is not None and last.position >= 0 and queue.next_offset > ahead:
            known.append(KnownQueue(queue.topic, queue.queue_id, queue.next_offset - ahead))
    files.close()
    return known


def write_reserved(disk: Disk, queues: list[KnownQueue]) -> None:
    replace_durably(disk, RESERVED_FILE, msgspec.json.encode(queues))


def read_reserved(disk: Disk) -> list[KnownQueue]:
    try:
        return msgspec.json.decode(read_if_there(disk, RESERVED_FILE) or b"[]", type=list[KnownQueue])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
