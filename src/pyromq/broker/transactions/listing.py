"""What is undecided, for whoever asks: a list with ages and checks, and the counts in `config/transactionMetrics`.

The list is a request of our own (RocketMQ has none for it) and part of the inspection. Read-only.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ...errors import RequestRefused
from ...model.ids import offset_message_id
from ...model.wire_text import whole_number
from ...store.tables.json_tables import JsonTable
from ...transport.dispatch import Reply, Request
from ..metadata.table_content import next_version, read_version
from .half import Half
from .halves import Halves

METRICS = "transactionCount"
MOST = 1000


class HalfListing:
    """Event loop only."""

    def __init__(self, halves: Halves, metrics: JsonTable, store_host: bytes, now_ms: Callable[[], int]) -> None:
        self._halves = halves
        self._metrics = metrics
        self._store_host = store_host
        self._now_ms = now_ms
        self._version = read_version(metrics.load(), metrics.name)
        self._counted: dict[str, int] = {}

    @property
    def lost(self) -> int:
        """Return how many were lost since the start."""
        return self._halves.lost

    def undecided(self, most: int) -> list[dict[str, object]]:
        """Return the oldest undecided messages."""
        return [self._line(half) for half in self._halves.undecided.all()[:most]]

    async def __call__(self, request: Request) -> Reply:
        """Answer with up to `most` (1,000) of a `topic` or `producerGroup`, from queue offset `from` on, and where
        to go on.
        """
        fields = request.command.fields
        begin, most = _number(fields, "from", 0), min(_number(fields, "most", MOST), MOST)
        await self._halves.catch_up()
        wanted = [
            half
            for half in self._halves.undecided.all()
            if half.offset >= begin
            and fields.get("topic", half.topic) == half.topic
            and fields.get("producerGroup", half.group) == half.group
        ]
        wanted.sort(key=lambda half: half.offset)
        shown = wanted[:most]
        answer = {
            "halfMessages": [self._line(half) for half in shown],
            "total": len(wanted),
            "next": shown[-1].offset + 1 if len(shown) < len(wanted) and shown else None,
        }
        return Reply(body=msgspec.json.encode(answer))

    def _line(self, half: Half) -> dict[str, object]:
        return {
            "topic": half.topic,
            "producerGroup": half.group,
            "id": half.unique,
            "ageSeconds": max(0, self._now_ms() - half.born_ms) // 1000,
            "checks": half.checks,
            "position": half.position,
            "offsetMsgId": offset_message_id(self._store_host, half.position),  # what request 323 takes
        }

    def count(self) -> None:
        """Write the counts into the metrics file, if something has changed. A topic that has none left stays with 0."""
        counts = dict.fromkeys(self._counted, 0) | dict(self._halves.open_by_topic())
        if counts == self._counted:
            return
        self._counted = counts
        now = self._now_ms()
        self._version = next_version(self._version, now)
        self._metrics.replace("dataVersion", msgspec.to_builtins(self._version))
        for topic, count in counts.items():
            self._metrics.put(METRICS, topic, {"count": count, "timeStamp": now})


def _number(fields: dict[str, str], name: str, otherwise: int) -> int:
    text = fields.get(name, "")
    if not text:
        return otherwise
    number = whole_number(text)
    if number is None:
        raise RequestRefused(f"{name} is {text[:100]!r}: give a number from 0 on, or leave it out")
    return number
