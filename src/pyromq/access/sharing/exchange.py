"""What one server does with what another tells of users (request 30015), and what it tells itself. No sockets.

digest, entries ->              the changes that have just been made; digest of all stamps after them
<- is_same                      if not:
digest, stamps ->               all stamps of the one who asks
<- is_same, entries, wanted     what is newer here; which ones are newer there
digest, entries ->              those
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ... import logs
from ...errors import ConfigError, RequestRefused
from ...protocol.bodies.own import SharedUser, UserChanges, UserChangesAnswer
from ..directory import refused
from ..sealing import SivSeal, key_of_phrase
from ..settings import NamedSecret
from ..table import AccessTable
from .entries import entry_of, read_entry
from .stamps import NEVER, ChangeStamp

log = logs.get("pyromq.access")
_LEAST_PHRASE = 16


class UserExchange:
    """Event loop only."""

    def __init__(self, table: AccessTable, inner: NamedSecret) -> None:
        self._table, self._inner = table, inner
        # A short secret is as easy to guess from a signature; here it only has to become a key.
        self._seal = SivSeal(lambda: key_of_phrase(inner.secret.ljust(_LEAST_PHRASE, "\0")))

    @property
    def digest(self) -> str:
        return self._table.stamps.digest

    def question(self, names: Iterable[str] = (), *, with_stamps: bool = False) -> UserChanges:
        """Return what to tell another server: these users, or what it needs to find out who is not the same there."""
        stamps = self._table.stamps
        return UserChanges(
            digest=stamps.digest,
            entries=[self._entry(name) for name in names],
            stamps=dict(stamps.by_name) if with_stamps else None,
        )

    async def answer(self, who: str, told: UserChanges) -> UserChangesAnswer:
        """Take what another server tells, on disk when this returns. RequestRefused: it is none of the cluster."""
        if who != self._inner.name:
            raise refused(f"only servers tell each other of users, as {self._inner.name}, not {who or 'nobody'}")
        await self.take(told.entries)
        stamps = self._table.stamps
        if told.digest == stamps.digest:
            return UserChangesAnswer(is_same=True)
        if told.stamps is None:
            return UserChangesAnswer(is_same=False)
        theirs = {name: ChangeStamp(*stamp) for name, stamp in told.stamps.items()}
        newer = [name for name, stamp in stamps.by_name.items() if name not in theirs or stamp > theirs[name]]
        wanted = [name for name, stamp in theirs.items() if stamps.is_newer(name, stamp)]
        return UserChangesAnswer(is_same=False, entries=[self._entry(name) for name in newer], wanted=wanted)

    async def take(self, entries: Iterable[SharedUser]) -> None:
        """Make users here what they are elsewhere, where that is newer."""
        taken = [entry.name for entry in entries if self._take(entry)]
        if taken:
            await self._table.saved()
            log.info("users are as another server has them", users=", ".join(sorted(taken)))

    def _take(self, entry: SharedUser) -> bool:
        stamp = ChangeStamp(entry.changed_ms, entry.changed_by)
        if not self._table.stamps.is_newer(entry.name, stamp):
            return False
        try:
            user, policies = read_entry(entry, self._seal)
        except (ConfigError, RequestRefused, msgspec.ValidationError):
            log.warning("a user is not taken: the other server has other inner credentials", user=entry.name)
            return False
        self._table.take(entry.name, user, policies, stamp)
        return True

    def _entry(self, name: str) -> SharedUser:
        stamp = self._table.stamps.by_name.get(name, NEVER)
        return entry_of(self._table.directory, name, stamp, self._seal)
