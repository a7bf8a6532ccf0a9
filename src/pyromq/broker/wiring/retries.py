"""Messages that a consumer gives back: their retries, and the dead letters that outlive the log's files."""

from __future__ import annotations

from ..intake.intake import LogAccess
from ..retries.dead_letters import DeadLetters
from ..retries.send_back import SendBack
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
        access: LogAccess,
        levels: LevelPark,
    ) -> None:
        live, quarantine = environment.live, storage.loop_quarantine("dead letters")
        self.dead_letters = DeadLetters(live, access, quarantine, lambda: storage.retention.is_short)
        self.send_back = SendBack(live, tables.topics, tables.groups, access, levels, environment.rng.randrange)
