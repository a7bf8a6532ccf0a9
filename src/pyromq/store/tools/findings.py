"""What `store verify` has to say: findings with a place and a remedy, and the report that gathers them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from enum import IntEnum
from typing import Any

_KEPT = 1000  # findings kept in full; further ones are counted


class Level(IntEnum):
    """How bad it is. The worst one is the exit code, a note counts as clean."""

    NOTE = 0
    REPAIRABLE = 1  # opening the store puts it right
    DAMAGE = 2  # something is lost, or needs a person


REBUILD = "run `pyromq store rebuild` on it"
IN_USE = "a broker runs on the store, and may just write it: verify again once it is stopped"
OPEN = "open the store: recovery puts it right"
OPEN_ANEW = "open the store: opening writes it anew from the log"


def remedy_of_missing(level: Level) -> str:
    """Return the remedy for something derived that is missing: recovery writes it again, or a person has it rebuilt."""
    return OPEN if level == Level.REPAIRABLE else REBUILD


@dataclass(frozen=True, slots=True)
class StoreFinding:
    """One fault: where it is, what it is, what to do."""

    level: Level
    file: str
    offset: int | None
    what: str
    remedy: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"level": self.level.name.lower()}


@dataclass(slots=True)
class Report:
    """The outcome of a verify run.

    `in_use`: a broker runs on the store. What opening would repair is then a note: the broker may just write it."""

    in_use: bool = False
    findings: list[StoreFinding] = field(default_factory=list)
    counts: dict[Level, int] = field(default_factory=lambda: dict.fromkeys(Level, 0))
    log_start: int = 0
    log_end: int = 0
    records: int = 0
    queues: int = 0
    queue_entries: int = 0
    index_files: int = 0
    index_entries: int = 0
    tables: int = 0

    def add(self, level: Level, file: str, offset: int | None, what: str, remedy: str) -> None:
        self.take(StoreFinding(level, file, offset, what, remedy))

    def take(self, finding: StoreFinding) -> None:
        if self.in_use:
            level = Level.NOTE if finding.level == Level.REPAIRABLE else finding.level
            finding = replace(finding, level=level, remedy=IN_USE)
        self.counts[finding.level] += 1
        if len(self.findings) < _KEPT:
            self.findings.append(finding)

    @property
    def exit_code(self) -> int:
        return max((level for level, count in self.counts.items() if count), default=Level.NOTE).value

    def as_dict(self) -> dict[str, Any]:
        return {
            "exitCode": self.exit_code,
            "inUse": self.in_use,
            "logStart": self.log_start,
            "logEnd": self.log_end,
            "records": self.records,
            "queues": self.queues,
            "queueEntries": self.queue_entries,
            "indexFiles": self.index_files,
            "indexEntries": self.index_entries,
            "tables": self.tables,
            "counts": {level.name.lower(): count for level, count in self.counts.items()},
            "findings": [finding.as_dict() for finding in self.findings],
        }
