"""What a SYNC_MASTER's sends wait for: enough slaves have the message, or too few are in sync, or its time is over.

The log becomes readable up to what slaves have confirmed. Where too few are in sync nobody is waited for, and sends are
answered SLAVE_NOT_AVAILABLE at once; what no slave confirmed within `slaveTimeout` becomes readable all the same, and
its sends are answered FLUSH_SLAVE_TIMEOUT: in both cases the message is stored, as in Java. Below `minInSyncReplicas`
sends are refused before anything is stored. A master of another role waits for nobody.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from .... import logs
from ....ambient import Clock, Timer
from ....model.codes import ResponseCode
from ..settings import BrokerRole, ReplicationSettings
from .confirm import SyncStanding

log = logs.get("pyromq.broker")

MARK_S = 0.005  # sends that come so close to each other give up together


class ConfirmedLog(Protocol):
    """What is wanted of a store."""

    def confirm(self, position: int | None) -> None: ...


class OtherCopies(Protocol):
    """What sends wait for besides this broker's own disk: slaves (`SlaveCopies`), an elected set (`ElectedCopies`)."""

    on_change: list[Callable[[], None]]  # called when sends begin or cease to be refused
    on_give_up: list[Callable[[], None]]  # called when who waits will never be answered, and has to be cut off

    @property
    def is_sync(self) -> bool: ...

    @property
    def standing(self) -> SyncStanding: ...

    @property
    def are_too_few(self) -> bool:
        """Return whether nothing may be stored now."""
        ...

    def status(self, position: int) -> ResponseCode:
        """Return what is said of a message that ends here and is readable, or late."""
        ...

    def close(self) -> None: ...


class SlaveCopies:
    """Event loop only. `end`: of the log. `on_change` is called when sends begin or cease to be refused."""

    def __init__(
        self,
        store: ConfirmedLog,
        clock: Clock,
        settings: ReplicationSettings,
        end: Callable[[], int],
        on_append: list[Callable[[], None]],
    ) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self._end = end
        self._marks: deque[tuple[float, float, int]] = deque()  # begun, deadline, end of the log
        self._given_up = 0
        self._confirmed = 0
        self._timer: Timer | None = None
        self.on_change: list[Callable[[], None]] = []
        self.on_give_up: list[Callable[[], None]] = []  # a classic master is never deposed
        self.standing = SyncStanding()
        self.is_sync = settings.broker_role is BrokerRole.SYNC_MASTER
        if self.is_sync:
            on_append.append(self._appended)

    def status(self, position: int) -> ResponseCode:
        """Return what is said of a message that ends here and is readable, or late."""
        if not self.is_sync or not self.standing.needed or position <= self._confirmed:
            return ResponseCode.SUCCESS
        return ResponseCode.SLAVE_NOT_AVAILABLE if self.standing.is_short else ResponseCode.FLUSH_SLAVE_TIMEOUT

    @property
    def are_too_few(self) -> bool:
        """Return whether nothing may be stored now: fewer than minInSyncReplicas are in sync."""
        return self.standing.refuses

    def use(self, standing: SyncStanding) -> None:
        """Go on with another standing."""
        before, self.standing = self.standing, standing
        self._confirmed = max(self._confirmed, standing.confirmed)
        if standing.is_short != before.is_short:
            self._say(standing)
        elif standing.needed != before.needed and self._settings.enable_auto_in_sync_replicas:
            facts = {"slaves": standing.needed, "in_sync": standing.in_sync, "key": "enableAutoInSyncReplicas"}
            log.warning("sends wait for another number of slaves", **facts)
        self._move()
        if standing.refuses != before.refuses:
            for listener in self.on_change:
                listener()

    def use_settings(self, settings: ReplicationSettings) -> None:
        """Give up what is appended from now on after the time that these say."""
        self._settings = settings

    def _say(self, standing: SyncStanding) -> None:
        facts = {"in_sync": standing.in_sync, "needed": standing.needed}
        if standing.is_short:
            log.warning("too few slaves are in sync: sends are answered SLAVE_NOT_AVAILABLE", **facts)
        else:
            log.info("enough slaves are in sync: sends wait for them", **facts)

    def _move(self) -> None:
        while self._marks and self._marks[0][2] <= self._confirmed:
            self._marks.popleft()
        if self.is_sync:
            is_waited_for = self.standing.needed and not self.standing.is_short
            self._store.confirm(max(self._confirmed, self._given_up) if is_waited_for else None)

    # --- time -----------------------------------------------------------------------------------------------------

    def _appended(self) -> None:
        """Note when what was just appended is given up."""
        now, end = self._clock.monotonic(), self._end()
        if self._marks and now - self._marks[-1][0] < MARK_S:
            begun, deadline, _ = self._marks.pop()
            self._marks.append((begun, deadline, end))
            return
        seconds = self._settings.slave_timeout / 1000
        self._marks.append((now, now + seconds, end))
        if self._timer is None:
            self._timer = self._clock.call_later(seconds, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        while self._marks and self._marks[0][1] <= now:
            self._given_up = self._marks.popleft()[2]
        self._move()
        if self._marks:
            self._timer = self._clock.call_later(self._marks[0][1] - now, self._expire)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
