"""What a capture is scraped for: read from its state, which is there anyway. All names are ours."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from .. import __version__
from ..metrics.families import Family, LabelSets, Merge, MetricKind, Value
from .rounds import Rounds
from .status import behind_ms, phase_of

_PHASES = ("not begun", "snapshot", "stream and snapshot", "stream")


@dataclass(slots=True, eq=False, repr=False)
class CdcMetrics:
    """Event loop only."""

    labels: LabelSets
    rounds: Rounds

    async def collect(self) -> AsyncIterator[Family]:
        state, now_ms = self.rounds.state, self.rounds.clock.now_ms()
        build = self.labels.of(version=__version__)
        yield Family("pyromq_build_info", MetricKind.GAUGE, "1; its labels say which build serves.", [(build, 1)])
        phases = [(self.labels.of(phase=phase), int(phase == phase_of(state))) for phase in _PHASES]
        yield Family("pyromq_cdc_phase", MetricKind.GAUGE, "1 of the phase that the capture is in.", phases)
        changes = [(self.labels.of(table=table), count) for table, count in state.counts.items()]
        text = "Changes and rows of snapshots that are stored, since the source is captured."
        yield Family("pyromq_cdc_changes_total", MetricKind.COUNTER, text, changes)
        yield self._count("messages", "Messages that are stored, by this process.", self.rounds.sent_messages)
        yield self._count("bytes", "Bytes of their bodies.", self.rounds.sent_bytes)
        yield self._count("dead_letters", "Changes that were too large for their topic.", state.dead)
        yield self._count("waits", "Attempts that a broker did not take.", self.rounds.target.waits)
        under_way = len(state.open.messages) if state.open is not None else 0
        yield self._value("messages_under_way", "Messages that are on their way.", under_way)
        text = "Age of the oldest change that may not be stored yet; 0 while there is none."
        yield self._value("lag_milliseconds", text, behind_ms(state, now_ms, now_ms))
        text = "Since the position was saved."
        yield self._value("position_age_milliseconds", text, max(0, now_ms - state.saved_ms) if state.saved_ms else 0)
        for name, text, rows in (
            ("read", "Rows of snapshots that were read.", [each.rows for each in state.snapshot]),
            ("expected", "Rows of snapshots that the database expects.", [each.about for each in state.snapshot]),
        ):
            series = [(self.labels.of(table=each.table), n) for each, n in zip(state.snapshot, rows, strict=True)]
            yield Family(f"pyromq_cdc_snapshot_rows_{name}", MetricKind.GAUGE, text, series)
        self.labels.end_scrape()

    def _count(self, name: str, text: str, value: Value) -> Family:
        return Family(f"pyromq_cdc_{name}_total", MetricKind.COUNTER, text, [(self.labels.of(), value)])

    def _value(self, name: str, text: str, value: Value) -> Family:
        return Family(f"pyromq_cdc_{name}", MetricKind.GAUGE, text, [(self.labels.of(), value)], merge=Merge.MOST)
