"""When each user was changed last, and where: of two servers that differ about a user, the later stamp is right.

A stamp is later than all that its server has seen, so that a clock which is behind loses no change. A user whom
settings have made has none (`NEVER`): any change that somebody made counts more. A deleted user keeps his stamp, or he
would come back from a server that was away.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import NamedTuple


class ChangeStamp(NamedTuple):
    ms: int
    by: str  # the server where it was changed


NEVER = ChangeStamp(0, "")
_KEPT_MS = 90 * 86_400_000  # of a deleted user: a server that was away longer brings him back


class Stamps:
    """By user's name. Event loop only."""

    def __init__(self, now_ms: Callable[[], int], server: str) -> None:
        self._now_ms, self.server = now_ms, server
        self._by_name: dict[str, ChangeStamp] = {}
        self._latest_ms = 0
        self._digest = ""

    @property
    def by_name(self) -> Mapping[str, ChangeStamp]:
        return self._by_name

    def load(self, rows: Mapping[str, ChangeStamp], users: set[str]) -> None:
        """Take what was on disk. Users without a stamp were changed by nobody yet, as far as is known."""
        oldest = self._now_ms() - _KEPT_MS
        for name, stamp in rows.items():
            if name in users or stamp.ms > oldest:
                self.put(name, stamp)
        for name in users - self._by_name.keys():
            self.put(name, NEVER)

    def put(self, name: str, stamp: ChangeStamp) -> None:
        self._by_name[name], self._digest = stamp, ""
        self._latest_ms = max(self._latest_ms, stamp.ms)

    def forget(self, name: str) -> None:
        """Forget that a user was ever changed."""
        if self._by_name.pop(name, None) is not None:
            self._digest = ""

    def new(self, by: str = "") -> ChangeStamp:
        """Return the stamp of a change that is made now. `by`: another server, that handed it on to this one."""
        return ChangeStamp(max(self._now_ms(), self._latest_ms + 1), by or self.server)

    def is_newer(self, name: str, stamp: ChangeStamp) -> bool:
        """Tell whether a stamp is later than what is known of the user."""
        own = self._by_name.get(name)
        return own is None or stamp > own

    def is_unchanged(self, name: str) -> bool:
        """Tell whether nobody has changed a user, as far as is known."""
        return self._by_name.get(name, NEVER) == NEVER

    def is_from_elsewhere(self, name: str) -> bool:
        """Tell whether another server has made the last change of a user."""
        stamp = self._by_name.get(name, NEVER)
        return stamp != NEVER and stamp.by != self.server

    @property
    def digest(self) -> str:
        """Return what is the same for all who have the same stamps."""
        if not self._digest:
            text = "\n".join(f"{name}\0{ms}\0{by}" for name, (ms, by) in sorted(self._by_name.items()))
            self._digest = hashlib.sha256(text.encode()).hexdigest()[:32]
        return self._digest
