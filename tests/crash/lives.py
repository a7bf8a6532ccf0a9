"""Lives of a store on the simulated disk: open, check, work, fault; then again. One seed is one story."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeAlias

from pyromq.protocol.properties import encode_properties
from pyromq.protocol.record import Record
from pyromq.store.config import FlushMode, StoreConfig
from pyromq.store.errors import StoreNotWritable
from pyromq.store.files.disk import DiskError
from pyromq.store.message_store import MessageStore
from pyromq.store.tables.json_tables import JsonTable
from pyromq.store.tools.findings import OPEN_ANEW
from pyromq.store.tools.verify import verify_store
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import PAGE, PowerCut, SimulatedDisk
from tests.crash.history import Broken, History

TOPICS = ("orders", "payments")
QUEUES = 2
TABLE = "config/topics.json"


def small_config(mode: FlushMode = FlushMode.SYNC, **changes: Any) -> StoreConfig:
    """Files so small that a few dozen messages roll all of them."""
    sizes: dict[str, Any] = {
        "commit_log_file_bytes": 8192,
        "queue_file_bytes": 20 * 16,
        "batch_queue_file_bytes": 46 * 16,
        "index_slots": 8,
        "index_entries": 24,
        "allocation_step_bytes": 4096,
        "max_open_queue_files": 8,
        "flush_mode": mode,
    }
    return StoreConfig(**(sizes | changes))


def finish(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that never waits (blocking calls run at once), without an event loop."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise RuntimeError("it waited for something")


Fate: TypeAlias = Callable[["Story"], None]


@dataclass
class Story:
    """What happens is drawn from `rng`; `log` tells it again when it goes wrong."""

    rng: Random
    mode: FlushMode
    disk: SimulatedDisk
    clock: ManualClock
    history: History = field(default_factory=History)
    promised: int = 0  # everything up to here must be there at the next opening
    synced: int = 0  # everything up to here was acked as synced
    tables: int = 0  # entries of the table that were acked
    table_entries: int = 0  # entries that it may have
    log: list[str] = field(default_factory=list)
    fates: list[Fate] = field(default_factory=list)  # how the next lives end; drawn once they are used up
    syncs_fail: bool = False
    expires: bool = False
    capacity: int | None = None  # of a disk that is too small for the story

    @property
    def config(self) -> StoreConfig:
        return small_config(self.mode)

    # A life

    def live(self) -> None:
        """Open, check, work until a fault ends it."""
        if self.fates:
            with suppress(StoreNotWritable):
                self.work(self.open())
            self.fates.pop(0)(self)
            return
        cut = self.rng.random() < 0.6
        if cut:
            self.disk.cut_power_after(self.rng.choice([self.rng.randint(1, 40), self.rng.randint(1, 400)]))
        try:
            store = self.open()
            self.work(store)
            if self.rng.random() < 0.3:
                self.close(store)
                if self.rng.random() < 0.5:
                    self.disk.heal()
                    return
        except PowerCut:
            self.power_goes()
            return
        except StoreNotWritable:
            self.log.append("not writable")
        if cut or self.rng.random() < 0.5:
            self.power_goes()
        else:
            self.killed()

    def open(self) -> MessageStore:
        self.disk.capacity = 1 << 40  # someone made room before the start
        if self.rng.random() < 0.3:
            self.look_before_opening()
        store = MessageStore(self.disk, self.config, self.clock)
        self.log.append(f"opened at {store.commit_log.end}")
        if store.recovery.damage:
            raise Broken(f"damage where there was only a power cut: {store.recovery.damage}")
        self.history.check(store, self.promised, keep_seen=self.mode is FlushMode.SYNC)
        self.history.check_keys(store, self.history.puts[-10:] if self.rng.random() < 0.7 else self.history.puts)
        self.remember(store)
        self.check_table()
        if self.capacity is not None:
            self.disk.capacity = self.capacity
        return store

    def look_before_opening(self) -> None:
        """Whatever a fault left, it is nothing that opening does not repair, and verify says just that. Files that the
        checkpoint counts on are there: opening would write them anew, but no fault takes what was synced."""
        report = verify_store(self.disk, self.config)
        if report.exit_code > 1 or any(finding.remedy == OPEN_ANEW for finding in report.findings):
            raise Broken(f"verify before opening: {report.findings[:3]}")

    def close(self, store: MessageStore) -> None:
        try:
            store.close()
        except DiskError as fault:
            raise StoreNotWritable(f"no clean stop: {fault}") from fault
        self.remember(store)
        self.log.append("closed")

    def work(self, store: MessageStore) -> None:
        for _ in range(self.rng.randint(0, 40)):
            steps = {
                self.put: 20,
                self.flush_log: 8,
                self.flush_all: 4,
                self.make_ahead: 2,
                self.read: 4,
                self.change_table: 2,
                self.pass_time: 2,
                self.expire: self.expires,
                self.fail_a_sync: 2 * self.syncs_fail,
                self.change_room: 2 * (self.capacity is not None),
            }
            self.rng.choices(list(steps), list(steps.values()))[0](store)

    def power_goes(self) -> None:
        seed = self.rng.getrandbits(32)
        self.log.append(f"power cut, seed {seed}")
        self.disk = self.disk.crash(seed)
        self.promised = self.synced

    def remember(self, store: MessageStore) -> None:
        self.promised = self.synced = store.flushed.value

    def killed(self) -> None:
        """The page cache survives: everything whose put returned is promised, whatever the mode."""
        self.log.append("killed")
        self.disk = self.disk.kill()
        self.promised = max([self.promised, *(put.end for put in self.history.puts)])

    # Steps

    def put(self, store: MessageStore) -> None:
        topic, queue_id = self.rng.choice(TOPICS), self.rng.randrange(QUEUES)
        records = [self.record(topic, queue_id) for _ in range(self.rng.choice([1, 1, 1, 3]))]
        for record in records:
            self.history.attempt(record)
        try:
            places = store.put(records)
        except DiskError as fault:
            for record in records:
                del self.history.attempts[record.body]  # nothing of it may ever be seen
            self.log.append(f"refused: {fault}")
            return
        for placed, record in zip(places, records, strict=True):
            self.history.add(record, placed.queue_offset, placed.position, placed.end)
        self.log.append(f"put {len(records)} up to {store.commit_log.end}")

    def record(self, topic: str, queue_id: int) -> Record:
        key = f"key-{self.rng.getrandbits(64)}"
        filler = self.rng.choice([0, 20, 300, 1500])
        body = f"message {key} ".encode() + self.rng.randbytes(filler)
        properties = {"KEYS": key, "TAGS": self.rng.choice(["a", "b"])}
        return Record(topic=topic, queue_id=queue_id, body=body, properties=encode_properties(properties))

    def flush_log(self, store: MessageStore) -> None:
        finish(store.flush_log())
        self.remember(store)
        self.log.append(f"flushed to {self.promised}")

    def flush_all(self, store: MessageStore) -> None:
        finish(store.flush_all())
        self.remember(store)
        self.log.append(f"flushed all to {self.promised}")

    def make_ahead(self, store: MessageStore) -> None:
        finish(store.make_file_ahead())
        self.log.append("made a file ahead")

    def read(self, store: MessageStore) -> None:
        """A consumer somewhere: what it is shown it may act upon."""
        topic, queue_id = self.rng.choice(TOPICS), self.rng.randrange(QUEUES)
        queue = store.queues.get(topic, queue_id)
        if queue is not None:
            self.history.seen |= {
                put.number
                for put in self.history.puts
                if (put.topic, put.queue_id) == (topic, queue_id) and put.offset < queue.readable_end
            }

    def change_table(self, _: MessageStore) -> None:
        table = JsonTable(self.disk, TABLE)
        count = len(table.load().get("topicConfigTable", {})) + 1
        table.put("topicConfigTable", f"topic-{self.rng.getrandbits(64)}", {"perm": 6})
        self.table_entries = max(self.table_entries, count)
        try:
            table.save()
        except DiskError as fault:
            self.log.append(f"table not saved: {fault}")
        else:
            self.tables = self.table_entries = count

    def check_table(self) -> None:
        found = len(JsonTable(self.disk, TABLE).load().get("topicConfigTable", {}))
        if not self.tables <= found <= self.table_entries:
            raise Broken(f"the table has {found} entries, {self.tables} were acked")
        self.tables = self.table_entries = found

    def expire(self, store: MessageStore) -> None:
        """Retention takes the oldest log file, unless it is the last."""
        if len(store.log_files()) > 1:
            self.history.expired_before = max(self.history.expired_before, store.log_files()[0].end)
            finish(store.drop_oldest_log_file())
            self.log.append(f"expired up to {store.commit_log.start}")
            self.history.puts = [put for put in self.history.puts if put.position >= store.commit_log.start]

    def fail_a_sync(self, _: MessageStore) -> None:
        part = self.rng.choice(["commitlog/", "", "consumequeue/", "index/", "checkpoint", "topics.json", "pyromq"])
        self.disk.fail_sync_once(part)
        self.log.append(f"a sync of {part} will fail")

    def change_room(self, _: MessageStore) -> None:
        """Someone else fills the disk, or frees some."""
        self.disk.capacity = self.disk.usage().used + PAGE * self.rng.choice([0, 1, 2, 4, 1000])
        self.log.append(f"room for {self.disk.capacity - self.disk.usage().used} bytes")

    def pass_time(self, _: MessageStore) -> None:
        """The wall clock jumps, also back."""
        self.clock.step_wall(self.rng.choice([-3600, 1, 60]))


def tell(seed: int, lives: int = 3, syncs_fail: bool | None = None, fates: Sequence[Fate] = ()) -> Story:
    """One story from beginning to end. Raises Broken with the story in its notes."""
    rng = Random(seed)
    clock = ManualClock()
    story = Story(rng, rng.choice(list(FlushMode)), SimulatedDisk(now_ms=clock.now_ms), clock)
    story.syncs_fail = rng.random() < 0.2 if syncs_fail is None else syncs_fail
    story.fates = list(fates)
    story.expires = rng.random() < 0.3
    story.capacity = PAGE * rng.randint(20, 60) if rng.random() < 0.2 else None
    try:
        for _ in range(len(fates) or rng.randint(1, lives)):
            story.live()
        # The last word: whatever happened, the store opens, keeps its promises and is clean afterwards.
        story.capacity = None
        store = story.open()
        story.put(store)
        store.close()
        check_clean(story.disk, story.config)
    except Exception as fault:
        fault.add_note(f"seed {seed}, {story.mode.value}: " + "; ".join(story.log))
        raise
    return story


def check_clean(disk: SimulatedDisk, config: StoreConfig) -> None:
    report = verify_store(disk, config)
    if report.exit_code:
        raise Broken(f"verify after a clean stop: {report.findings[:5]}")
