"""What is undecided, for whoever asks: a list with ages and checks, and the counts in `config/transactionMetrics`.

The list is a request of our own (RocketMQ has none for it) and part of the inspection. Read-only.
"""

from __future__ import annotations

import msgspec

from ...errors import RequestRefused
from ...model.ids import offset_message_id
from ...model.wire_text import whole_number
from ...protocol.bodies.own import HalfMessageLine, HalfMessagesAnswer
from ...protocol.headers.admin import HalfMessagesRequest
from ...store.tables.json_tables import JsonTable
from ...transport.dispatch import Reply, RequestOf
from ..metadata.table_content import next_version, read_version
from .halves import Halves
from .undecided import Half

METRICS = "transactionCount"
MOST = 1000


class HalfListing:
    """Event loop only."""

    def __init__(self, halves: Halves, metrics: JsonTable) -> None:
        self._halves = halves
        self._metrics = metrics
        self._now_ms = halves.access.clock.now_ms
        self._version = read_version(metrics.load(), metrics.name)
        self._counted: dict[str, int] = {}

    def undecided(self, most: int) -> list[HalfMessageLine]:
        return [self._line(half) for half in self._halves.undecided.all()[:most]]

    async def __call__(self, request: RequestOf[HalfMessagesRequest, None]) -> Reply:
        """Answer with up to `most` (1,000) of a `topic` or `producerGroup`, from queue offset `from` on, and where
        to go on.
        """
        header = request.header
        begin, most = _number("from", header.begin, 0), min(_number("most", header.most, MOST), MOST)
        await self._halves.catch_up()
        wanted = [
            half
            for half in self._halves.undecided.all()
            if half.offset >= begin
            and header.topic in (None, half.topic)
            and header.producer_group in (None, half.group)
        ]
        wanted.sort(key=lambda half: half.offset)
        shown = wanted[:most]
        following = shown[-1].offset + 1 if len(shown) < len(wanted) and shown else None
        lines = [self._line(half) for half in shown]
        return Reply(body=HalfMessagesAnswer(half_messages=lines, total=len(wanted), next=following))

    def _line(self, half: Half) -> HalfMessageLine:
        return HalfMessageLine(
            topic=half.topic,
            producer_group=half.group,
            id=half.unique,
            age_seconds=max(0, self._now_ms() - half.born_ms) // 1000,
            checks=half.checks,
            position=half.position,
            offset_msg_id=offset_message_id(self._halves.access.store_host, half.position),
        )

    def count(self) -> None:
        """Write the counts into the metrics file, if something has changed. A topic that has none left stays with 0."""
        counts = dict.fromkeys(self._counted, 0) | dict(self._halves.undecided.by_topic)
        if counts == self._counted:
            return
        self._counted = counts
        now = self._now_ms()
        self._version = next_version(self._version, now)
        self._metrics.replace("dataVersion", msgspec.to_builtins(self._version))
        for topic, count in counts.items():
            self._metrics.put(METRICS, topic, {"count": count, "timeStamp": now})


def _number(name: str, text: str | None, otherwise: int) -> int:
    if not text:
        return otherwise
    number = whole_number(text)
    if number is None:
        raise RequestRefused(f"{name} is {text[:100]!r}: give a number from 0 on, or leave it out")
    return number
