"""What every part of a broker stands on: its settings, clock, random numbers, disk and helper threads.

`broker.py` makes it once and hands it to the other files of this folder. The parts themselves get what they use.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ...ambient import Clock, RunBlocking
from ...config import Live
from ...machine.budget import Budget
from ...store.files.disk import Disk
from ...store.tables.json_tables import JsonTable
from ...store.tables.table_saver import FOLD_S
from ...supervision import Loops
from ..config import BrokerConfig
from ..metadata.saving import SaveSoon


@dataclass(frozen=True, slots=True)
class Ground:
    config: BrokerConfig  # as it was at the start; what may change while the broker runs is asked of `live`
    live: Live[BrokerConfig]
    clock: Clock
    rng: random.Random
    disk: Disk
    run_blocking: RunBlocking
    loops: Loops
    budget: Budget
    _saves: list[SaveSoon] = field(default_factory=list)

    def table(self, name: str, fold_s: float = FOLD_S) -> SaveSoon:
        """A table of the store's folder, written soon after each change."""
        save = SaveSoon(JsonTable(self.disk, name), self.run_blocking, self.clock, fold_s)
        self._saves.append(save)
        return save

    @contextmanager
    def beginning(self) -> Iterator[None]:
        """Around the making of a broker: if that fails, what its parts wanted to write into tables never is."""
        try:
            yield
        except BaseException:
            for save in self._saves:
                save.abandon()
            raise

    def every(self, name: str, seconds: float, act: Callable[[], None]) -> Coroutine[Any, Any, None]:
        """A loop, watched over: one that dies begins again."""
        return self.loops.keep(name, partial(self._every, seconds, act))

    async def _every(self, seconds: float, act: Callable[[], None]) -> None:
        while True:
            await self.clock.sleep(seconds)
            act()
