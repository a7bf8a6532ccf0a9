"""What is wanted of the messages: a topic, times as people write them, a key or an id, a place, a cursor. Pure."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence

import msgspec

from ....admin.search import Window
from ....admin.topics import QueueRange
from ....model.times import parse_time

SHOWN_MESSAGES, MOST_MESSAGES = 50, 200
_CURE = "write yesterday 00:00, -2h, now, 2026-11-16T08:30 or milliseconds since 1970"


class MessagesQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`begin` and `to`: times, stored at or after and before. `key`: a key, or an id. `id`: the same, by its name.
    `broker`, `queue`, `offset`: a place. `cursor`: of the page before."""

    topic: str = ""
    begin: str = msgspec.field(default="", name="from")
    to: str = ""
    key: str = ""
    id: str = ""
    broker: str = ""
    queue: int | None = None
    offset: int | None = None
    cursor: str = ""
    per_page: int = SHOWN_MESSAGES

    @property
    def word(self) -> str:
        return (self.key or self.id).strip()

    @property
    def most(self) -> int:
        return min(max(1, self.per_page), MOST_MESSAGES)


class _Cursor(msgspec.Struct, frozen=True, array_like=True):
    """The window as it was understood, and of each queue: broker, number, first, end."""

    topic: str
    begin_ms: int
    end_ms: int | None
    queues: list[tuple[str, int, int, int]]


def window_of(wanted: MessagesQuery, now_ms: int) -> Window:
    """Return the times that are meant. msgspec.ValidationError names the one that is none."""
    begin_ms, end_ms = _time("from", wanted.begin, now_ms), _time("to", wanted.to, now_ms)
    if begin_ms is not None and end_ms is not None and end_ms <= begin_ms:
        raise msgspec.ValidationError("to: it is not after from, so no message could fit. Give a later one")
    return Window(begin_ms=max(0, begin_ms or 0), end_ms=end_ms, queue_id=wanted.queue)


def _time(name: str, text: str, now_ms: int) -> int | None:
    if not text.strip():
        return None
    try:
        return parse_time(text.strip(), now_ms)
    except ValueError:
        raise msgspec.ValidationError(f"{name}: {text!r} is no time: {_CURE}") from None


def cursor_text(topic: str, window: Window, rest: Sequence[QueueRange]) -> str:
    """Return where the next page begins; empty if nothing is left."""
    if not any(one.count for one in rest):
        return ""
    queues = [(one.place.name, one.queue_id, one.first, one.end) for one in rest]
    packed = msgspec.json.encode(_Cursor(topic, window.begin_ms, window.end_ms, queues))
    return urlsafe_b64encode(packed).decode()


def from_cursor(text: str, topic: str) -> tuple[Window, dict[tuple[str, int], tuple[int, int]]]:
    """Return the window, and first and end by broker and queue. msgspec.ValidationError: no page gave this one."""
    try:
        found = msgspec.json.decode(urlsafe_b64decode(text.encode("ascii", "strict")), type=_Cursor)
    except (ValueError, msgspec.DecodeError):
        raise msgspec.ValidationError("cursor: it is none of this page's. Begin without one") from None
    if found.topic != topic:
        raise msgspec.ValidationError(f"cursor: it is one of the topic {found.topic!r}. Begin without one")
    window = Window(begin_ms=found.begin_ms, end_ms=found.end_ms)
    return window, {(broker, queue): (first, end) for broker, queue, first, end in found.queues}
