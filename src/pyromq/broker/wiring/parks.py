"""The parks: each moves a message aside that waits elsewhere before it reaches its topic. Made before the intake."""

from __future__ import annotations

from ...model.names import TIMER_TOPIC
from ...store.message_store import MessageStore
from ...store.tables.json_tables import JsonTable
from ...store.timer.timer_store import open_timer_store
from ..intake.parking import Park, refuse_what_nobody_delivers
from ..timing.level_park import LevelPark
from ..timing.progress import note_levels
from ..timing.timer_park import TimerPark
from ..transactions.half_records import park_half
from .environment import Environment


class Parks:
    """Event loop only."""

    def __init__(self, environment: Environment, store: MessageStore) -> None:
        config, disk, now_ms = environment.config, environment.disk, environment.clock.now_ms
        self.levels = LevelPark(config.delay_levels)
        note_levels(JsonTable(disk, "pyromq/delayLevels.json"), config.message_delay_level)
        waiting = store.queues.get(TIMER_TOPIC, 0)
        end = 0 if waiting is None else waiting.next_offset
        self.timer_store = open_timer_store(disk, config.timer, now_ms(), store.reader.record_at, end)
        self.timer = TimerPark(environment.live, now_ms, self.timer_store.count_at, environment.rng.randrange)

    def all(self) -> tuple[Park, ...]:
        """Return the parks in order: the first one that is concerned parks the message."""
        return park_half, refuse_what_nobody_delivers, self.timer, self.levels
