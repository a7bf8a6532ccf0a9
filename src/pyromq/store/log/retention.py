"""Which commit log files may go, and when: by age at the hour of deletion, by disk use, by an absolute size, by hand.

`decide` is a pure function of what the store looks like; `Retention` carries it out a file at a time. Before a file
goes, the `carriers` are called with its range, so that records which must outlive it (pending timers and delays, half
messages) are put again. The last file never goes. Queues and index follow the start of the log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, Protocol

from ... import logs
from ...ambient import Clock
from ...config.settings import check_ranges, setting
from ...errors import ConfigError
from ...model.wire_text import whole_number
from ..files.disk import Disk, DiskUsage
from ..files.file_age import ClockJumps, LogFile, times_written

log = logs.get("pyromq.store")

_HOUR_MS = 3_600_000
_MANUAL_ROUNDS = 20
_MEASURE_AGAIN_S = 2.0

Carrier = Callable[[int, int], Awaitable[None]]  # start and end of the positions that are about to go


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionConfig:
    """RocketMQ's keys and defaults, and one of ours: `max_log_bytes`."""

    file_reserved_hours: int = setting(72, java="fileReservedTime", low=0, help="hours that a log file is kept")
    delete_when: str = setting("04", java="deleteWhen", help="hours of the day at which old files go, split by ;")
    disk_max_used_percent: int = setting(
        75,
        java="diskMaxUsedSpaceRatio",
        low=10,
        high=95,
        help="percent of disk use above which old files go at any hour",
    )
    disk_force_ratio: float = setting(
        0.85,
        java="diskSpaceCleanForciblyRatio",
        low=0,
        help="share of the disk above which the oldest go whatever their age; counts from 0.30 to 0.85",
    )
    disk_warning_ratio: float = setting(
        0.90,
        java="diskSpaceWarningLevelRatio",
        low=0,
        help="share of the disk above which writes are refused; counts from 0.35 to 0.90",
    )
    force_enabled: bool = setting(True, java="cleanFileForciblyEnable", help="allow deletion before the age is reached")
    max_log_bytes: int = setting(0, low=0, wide=True, help="the log's oldest files go above this size; 0 is no limit")
    files_per_round: int = setting(10, java="deleteFileBatchMax", low=1, help="most files that go in one round")
    pause_ms: int = setting(100, java="deleteCommitLogFilesInterval", low=0, help="time between two files of a round")
    in_use_ms: int = setting(
        120_000, java="destroyMapedFileIntervalForcibly", low=0, help="a file in use by a reader is kept so long"
    )
    round_ms: int = setting(10_000, java="cleanResourceInterval", low=10, help="time between two rounds")
    first_round_ms: int = setting(60_000, low=0, help="time before the first round")

    def __post_init__(self) -> None:
        check_ranges(self)
        for hour in self.delete_hours_text():
            if whole_number(hour, high=23) is None:
                raise ConfigError(
                    f"deleteWhen = {self.delete_when}: {hour!r} is no hour of the day; write 00 to 23, several with ; "
                    "between them (03;15)"
                )

    def delete_hours_text(self) -> list[str]:
        return [hour.strip() for hour in self.delete_when.split(";") if hour.strip()]

    @property
    def force_at(self) -> float:
        """Return the ratio as Java clamps it."""
        return min(max(self.disk_force_ratio, 0.30), 0.85)

    @property
    def warn_at(self) -> float:
        return min(max(self.disk_warning_ratio, 0.35), 0.90)

    def clamped(self) -> dict[str, float]:
        """Return by Java's keys the ratios that count as another number than the one given."""
        ratios = {
            "diskSpaceCleanForciblyRatio": (self.disk_force_ratio, self.force_at),
            "diskSpaceWarningLevelRatio": (self.disk_warning_ratio, self.warn_at),
        }
        return {key: counts for key, (given, counts) in ratios.items() if given != counts}


class DeletionPlan(NamedTuple):
    """How many of the oldest files go, and why (for the log line)."""

    files: int
    reason: str = ""


def decide(
    files: Sequence[LogFile],
    usage: DiskUsage,
    now_ms: int,
    config: RetentionConfig,
    by_hand: bool = False,
    by_age: bool = True,
) -> DeletionPlan:
    """Decide how many of `files`, the oldest first, go. The last one is being written and never goes."""
    candidates = files[:-1]
    ratio = usage.ratio
    if config.max_log_bytes and files:
        excess = files[-1].end - files[0].start - config.max_log_bytes
        too_many = sum(1 for file in candidates if file.start - files[0].start < excess)
        if too_many:
            size = files[-1].end - files[0].start
            reason = f"the log has {size} bytes, the limit is {config.max_log_bytes}"
            return DeletionPlan(min(too_many, config.files_per_round), reason)
    if config.force_enabled and ratio > config.force_at:
        reason = f"{ratio:.0%} of the disk are used, above {config.force_at:.0%} the oldest go"
        return DeletionPlan(min(len(candidates), config.files_per_round), reason)
    hour = f"{datetime.fromtimestamp(now_ms / 1000).hour:02d}"
    at_hour = hour in [text.zfill(2) for text in config.delete_hours_text()]
    if not (by_hand or (by_age and (at_hour or ratio * 100 > config.disk_max_used_percent))):
        return DeletionPlan(0)
    count = 0
    written = times_written(files, now_ms)
    while count < len(candidates) and now_ms - written[count] >= config.file_reserved_hours * _HOUR_MS:
        count += 1
    return DeletionPlan(min(count, config.files_per_round), f"older than {config.file_reserved_hours} hours")


@dataclass(slots=True, eq=False, repr=False)
class DiskSpaceGate:
    """Whether there is disk enough to write. Asked before each append; `measure` is called each round."""

    disk: Disk
    config: RetentionConfig
    clock: Clock
    on_change: Callable[[bool], None] = lambda is_refused: None  # called with whether writes are refused
    _measured_at: float = field(init=False)
    refusal: str | None = field(default=None, init=False)  # why writes are refused, as seen last: path, use and limit

    def __post_init__(self) -> None:
        self._measured_at = self.clock.monotonic()

    def use(self, config: RetentionConfig) -> None:
        self.config = config

    def why_refused(self) -> str | None:
        """Return why nothing may be written; None: write.

        A refused caller makes the gate measure again, every few seconds at most: there may be space by now, and the
        next round can be a minute away."""
        if self.refusal is not None and self.clock.monotonic() - self._measured_at >= _MEASURE_AGAIN_S:
            self.measure()
        return self.refusal

    def measure(self) -> DiskUsage:
        self._measured_at = self.clock.monotonic()
        usage = self.disk.usage()
        limit = self.config.warn_at
        if usage.ratio > limit:
            refusal = (
                f"{usage.ratio:.0%} of the disk of {self.disk.root} are used ({usage.used} of {usage.total} bytes), "
                f"above {limit:.0%} nothing is written (diskSpaceWarningLevelRatio): free some space"
            )
            if self.refusal is None:
                log.error("writes are refused", reason=refusal)
                self.on_change(True)
            self.refusal = refusal
        elif self.refusal is not None:
            log.warning("there is space again, writes go on", used=usage.used, total=usage.total)
            self.refusal = None
            self.on_change(False)
        return usage


class FilesInUse:
    """Readers say which log file they read, so that it is not pulled away under them. Event loop only."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._readers: dict[int, int] = {}
        self._wanted_since: dict[int, float] = {}

    @contextmanager
    def reading(self, *starts: int) -> Iterator[None]:
        """Keep files (by the position of their start) for the time of a read."""
        for start in starts:
            self._readers[start] = self._readers.get(start, 0) + 1
        try:
            yield
        finally:
            for start in starts:
                self._readers[start] -= 1
                if not self._readers[start]:
                    del self._readers[start]

    def may_go(self, start: int, patience_ms: int) -> bool:
        """Return False while someone reads the file, for `patience_ms` at most: open descriptors stay good."""
        if start not in self._readers:
            self._wanted_since.pop(start, None)
            return True
        since = self._wanted_since.setdefault(start, self._clock.monotonic())
        return (self._clock.monotonic() - since) * 1000 >= patience_ms


class ExpiringStore(Protocol):
    """What retention asks of the store."""

    def log_files(self) -> list[LogFile]:
        """Return the log's files, the oldest first."""
        ...

    async def drop_oldest_log_file(self) -> None:
        """Remove the oldest file and move the log's start; queues and index follow."""
        ...


@dataclass(slots=True, eq=False, repr=False)
class Retention:
    """Runs rounds. Event loop only."""

    store: ExpiringStore
    gate: DiskSpaceGate
    in_use: FilesInUse
    config: RetentionConfig
    clock: Clock
    carriers: list[Carrier] = field(default_factory=list)
    goes_by_age: Callable[[], bool] = lambda: True  # False: somebody else says when old files go
    wanted_from: Callable[[], int | None] = lambda: None  # another copy lacks the log from here on; None: none does
    _jumps: ClockJumps = field(init=False)
    _rounds_by_hand: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._jumps = ClockJumps(self.clock)

    def use(self, config: RetentionConfig) -> None:
        """Use other settings from the next round on: they are what operators change most while a broker runs."""
        self.config = config
        self.gate.use(config)

    def add_carrier(self, carrier: Carrier) -> None:
        """Await `carrier` before a file goes; if it raises, the file stays for this round."""
        self.carriers.append(carrier)

    def delete_by_hand(self) -> None:
        """Let the next rounds delete expired files at any hour (request code 329)."""
        self._rounds_by_hand = _MANUAL_ROUNDS

    @property
    def is_short(self) -> bool:
        """Return whether files go for want of space now, whatever their age."""
        files, config = self.store.log_files(), self.config
        size = files[-1].end - files[0].start if files else 0
        full = config.force_enabled and self.gate.measure().ratio > config.force_at
        return full or 0 < config.max_log_bytes < size

    async def run(self) -> None:
        await self.clock.sleep(self.config.first_round_ms / 1000)
        while True:
            await self.round()
            await self.clock.sleep(self.config.round_ms / 1000)

    async def round(self) -> int:
        """Run one round and return how many files went."""
        usage = self.gate.measure()
        by_hand = self._rounds_by_hand > 0
        self._rounds_by_hand = max(0, self._rounds_by_hand - 1)
        files = self.store.log_files()
        by_age = self._jumps.trusts_the_clock() and self.goes_by_age()
        decision = decide(files, usage, self.clock.now_ms(), self.config, by_hand, by_age)
        gone = 0
        for file in files[: decision.files]:
            if gone:
                await self.clock.sleep(self.config.pause_ms / 1000)
            if self._is_wanted(file):
                break
            if not await self._drop(file, decision.reason):
                break  # files go in order: what follows waits too
            gone += 1
        if gone:
            self.gate.measure()
        elif usage.ratio > self.config.warn_at:
            log.error("the disk is nearly full and no log file may go", used=usage.used, total=usage.total)
        return gone

    def _is_wanted(self, file: LogFile) -> bool:
        """Return whether another copy needs this file still. Want of space counts more."""
        wanted = self.wanted_from()
        if wanted is None or file.end <= wanted or self.is_short:
            return False
        log.info("a log file that should go is kept for a slave", start=file.start, slave_has=wanted)
        return True

    async def drop_before(self, position: int) -> int:
        """Let the files go that end at or before a position, and return how many went."""
        gone = 0
        for file in self.store.log_files()[:-1]:
            if file.end > position or not await self._drop(file, "the master's has gone"):
                break
            gone += 1
        return gone

    async def _drop(self, file: LogFile, reason: str) -> bool:
        if not self.in_use.may_go(file.start, self.config.in_use_ms):
            log.info("a log file that should go is being read", start=file.start)
            return False
        try:
            for carrier in self.carriers:
                await carrier(file.start, file.end)
        except Exception:
            log.exception("a log file stays: its records could not be carried forward", start=file.start)
            return False
        await self.store.drop_oldest_log_file()
        log.info("log file deleted", start=file.start, end=file.end, reason=reason)
        return True
