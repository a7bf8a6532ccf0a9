"""Reads an audit log: its lines in order, and whether it is all there and as it was written.

Files are only read, so a daemon may be writing them. What is found is an alarm (a line was changed, cut out or forged,
a file is missing) or a note (what a kill tore). Someone who may write to the folder could make the whole chain anew,
head included: only a line's hash that was kept elsewhere (`expected`) shows that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from .folder import AuditFolder, Head, HeadDamaged, before_first
from .lines import Line, Link, decode

_MOST_ALARMS = 100
_TRIES = 3


@dataclass(slots=True)
class AuditReport:
    """What was found. `last`: the end of the chain, to be kept elsewhere."""

    files: int = 0
    lines: int = 0
    last: Link | None = None
    alarms: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    more_alarms: int = 0

    def alarm(self, text: str) -> None:
        if len(self.alarms) < _MOST_ALARMS:
            self.alarms.append(text)
        else:
            self.more_alarms += 1


def verify(path: Path, expected: Link | None = None) -> AuditReport:
    """Check a whole log. ConfigError: there is none. `expected`: a line that it must have."""
    folder = AuditFolder(path)
    verdict = AuditReport()
    for _ in range(_TRIES):  # a daemon may have begun a file, and dropped the oldest, meanwhile
        verdict = AuditReport()
        try:
            _verify(folder, verdict, expected)
        except FileNotFoundError:
            continue
        if not verdict.alarms:
            break
    return verdict


def _verify(folder: AuditFolder, verdict: AuditReport, expected: Link | None) -> None:
    head: Head | None = None
    try:
        head = folder.head()
    except HeadDamaged as fault:
        verdict.alarm(str(fault))
    numbers = folder.numbers()
    if not numbers and head is None and not verdict.alarms:
        raise ConfigError(f"{folder.path}: there is no audit log here (audit-00000001.jsonl and head.json)")
    if head is None and not verdict.alarms:
        verdict.alarm("head.json is missing: whether the end was cut off is not known")
    if head is not None:
        numbers = _within(numbers, head, verdict)
    chain = _Chain(folder, verdict, head, expected)
    for before, number in zip([None, *numbers], numbers, strict=False):
        if before is not None and number != before + 1:
            verdict.alarm(f"{_names(before + 1, number - 1)} missing")
        chain.read(number, is_last=number == numbers[-1])
    verdict.files, verdict.last = len(numbers), chain.before
    chain.check_end()


def _within(numbers: list[int], head: Head, verdict: AuditReport) -> list[int]:
    """Return the files that the head names. Older ones were left by a kill while the oldest were removed."""
    kept = [number for number in numbers if number >= head.first]
    begins, ends = (kept[0], kept[-1]) if kept else (head.file + 1, head.first - 1)
    if head.file and begins > head.first and head.file >= head.first:
        verdict.alarm(f"{_names(head.first, begins - 1)} missing")
    if kept and ends < head.file:
        verdict.alarm(f"{_names(ends + 1, head.file)} missing")
    return kept


def _names(first: int, last: int) -> str:
    return f"file {first} is" if first == last else f"files {first} to {last} are"


@dataclass(slots=True)
class _Chain:
    folder: AuditFolder
    verdict: AuditReport
    head: Head | None
    expected: Link | None
    before: Link | None = None  # the place of the last line
    torn: tuple[str, bytes] | None = None  # what is no line: where, and its bytes

    def read(self, number: int, *, is_last: bool) -> None:
        name = self.folder.file(number).name
        with open(self.folder.file(number), "rb") as file:
            for count, raw in enumerate(file, 1):
                where = f"{name}, line {count}"
                line = decode(raw[:-1]) if raw.endswith(b"\n") else None
                if line is not None:
                    self._take(line, where, is_first=count == 1)
                elif raw.endswith(b"\n") or not is_last:
                    self._put_aside(where, raw)
                else:
                    self.verdict.notes.append(
                        f"{where} is not whole: it is being written, or a kill cut it off. Nothing before it is missing"
                    )

    def _put_aside(self, where: str, raw: bytes) -> None:
        """Keep what is no line until the next one says whether a kill left it so."""
        if self.torn is not None:
            self.torn = self.torn[0], self.torn[1] + raw
        else:
            self.torn = where, raw

    def _take(self, line: Line, where: str, *, is_first: bool) -> None:
        if self.torn is not None:
            self._judge_torn(line)
        self.verdict.lines += 1
        before = self.before
        if before is None:
            before = before_first(line) if is_first else Link(line.link.seq - 1, "")
        if not line.follows(before):
            self.verdict.alarm(f"{where}: {self._fault(line, before)}")
        if line.entry.get("kind") == "open" and "missing" in line.entry:
            self.verdict.alarm(f"{where}: when the daemon started, this was missing: {line.entry['missing']}")
        self._compare(line.link, where)
        self.before = line.link

    def _judge_torn(self, line: Line) -> None:
        where, raw = self.torn or ("", b"")
        self.torn = None
        if line.entry.get("tornHash") == hashlib.sha256(raw).hexdigest():
            self.verdict.notes.append(f"{where} is torn, as a kill leaves it: the start after it says so")
        else:
            self.verdict.alarm(f"{where} is no line of an audit log: it was changed")

    def _fault(self, line: Line, before: Link) -> str:
        seq = line.link.seq
        if seq > before.seq + 1:
            return f"lines {before.seq + 1} to {seq - 1} are missing" if seq > before.seq + 2 else "a line is missing"
        if seq <= before.seq:
            return f"number {seq} comes after {before.seq}: lines were put in, or their order was changed"
        return f"number {seq}, or the line before it, was changed"

    def _compare(self, link: Link, where: str) -> None:
        """Compare a line with what the head and the user know of it."""
        for known, who in ((self.head and self.head.link, "head.json"), (self.expected, "what you expect")):
            if known is not None and known.seq == link.seq and known.hash != link.hash:
                self.verdict.alarm(f"{where}: its hash is not that of {who}: the log was made anew")

    def check_end(self) -> None:
        if self.torn is not None:
            self.verdict.alarm(f"{self.torn[0]} is no line of an audit log: it was changed")
        last = 0 if self.before is None else self.before.seq
        for known, who in ((self.head and self.head.link, "head.json"), (self.expected, "what you expect")):
            if known is not None and known.seq > last:
                self.verdict.alarm(
                    f"the log ends at line {last}, and {who} names line {known.seq}: its end was cut off"
                )


def entries(path: Path, after: int = 0) -> Iterator[dict[str, Any]]:
    """Return the lines of a log beyond number `after`, the oldest first. ConfigError: there is no log."""
    folder = AuditFolder(path)
    numbers = folder.numbers()
    if not numbers:
        raise ConfigError(f"{path}: there is no audit log here (files named audit-00000001.jsonl)")
    for number in _since(folder, numbers, after):
        try:
            with open(folder.file(number), "rb") as file:
                for raw in file:
                    line = decode(raw.rstrip(b"\n"))
                    if line is not None and line.link.seq > after:
                        yield line.entry | {"hash": line.link.hash}
        except FileNotFoundError:
            continue  # the daemon has dropped it meanwhile


def _since(folder: AuditFolder, numbers: list[int], after: int) -> list[int]:
    """Return the files that may have lines beyond a number: the last one that begins before it, and later ones."""
    for index in range(len(numbers) - 1, 0, -1):
        try:
            with open(folder.file(numbers[index]), "rb") as file:
                line = decode(file.readline().rstrip(b"\n"))
        except FileNotFoundError:
            continue
        if line is not None and line.link.seq <= after:
            return numbers[index:]
    return numbers
