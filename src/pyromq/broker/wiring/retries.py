"""Messages that a consumer gives back: their retries, and the dead letters that outlive the log's files."""

from __future__ import annotations

from ..intake.intake import Intake
from ..retries.dead_letters import DeadLetters
from ..retries.send_back import SendBack
from ..stats.counters import Counters
from ..timing.park import LevelPark
from .ground import Ground
from .storage import Storage
from .tables import Tables


class Retries:
    """Event loop only. Made once the broker's own address is known."""

    def __init__(
        self,
        ground: Ground,
        storage: Storage,
        tables: Tables,
        intake: Intake,
        levels: LevelPark,
        counters: Counters,
        store_host: bytes,
    ) -> None:
        now_ms = ground.clock.now_ms
        self.dead_letters = DeadLetters(
            ground.live,
            storage.store,
            intake,
            storage.loop_quarantine("dead letters"),
            store_host,
            now_ms,
            lambda: storage.retention.is_short,
        )
        self.send_back = SendBack(
            ground.live,
            tables.topics,
            tables.groups,
            storage.store,
            intake,
            levels,
            store_host,
            now_ms,
            ground.rng.randrange,
            counters.put,
        )
