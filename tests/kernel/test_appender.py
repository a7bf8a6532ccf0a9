"""The one append, in both kernels: what it asks before the first byte, what it leaves, and who hears of it."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pyromq.kernel import state
from pyromq.kernel.records import KEY, PAGE_SLOTS
from pyromq.kernel.state import AppendCalls, QueueTail
from tests.kernel.twins import native_module

Asked = list[tuple[str, int]]


class Full(Exception):
    """There is no room."""


class Broken(Exception):
    """What the store makes of a write that failed."""


class Store:
    """The state of a store whose files are byte strings by name; each write can be made to fail."""

    def __init__(self, classes: Any) -> None:
        self.files: dict[str, bytearray] = {"log": bytearray(), "q": bytearray(), "b": bytearray()}
        self.failing = ""
        self.room: Exception | None = None
        self.asked: list[tuple[Asked, int]] = []
        self.published: list[tuple[list[str], int]] = []
        self.failed: list[str] = []
        self.log = classes.LogTail(self.writer("log"))
        self.log.limit = 1 << 20
        self.queue = classes.QueueTail("T", 0, 20, self.writer("q"), set())
        self.batches = classes.QueueTail("B", 1, 46, self.writer("b"), set())
        self.index = classes.IndexState(self.roll, 1 << 20)
        self.index_files: list[Any] = []
        self._classes = classes
        self.appended, self.readable = classes.WatermarkState(0), classes.WatermarkState(0)
        self.listeners: dict[str, tuple[Callable[[QueueTail], None], ...]] = {}
        self.heard = 0
        calls = AppendCalls(self.make_room, self.break_off, self.publish, lambda: False, self.failed.append)
        self.appender = classes.Appender(
            self.log, self.index, self.appended, self.readable, self.listeners, [self.hear], True, calls
        )

    def writer(self, name: str) -> Callable[[int, bytes | memoryview], None]:
        def write(position: int, data: bytes | memoryview) -> None:
            if name == self.failing:
                raise OSError(f"{name} fails")
            assert position == len(self.files[name])
            self.files[name] += data

        return write

    def roll(self) -> None:
        tail = self._classes.IndexTail(4, 40, lambda: None)
        tail.slots = self._classes.SlotState(array("I", bytes(4 * 10)), bytearray(1), bytearray(1), {})
        assert PAGE_SLOTS >= 10
        self.index.tail = tail
        self.index_files.append(tail)

    def make_room(self, queues: Sequence[tuple[QueueTail, int]], keys: int) -> None:
        self.asked.append(([(tail.topic, count) for tail, count in queues], keys))
        if self.room is not None:
            raise self.room

    def break_off(self, fault: Exception) -> Exception:
        return Broken(str(fault))

    def publish(self, queues: Sequence[QueueTail], end: int) -> None:
        """As the store does."""
        self.published.append(([tail.topic for tail in queues], end))
        for tail in queues:
            tail.readable_end = tail.next_offset
            for listener in self.listeners.get(tail.topic, ()):
                try:
                    listener(tail)
                except Exception:
                    self.failed.append(tail.topic)
        self.appended.value = self.readable.value = end
        self.hear()

    def hear(self) -> None:
        self.heard += 1

    def append(self, keys: int = 2) -> None:
        queues = [(self.queue, bytes(40), 2), (self.batches, bytes(46), 5)]
        hashed = b"".join(KEY.pack(number, 100 + number) for number in range(keys))
        self.appender.append(b"records", self.log.end + 3, 77, queues, hashed)

    def numbers(self) -> dict[str, Any]:
        return {
            "log": (self.log.end, self.log.last_time, self.log.last_position),
            "queue": (self.queue.end, self.queue.next_offset, self.queue.readable_end),
            "batches": (self.batches.end, self.batches.next_offset, self.batches.readable_end),
            "index": (self.index.covered, [(file.next_entry, file.pending) for file in self.index_files]),
            "watermarks": (self.appended.value, self.readable.value, self.heard),
            "files": {name: bytes(content) for name, content in self.files.items()},
        }


@pytest.fixture(params=["python", "native"])
def store(request: pytest.FixtureRequest) -> Store:
    return Store(state.PYTHON if request.param == "python" else native_module())


def test_both_leave_the_same() -> None:
    left = []
    for classes in (state.PYTHON, native_module()):
        store = Store(classes)
        for keys in (2, 0, 5):  # the last ones go on in the next index file
            store.append(keys)
        left.append(store.numbers())
    assert left[0] == left[1]
    assert left[0]["log"] == (21, 77, 17)
    assert left[0]["queue"] == (6, 6, 6)
    assert left[0]["batches"] == (3, 15, 15)
    assert [entries for entries, _ in left[0]["index"][1]] == [4, 4, 2]
    assert left[0]["watermarks"] == (21, 21, 3)


def test_room_is_asked_for_before_the_first_byte(store: Store) -> None:
    store.append()
    assert store.asked == [([("T", 2), ("B", 1)], 2)]
    before = store.numbers()
    store.room = Full("no room")
    with pytest.raises(Full):
        store.append()
    assert store.numbers() == before


@pytest.mark.parametrize("part", ["log", "q", "b"])
def test_a_write_that_fails_is_for_the_store_to_break_off(store: Store, part: str) -> None:
    store.append()
    store.failing = part
    with pytest.raises(Broken, match=f"{part} fails") as raised:
        store.append()
    assert isinstance(raised.value.__cause__, OSError)
    assert store.heard == 1
    assert store.readable.value == 7


def test_the_flusher_is_called_before_the_queues_have_their_entries(store: Store) -> None:
    seen: list[tuple[int, int]] = []
    store.log.on_write = lambda: seen.append((store.log.end, store.queue.end))
    store.append()
    assert seen == [(7, 0)]


def test_who_waits_for_a_watermark_is_told_by_the_store(store: Store) -> None:
    store.appended.is_watched = True
    store.append()
    assert store.published == [(["T", "B"], 7)]


def test_a_listener_that_fails_takes_nobody_along(store: Store) -> None:
    heard: list[tuple[str, int]] = []

    def fail(tail: QueueTail) -> None:
        raise RuntimeError("who listens has a fault")

    store.listeners["T"] = (fail, lambda tail: heard.append((tail.topic, tail.readable_end)))
    store.append()
    assert (heard, store.failed, store.heard) == ([("T", 2)], ["T"], 1)
