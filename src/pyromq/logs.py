"""Structured log lines over standard logging: an event and its fields, one line each.

    log = logs.get("pyromq.namesrv")
    log.warning("broker expired", broker="broker-a", address="10.0.0.1:10911", silent_ms=120_331)

The SDK emits ordinary `logging` records, so applications keep their own set-up: the message has everything, and
`record.event` and `record.fields` have it apart.
Daemons call `configure` once. `Limited` is for lines that a hostile peer could repeat without end.
"""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Literal, NamedTuple, TextIO

import msgspec

from .ambient import Clock
from .model.foreign_text import one_line, visible

LogFormat = Literal["text", "json"]

_ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None]
_LONGEST = 4096  # characters of one field


@dataclass(frozen=True, slots=True)
class EventLog:
    """A logger whose lines are an event in words plus named fields."""

    logger: logging.Logger

    def debug(self, event: str, /, **fields: object) -> None:
        self._emit(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        self._emit(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        self._emit(logging.WARNING, event, fields)

    def error(self, event: str, /, **fields: object) -> None:
        self._emit(logging.ERROR, event, fields)

    def exception(self, event: str, /, **fields: object) -> None:
        """Log an error with the traceback of the exception being handled."""
        self._emit(logging.ERROR, event, fields, exc_info=True)

    def traceback(self, event: str, fault: Exception, trace: TracebackType | None, /, **fields: object) -> None:
        """Log a warning with the traceback of this exception, or with that part of it."""
        self._emit(logging.WARNING, event, fields, exc_info=(type(fault), fault, trace))

    def _emit(self, level: int, event: str, fields: dict[str, object], exc_info: bool | _ExceptionInfo = False) -> None:
        if self.logger.isEnabledFor(level):
            # It goes in as an argument, so that a % in it is never taken for a format.
            extra = {"event": event, "fields": fields}
            self.logger.log(level, "%s", _Line(event, fields), extra=extra, exc_info=exc_info, stacklevel=3)


class _Line(NamedTuple):
    """Put together if somebody shows it."""

    event: str
    fields: dict[str, object]

    def __str__(self) -> str:
        return one_line(self.event) + "".join(f" {name}={_plain(value)}" for name, value in self.fields.items())


@dataclass(slots=True, eq=False, repr=False)
class Limited:
    """Lets one line per key through in `period_s`, and says with the next one how many were held back."""

    log: EventLog
    clock: Clock
    period_s: float = 5.0
    max_keys: int = 1024
    _seen: dict[str, tuple[float, int]] = field(init=False, default_factory=dict)

    def warning(self, event: str, /, **fields: object) -> None:
        """Log a warning, limited by the event text alone: many peers doing the same wrong thing share one budget."""
        if self.lets_through(event, fields):
            self.log.warning(event, **fields)

    def exception(self, event: str, /, **fields: object) -> None:
        """Log an error with the traceback of the exception being handled, limited in the same way."""
        if self.lets_through(event, fields):
            self.log.exception(event, **fields)

    def lets_through(self, key: str, fields: dict[str, object]) -> bool:
        """Return whether a line of this key may be logged now; `fields` get the number of those held back before."""
        now = self.clock.monotonic()
        last, held = self._seen.get(key, (float("-inf"), 0))
        if now - last < self.period_s:
            self._seen[key] = (last, held + 1)
            return False
        if len(self._seen) >= self.max_keys:
            self._seen.clear()
        self._seen[key] = (now, 0)
        if held:
            fields["held_back"] = held
        return True


class TextFormatter(logging.Formatter):
    """`2026-11-15T21:40:01.123Z WARNING pyromq.namesrv broker expired broker=broker-a`"""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{_stamp(record)} {record.levelname} {record.name} {one_line(record.getMessage())}"
        if record.exc_info:
            # Set in, so that no line of an exception's text can be taken for one of the log.
            line += "".join(f"\n  {one}" for one in visible(self.formatException(record.exc_info)).split("\n"))
        return line


class JsonFormatter(logging.Formatter):
    """One JSON object per line; a traceback is a field, so the line stays one line."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": _stamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": getattr(record, "event", None) or record.getMessage(),
        }
        for name, value in getattr(record, "fields", {}).items():
            entry[f"field_{name}" if name in entry else name] = _cut(value) if isinstance(value, str) else value
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        try:
            return visible(msgspec.json.encode(entry, enc_hook=str).decode())
        except UnicodeEncodeError:  # half of a surrogate pair, which only the other writer has an escape for
            return json.dumps(entry, default=str)


def get(name: str) -> EventLog:
    return EventLog(logging.getLogger(name))


def configure(level: str = "info", log_format: LogFormat = "text", stream: TextIO | None = None) -> None:
    """Send every pyromq line to `stream` (stderr by default). For daemons and tools, never for the SDK."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    root = logging.getLogger("pyromq")
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False


def show_others() -> None:
    """Send lines of other loggers the same way, at the same level; nothing if somebody has set up the root logger."""
    ours, root = logging.getLogger("pyromq"), logging.getLogger()
    if not root.handlers:
        root.handlers[:] = ours.handlers
        root.setLevel(ours.level)


def _stamp(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def _plain(value: object) -> str:
    """Return a field's value on a text line, quoted if it has blanks or control characters: a line stays one line."""
    text = _cut(str(value))
    if text and text.isprintable() and " " not in text and '"' not in text:
        return text
    return visible(json.dumps(text, ensure_ascii=False))


def _cut(text: str) -> str:
    """Cut a long text: a peer may send names of a megabyte."""
    left = len(text) - _LONGEST
    return text if left <= 0 else f"{text[:_LONGEST]}... and {left} characters more"
