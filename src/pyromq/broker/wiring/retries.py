"""Messages that a consumer gives back: their retries, and the dead letters that outlive the log's files."""

from __future__ import annotations

from ..intake.intake import Intake
from ..retries.dead_letters import DeadLetters
from ..retries.send_back import SendBack
from ..stats.counters import Counters
from ..timing.level_park import LevelPark
from .environment import Environment
from .storage import Storage
from .tables import Tables


class RetryParts:
    """Event loop only."""

    def __init__(
        self,
        environment: Environment,
        storage: Storage,
        tables: Tables,
        intake: Intake,
        levels: LevelPark,
        counters: Counters,
    ) -> None:
        now_ms, store_host = environment.clock.now_ms, environment.store_host
        self.dead_letters = DeadLetters(
            environment.live,
            storage.store,
            intake,
            storage.loop_quarantine("dead letters"),
            store_host,
            now_ms,
            lambda: storage.retention.is_short,
        )
        self.send_back = SendBack(
            environment.live,
            tables.topics,
            tables.groups,
            storage.store,
            intake,
            levels,
            store_host,
            now_ms,
            environment.rng.randrange,
            counters.put,
        )
