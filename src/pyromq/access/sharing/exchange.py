"""What one server does with what another tells of users (request 30015), and what it tells itself. No sockets.

digest, entries ->              the changes that have just been made; digest of all stamps after them
<- is_same                      if not:
digest, stamps ->               all stamps of the one who asks
<- is_same, entries, wanted     what is newer here; which ones are newer there
digest, entries ->              those
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from contextlib import suppress
from functools import partial

import msgspec

from ... import logs
from ...errors import ConfigError, RequestRefused
from ...protocol.bodies.own import SharedUser, UserChanges, UserChangesAnswer
from ..directory import refused
from ..policies import Policies
from ..sealing import SivSeal, key_of_phrase
from ..settings import NamedSecret
from ..table import AccessTable
from ..users import User
from .entries import entry_of, read_entry
from .stamps import NEVER, ChangeStamp

log = logs.get("pyromq.access")
_LEAST_PHRASE = 16
_PROVED = b"pyromq shared user 1\n"  # no request that is signed with the same secret begins so


class InnerSeal:
    """Seals and proves with the inner credentials of the settings. What was done with one of the inner user's secrets
    counts too, so that they are replaced while servers run: first his secret is rotated, then their settings are
    changed."""

    def __init__(self, table: AccessTable, inner: NamedSecret) -> None:
        self._table, self._inner = table, inner
        self._seals: dict[str, SivSeal] = {}

    def _of(self, secret: str) -> SivSeal:
        # A short secret is as easy to guess from a signature; here it only has to become a key.
        make = partial(key_of_phrase, secret.ljust(_LEAST_PHRASE, "\0"))
        return self._seals.setdefault(secret, SivSeal(make))

    def close(self, owner: str, secret: str) -> str:
        return self._of(self._inner.secret).close(owner, secret)

    def open(self, owner: str, sealed: str) -> str:
        for secret in self._valid():
            with suppress(ConfigError):
                return self._of(secret).open(owner, sealed)
        raise ConfigError(f"the secret of user {owner!r} was sealed with other inner credentials than this server has")

    def prove(self, content: bytes) -> str:
        return _proof(self._inner.secret, content)

    def is_proof(self, proof: str, content: bytes) -> bool:
        return any(hmac.compare_digest(proof.encode(), _proof(s, content).encode()) for s in self._valid())

    def _valid(self) -> tuple[str, ...]:
        user = self._table.directory.find(self._inner.name)
        return (self._inner.secret, *(() if user is None else user.secrets))


def _proof(secret: str, content: bytes) -> str:
    return hmac.new(secret.encode(), _PROVED + content, "sha256").hexdigest()


class UserExchange:
    """Event loop only. `takes` False: users are as a log has them, and what others tell changes none."""

    def __init__(self, table: AccessTable, inner: NamedSecret) -> None:
        self._table, self._inner = table, inner
        self.seal = InnerSeal(table, inner)
        self.takes = True

    @property
    def digest(self) -> str:
        return self._table.stamps.digest

    def question(self, names: Iterable[str] = (), *, with_stamps: bool = False) -> UserChanges:
        """Return what to tell another server: these users, or what it needs to find out who is not the same there.

        Of who is not known by sharing nothing is told: what others say of him is not proved by this server."""
        stamps = self._table.stamps
        return UserChanges(
            digest=stamps.digest,
            entries=[self.entry(name) for name in names if name in stamps.by_name],
            stamps=dict(stamps.by_name) if with_stamps else None,
        )

    async def answer(self, who: str, told: UserChanges, source: str = "") -> UserChangesAnswer:
        """Take what another server tells, at this address, on disk when this returns. RequestRefused: it is none of
        the cluster."""
        if who != self._inner.name:
            raise refused(f"only servers tell each other of users, as {self._inner.name}, not {who or 'nobody'}")
        if self.takes:
            await self.take(told.entries, source)
        await self._table.saved()  # what can still be lost is told to nobody
        stamps = self._table.stamps
        if told.digest == stamps.digest:
            return UserChangesAnswer(is_same=True)
        if told.stamps is None:
            return UserChangesAnswer(is_same=False)
        theirs = {name: ChangeStamp(*stamp) for name, stamp in told.stamps.items()}
        newer = [name for name, stamp in stamps.by_name.items() if name not in theirs or stamp > theirs[name]]
        wanted = [name for name, stamp in theirs.items() if self.takes and stamps.is_newer(name, stamp)]
        return UserChangesAnswer(is_same=False, entries=[self.entry(name) for name in newer], wanted=wanted)

    def news(self, entries: Iterable[SharedUser]) -> list[str]:
        """Return the users of whom another server says something newer than what is known here."""
        stamps = self._table.stamps
        return [one.name for one in entries if stamps.is_newer(one.name, ChangeStamp(one.changed_ms, one.changed_by))]

    async def take(self, entries: Iterable[SharedUser], source: str) -> None:
        """Make users here what they are elsewhere, at the server of this address, where that is newer."""
        taken = [entry.name for entry in entries if self._take(entry, source)]
        if taken:
            await self._table.saved()
            log.info("users are as another server has them", users=", ".join(sorted(taken)))

    def _take(self, entry: SharedUser, source: str) -> bool:
        stamp = ChangeStamp(entry.changed_ms, entry.changed_by)
        if not self._table.stamps.is_newer(entry.name, stamp):
            return False
        try:
            user, policies = self.read(entry)
        except (ConfigError, RequestRefused, msgspec.ValidationError):
            log.warning("a user is not taken: who tells of him has other inner credentials, or none", user=entry.name)
            return False
        with self._table.directory.arriving(entry.name, self._inner.name, source, entry.changed_by):
            self._table.take(entry.name, user, policies, stamp)
        return True

    def read(self, entry: SharedUser) -> tuple[User | None, Policies]:
        """Return what an entry says. ConfigError: it was made with other inner credentials, or changed by somebody
        without them; RequestRefused or ValidationError: nonsense."""
        return read_entry(entry, self.seal)

    def entry(self, name: str) -> SharedUser:
        """Return a user as others are told of him."""
        stamp = self._table.stamps.by_name.get(name, NEVER)
        return entry_of(self._table.directory, name, stamp, self.seal)
