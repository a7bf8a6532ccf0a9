"""What `pyromq top` draws, and the keys that change it. Knows no cluster: frames are handed in."""

from __future__ import annotations

import asyncio
import os
import sys
import termios
import tty
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from ...text import tables
from ...text.colour import STRONG, Painted
from ...text.screen import cut, wrapped
from ...text.values import moment

BARS = "▁▂▃▄▅▆▇█"
TREND = 12  # frames in a sparkline
KEYS = {
    "q": "end",
    "h": "show or hide these keys",
    "s": "sort by the next column: rate or lag, messages, name",
    "r": "turn the order round",
    "+": "more lines of each table",
    "-": "fewer lines",
}
# What topics and groups are sorted by; numbers begin with the greatest.
SORTS = {"rate": ("perSecond", "lag"), "messages": ("messages", "perSecond"), "name": ("topic", "group")}


@dataclass(slots=True)
class Frame:
    """What one round of questions found. `ends` and `done` are sums of offsets by topic and by group."""

    at: float
    brokers: list[dict[str, Any]] = field(default_factory=list)
    topics: list[dict[str, Any]] = field(default_factory=list)
    groups: list[dict[str, Any]] = field(default_factory=list)
    ends: dict[str, int] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)

    def with_rates_since(self, last: Frame | None) -> Frame:
        if last is not None and self.at > last.at:
            seconds = self.at - last.at
            for rows, name, now, then in (
                (self.topics, "topic", self.ends, last.ends),
                (self.groups, "group", self.done, last.done),
            ):
                for row in rows:
                    if row[name] in then:
                        row["perSecond"] = max(0.0, (now[row[name]] - then[row[name]]) / seconds)
        return self


@dataclass(slots=True)
class Screen:
    """Event loop only. One for a run of `top`."""

    most: int
    shows_trends: bool = True
    frame: Frame | None = None
    fault: str = ""
    sort: str = "rate"
    is_turned: bool = False
    shows_help: bool = False
    _now_ms: int = 0
    _rates: dict[tuple[str, str], deque[float]] = field(default_factory=dict)  # by kind and name: the last frames'

    def show(self, frame: Frame, now_ms: int) -> None:
        """Keep the next frame, with its rates."""
        self.frame, self.fault, self._now_ms = frame, "", now_ms
        before, self._rates = self._rates, {}  # what is gone is forgotten
        for name, row in self._named():
            key = name, row[name]
            self._rates[key] = before.get(key) or deque(maxlen=TREND)
            self._rates[key].append(row["perSecond"])

    def press(self, key: str, stop: asyncio.Event) -> None:
        if key == "q":
            stop.set()
        elif key == "h":
            self.shows_help = not self.shows_help
        elif key == "s":
            names = list(SORTS)
            self.sort = names[(names.index(self.sort) + 1) % len(names)]
        elif key == "r":
            self.is_turned = not self.is_turned
        elif key in "+-":
            self.most = max(1, self.most + (5 if key == "+" else -5))

    def lines(self, columns: int | None) -> Iterator[str]:
        """Yield the frame: cut at the terminal's edge while it is redrawn, as lists where it stands for good."""
        for line in self._lines(None if self.shows_trends else columns):
            if line == self.fault:
                yield from wrapped(line, columns)
            else:
                yield cut(line, columns) if self.shows_trends else line

    def _lines(self, columns: int | None) -> Iterator[str]:
        frame = self.frame
        if frame is not None:
            counts = f"{len(frame.brokers)} brokers, {len(frame.topics)} topics, {len(frame.groups)} groups"
            keys = f"   by {self.sort}{', turned round' * self.is_turned}   h keys, q end" if self.shows_trends else ""
            yield Painted((counts, STRONG), (f"   {moment(self._now_ms)[:19]}{keys}", ""))
        if self.fault:
            yield self.fault
        if self.shows_help:
            yield from (f"  {key}  {text}" for key, text in KEYS.items())
        if frame is None:
            return
        for title, rows in self._tables(frame):
            if rows:
                yield ""
                yield Painted((title, STRONG))
                yield from tables.indented(rows[: self.most], columns)
            if len(rows) > self.most:
                yield f"  ... {len(rows) - self.most} more"

    def _named(self) -> Iterator[tuple[str, dict[str, Any]]]:
        if self.frame is not None:
            yield from (("topic", row) for row in self.frame.topics)
            yield from (("group", row) for row in self.frame.groups)

    def _tables(self, frame: Frame) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        yield "brokers", frame.brokers
        of_topics, of_groups = SORTS[self.sort]
        of_groups = "lag" if of_groups not in (frame.groups or [{"lag": 0}])[0] else of_groups
        for name, rows, column in (("topic", frame.topics, of_topics), ("group", frame.groups, of_groups)):
            by_name = sorted(rows, key=lambda row: str(row[name]))
            if column != name:
                by_name.sort(key=lambda row: -row[column])
            ordered = by_name[::-1] if self.is_turned else by_name
            yield f"{name}s", [row | self._trend(name, row) for row in ordered]

    def _trend(self, name: str, row: dict[str, Any]) -> dict[str, str]:
        if not self.shows_trends:
            return {}
        rates = self._rates.get((name, row[name]), ())
        return {"trend": sparkline(list(rates))}


def sparkline(rates: list[float]) -> str:
    """Return a bar for each rate, the greatest of them as high as a letter."""
    top = max(rates, default=0.0)
    return "".join(BARS[round(rate / top * (len(BARS) - 1))] if top > 0 else BARS[0] for rate in rates)


@contextmanager
def pressed_keys(press: Callable[[str], None], *, wanted: bool) -> Iterator[asyncio.Event]:
    """Call `press` with each key while inside, and set the event; only where a person is at a terminal."""
    is_changed = asyncio.Event()
    if not wanted or not (sys.stdin.isatty() and sys.stdout.isatty()):
        yield is_changed
        return
    descriptor = sys.stdin.fileno()

    def read() -> None:
        typed = b""
        with suppress(OSError):  # the terminal is gone
            typed = os.read(descriptor, 64)
        if not typed:
            loop.remove_reader(descriptor)  # it would be ready for ever
        for key in typed.decode("ascii", "ignore"):
            press(key)
        is_changed.set()

    before, loop = termios.tcgetattr(descriptor), asyncio.get_running_loop()
    tty.setcbreak(descriptor)  # keys count without Enter; Ctrl-C stays a signal
    loop.add_reader(descriptor, read)
    try:
        yield is_changed
    finally:
        loop.remove_reader(descriptor)
        with suppress(termios.error):
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
