"""The load of recovery: queues and index as they lie on disk, compared with what should be there.

`recovery.py` constructs it once the log's files are known, and repairs what it reports. Queues that are unchanged since
a clean stop of ours are not read (queues/unchanged_queues.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from ... import logs
from ..files.file_sequence import IrregularFile, parse_queue_name
from ..index.key_index import Index
from ..layout import BATCH_QUEUES, QUEUES, QueueEntry
from ..queues.java_queues import has_extensions
from ..queues.queue import StoredQueue
from ..queues.queue_table import read_reserved
from ..store_files import StoreFiles
from .checkpoint import reset_checkpoint
from .missing_files import damaged_index_files
from .store_state import StoreState

log = logs.get("pyromq.store")


class DerivedLoad:
    """What loading found. `incomplete`: queues that lack older entries, by topic and queue id."""

    def __init__(self, files: StoreFiles, state: StoreState) -> None:
        self._files = files
        self._log = files.commit_log
        self._queues = files.queues
        self._state = state
        self._left = state.catalogue
        self._known = [] if state.catalogue is None else state.catalogue.known_queues()
        self.has_extensions = has_extensions(files.disk)  # tag codes lead to extension files
        self.incomplete: set[tuple[str, int]] = set()
        self.reserved = read_reserved(files.disk)  # how far queues reached that are written again
        self.confirmed = 0  # end of the newest record that a queue entry knows
        # With the queue's end then. A second look at tens of thousands of queues would mean opening their files again.
        self._newest: dict[tuple[str, int], tuple[int, QueueEntry | None]] = {}
        loaded = self._load_queues()
        self._forget_deleted(files.deleted.positions)
        self._compare_with_catalogue()
        for name in sorted(state.gone):
            self._note_gone(name)
        index = files.index
        self.index_is_lost = index is not None and self._load_index(index)
        there = None if index is None else index.known_files()
        same_index = self._left is not None and self._left.index_files == there
        self.is_as_left = same_index and not (loaded or self.incomplete or self.index_is_lost)

    def last_entry(self, queue: StoredQueue) -> QueueEntry | None:
        """Return the newest entry: as it was loaded, unless the scan has added one behind it.

        Where the scan rewrote the loaded one, both lead below the log's end.
        """
        end, last = self._newest.get((queue.topic, queue.queue_id), (-1, None))
        return last if end == queue.next_offset else queue.last_entry()

    def _load_queues(self) -> int:
        """Load every queue that changed, and return how many did."""
        loaded = self._loaded_queues()
        for queue, irregular in loaded:
            for file in irregular:
                log.warning("irregular file in a queue", name=file.name, what=file.what)
            last = queue.last_entry()
            self._newest[queue.topic, queue.queue_id] = (queue.next_offset, last)
            if any(file.base >= 0 for file in irregular):
                self.incomplete.add((queue.topic, queue.queue_id))
            elif last is not None:
                self.confirmed = max(self.confirmed, last.position + last.size)
        self.confirmed = min(self.confirmed, self._log.sequence.limit)  # an entry may be damaged itself
        return len(loaded)

    def _loaded_queues(self) -> list[tuple[StoredQueue, list[IrregularFile]]]:
        """Load all queues, unless a clean stop of ours says which are unchanged and the log starts where it did."""
        left = self._left
        if left is None or self._state.synced is None or self.has_extensions or left.log_start != self._log.start:
            return self._queues.load()
        return self._queues.load(self._known, left.folders)

    def _forget_deleted(self, deleted: Mapping[str, int]) -> None:
        """Remove queues of topics that were deleted and not made again: a kill came before their files went."""
        for topic, position in deleted.items():
            queues = self._queues.of_topic(topic)
            if queues and all((last := queue.last_entry()) is None or last.position < position for queue in queues):
                self._queues.forget_topic(topic)
                self.incomplete -= {(queue.topic, queue.queue_id) for queue in queues}

    def _compare_with_catalogue(self) -> None:
        for known in self._queues.unchanged.lacking(self._known):
            there = self._queues.get(known.topic, known.queue_id)
            if known.next_offset and (there is None or not known.fits(there)):
                log.warning("queue has other entries than it was left with", topic=known.topic, queue=known.queue_id)
                self.incomplete.add((known.topic, known.queue_id))
                self.reserved.append(known)

    def _note_gone(self, name: str) -> None:
        """Note the queue of a file that should be there; where all its records have expired nothing is missing."""
        root, _, place = name.partition("/")
        topic, _, inside = place.partition("/")
        queue_id = parse_queue_name(inside.partition("/")[0])
        if root not in (QUEUES, BATCH_QUEUES) or queue_id is None:
            return
        queue = self._queues.get(topic, queue_id)
        last = None if queue is None else queue.last_entry()
        if last is None or last.position >= self._log.start:
            log.warning("queue file is gone", name=name)
            self.incomplete.add((topic, queue_id))

    def _load_index(self, index: Index) -> bool:
        """Load the index, and return whether a file of it is lost: then all of it must be written again."""
        lost = damaged_index_files(self._files.disk, self._files.config, self._state, self._log.start)
        for name, what in sorted(lost.items()):
            log.warning("the index is written again from the log, a file of it is lost", name=name, what=what)
        if lost:
            reset_checkpoint(
                self._files.disk, self._state.checkpoint
            )  # before the rest of a file that is cut short goes
        index.load()
        return bool(lost) or (self._state.clean_stop and self._lacks_files(index))

    def _lacks_files(self, index: Index) -> bool:
        """Return whether files are missing that nobody listed, or whose header is lost: such a file holds nothing.

        A store of Java's without any index file lacks them all."""
        there = {file.name for file in index.files}
        if self._left is None or self._left.index_files is None:
            return not there
        return any(file.name not in there and file.end_position >= self._log.start for file in self._left.index_files)
