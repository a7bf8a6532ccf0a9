"""Queues that nobody has used since a clean stop: known from the catalogue, their files not read.

A queue counts as unchanged while its files bear the stamps that the clean stop noted; any other is loaded and compared
(recovery/derived_load.py). `QueueTable` restores a queue on its first use, without a read. One writer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from ..config import StoreConfig
from ..files.disk import Disk, folder_of
from ..files.file_sequence import segment_name
from ..layout import BATCH_QUEUES, QUEUES
from ..recovery.catalogue import KnownQueue, last_entry_of
from .entry_log import SavedQueueState
from .queue import StoredQueue

_FIRST_NAME = segment_name(0)  # with tens of thousands of queues nearly all have one file


class UnchangedQueues:
    """Queues that a clean stop left unchanged, by topic and queue id, so that opening need not read their files.

    `whole` has the topic folders that contain such queues only."""

    def __init__(self, queues: Iterable[KnownQueue] = ()) -> None:
        self._by_topic: dict[str, dict[int, KnownQueue]] = defaultdict(dict)
        self._count = 0
        self.whole: set[str] = set()
        for known in queues:
            self._by_topic[known.topic][known.queue_id] = known
            self._count += 1

    def __bool__(self) -> bool:
        return bool(self._by_topic)

    def __iter__(self) -> Iterator[KnownQueue]:
        for queues in list(self._by_topic.values()):
            yield from list(queues.values())

    def topics(self) -> list[str]:
        return list(self._by_topic)

    def of_topic(self, topic: str) -> list[KnownQueue]:
        return list(self._by_topic.get(topic, {}).values())

    def lacking(self, known: Sequence[KnownQueue]) -> list[KnownQueue]:
        """Return the known queues that are not unchanged."""
        return [] if self._count == len(known) else [one for one in known if not self.has(one.topic, one.queue_id)]

    def has(self, topic: str, queue_id: int) -> bool:
        return queue_id in self._by_topic.get(topic, ())

    def file_names(self, config: StoreConfig) -> Iterator[str]:
        sizes = _sizes(config)
        for known in self:
            if known.state is not None:
                for base in range(known.state.first_file, known.state.last_file + 1, sizes[known.state.is_batch]):
                    yield f"{_folder(known, known.state)}/{segment_name(base)}"

    def take(self, topic: str, queue_id: int) -> KnownQueue | None:
        """Remove and return a queue that is about to be used."""
        queues = self._by_topic.get(topic)
        known = None if queues is None else queues.pop(queue_id, None)
        if queues is not None and not queues:
            del self._by_topic[topic]
        self._count -= known is not None
        return known


def find_unchanged(
    disk: Disk, config: StoreConfig, queues: Sequence[KnownQueue], folders: Mapping[str, int]
) -> UnchangedQueues:
    """Return the queues of a catalogue whose files nobody has touched, by one stamp for each file."""
    files = disk.stamps(_last_file(_folder(known, known.state), known.state) for known in queues)
    sizes = _sizes(config)
    unchanged = UnchangedQueues(
        known
        for known, stamp in zip(queues, files, strict=True)
        if (state := known.state) is not None
        and stamp == (sizes[state.is_batch], state.stamp)
        and (state.first_file == state.last_file or _has_older_files(disk, known, state, sizes[state.is_batch]))
    )
    touched = {known.topic for known in unchanged.lacking(queues)}
    for (folder, stamp), (_, now) in zip(folders.items(), disk.stamps(folders), strict=True):
        if stamp == now and folder.partition("/")[2] not in touched:
            unchanged.whole.add(folder)
    return unchanged


def _has_older_files(disk: Disk, known: KnownQueue, state: SavedQueueState, size: int) -> bool:
    """Return whether all files before the last are there with their full length: nobody writes to them any more."""
    folder = _folder(known, state)
    names = [f"{folder}/{segment_name(base)}" for base in range(state.first_file, state.last_file, size)]
    (_, changed), *older = disk.stamps([folder, *names])
    return changed == state.folder_stamp and all(length == size for length, _ in older)


def describe_queues(disk: Disk, loaded: Sequence[StoredQueue]) -> list[KnownQueue]:
    """Describe queues for the catalogue, once all is synced: the state of each, with the stamps of its files."""
    saved_state = [(queue, state) for queue in loaded if (state := queue.saved_state()) is not None]
    folders = [_folder(queue, state) for queue, state in saved_state]
    files = [_last_file(folder, state) for folder, (_, state) in zip(folders, saved_state, strict=True)]
    states = {
        id(queue): replace(state, stamp=file, folder_stamp=folder)
        for (queue, state), (_, file), (_, folder) in zip(
            saved_state, disk.stamps(files), disk.stamps(folders), strict=True
        )
    }
    return [
        KnownQueue(queue.topic, queue.queue_id, queue.next_offset, last_entry_of(queue), states.get(id(queue)))
        for queue in loaded
    ]


def folder_stamps(disk: Disk, queues: Iterable[KnownQueue]) -> dict[str, int]:
    folders = sorted({folder_of(_folder(known, known.state)) for known in queues if known.state is not None})
    return {folder: stamp for folder, (_, stamp) in zip(folders, disk.stamps(folders), strict=True)}


def _folder(queue: KnownQueue | StoredQueue, state: SavedQueueState | None) -> str:
    return f"{BATCH_QUEUES if state is not None and state.is_batch else QUEUES}/{queue.topic}/{queue.queue_id}"


def _sizes(config: StoreConfig) -> tuple[int, int]:
    """Return the sizes of queue files, by whether it is a batch queue."""
    return config.queue_file_bytes, config.batch_queue_file_bytes


def _last_file(folder: str, state: SavedQueueState | None) -> str:
    return f"{folder}/{segment_name(state.last_file) if state is not None and state.last_file else _FIRST_NAME}"
