"""Users and their policies in the log of an elected set: a revocation that was answered holds at the next master.

An entry is what servers tell each other of a user (request 30015): his secrets sealed with the inner credentials, his
policies, and when he was changed where. Users that settings alone have made are not in it: they are each member's own.

A member that cannot open a secret lets that user in no more, says so, and keeps the entry for those who can.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from .... import logs
from ....access.sharing.exchange import UserExchange
from ....access.sharing.stamps import NEVER, ChangeStamp
from ....access.table import AccessTable
from ....errors import ConfigError, RequestRefused
from ....protocol.bodies.own import SharedUser
from ....store.files.disk import Disk
from ....store.tables.json_tables import JsonTable, TableDamaged
from .carried import USERS
from .recorder import TableRecorder

log = logs.get("pyromq.broker")

SECTION, FORMAT = "users", "format"
OF_THE_LOG = "the log of the set"  # where a change came from


@dataclass(slots=True, eq=False, repr=False)
class SetUsers:
    """The users of one member. Event loop only. `exchange` None: it has no inner credentials, and opens nothing."""

    table: AccessTable
    exchange: UserExchange | None
    closed: dict[str, Any] = field(default_factory=dict)  # entries whose secrets do not open here, by name

    @property
    def changed(self) -> list[str]:
        """Return the names of those whom somebody has changed or deleted: those are the set's."""
        return [name for name, stamp in self.table.stamps.by_name.items() if stamp != NEVER]

    def entry(self, name: str) -> Any:
        """Return a user as the log has him; None: he is not in it."""
        if name in self.closed:
            return self.closed[name]
        if self.exchange is None or self.table.stamps.is_unchanged(name):
            return None
        return msgspec.to_builtins(self.exchange.entry(name))

    def trouble(self) -> str | None:
        """Return who is not let in because his secret does not open; None: nobody."""
        if not self.closed:
            return None
        return (
            f"users {', '.join(sorted(self.closed))} of the set are let in by nobody here: their secrets were sealed "
            "with other innerClientAuthenticationCredentials than this replica has"
        )


class LeadersUsers:
    """Of the member that leads: each change goes into the log."""

    def __init__(self, users: SetUsers, disk: Disk, recorder: TableRecorder) -> None:
        self._users = users
        self._rows = JsonTable(disk, USERS)  # never saved: it is what the recorder reads
        recorder.watch(self._rows)
        users.table.directory.watch_own(self._changed)

    def put_all(self) -> None:
        """Put all users as they are now: once they are what the log says, and before anybody is served."""
        self._rows.replace(FORMAT, 1)
        for name in {*self._users.changed, *self._users.closed}:
            self._put(name)

    def _changed(self, name: str) -> None:
        self._users.closed.pop(name, None)  # somebody has made him anew
        self._put(name)

    def _put(self, name: str) -> None:
        entry = self._users.entry(name)
        if entry is None:
            self._rows.drop(SECTION, name)
        else:
            self._rows.put(SECTION, name, entry)


@dataclass(slots=True, eq=False, repr=False)
class ReplicaUsers:
    """Of a member that takes them from the log.

    `is_anew`: what it has may be what nobody else has, so the log's word counts even where it is older."""

    users: SetUsers
    is_anew: bool
    is_told: bool = False  # the log has users: older masters write none

    def put(self, section: str, key: str | int, value: Any) -> None:
        if section != SECTION:
            return
        users = self.users
        try:
            entry = msgspec.convert(value, SharedUser)
            stamp = ChangeStamp(entry.changed_ms, entry.changed_by)
            if not (self.is_anew or users.table.stamps.is_newer(entry.name, stamp)):
                return
            users.closed.pop(entry.name, None)
            with users.table.directory.arriving(entry.name, "", OF_THE_LOG, entry.changed_by):
                self._take(entry, value, stamp)
        except (msgspec.ValidationError, RequestRefused) as fault:
            raise TableDamaged(f"user {key} in {USERS} cannot be read: {fault}") from None

    def _take(self, entry: SharedUser, value: Any, stamp: ChangeStamp) -> None:
        users = self.users
        try:
            if users.exchange is None:
                raise ConfigError("this member has no inner credentials")
            user, policies = users.exchange.read(entry)
        except ConfigError:
            self._shut_out(entry.name, value)
        else:
            users.table.take(entry.name, user, policies, stamp)

    def _shut_out(self, name: str, value: Any) -> None:
        self.users.table.shut_out(name)
        self.users.closed[name] = value
        log.error("a user of the set is not let in", user=name, why=self.users.trouble())

    def drop(self, section: str, key: str | int) -> None:
        if section == SECTION:
            self.users.closed.pop(str(key), None)
            with self.users.table.directory.arriving(str(key), "", OF_THE_LOG):
                self.users.table.forget(str(key))

    def replace(self, section: str, value: Any) -> None:
        """Note that the master writes users; he puts them one by one."""
        self.is_told = self.is_told or section == FORMAT

    def entries(self) -> Iterable[tuple[str, str | int]]:
        if not self.is_told:
            return []
        return [(SECTION, name) for name in {*self.users.changed, *self.users.closed}]

    def record_done(self) -> None:
        """Do nothing: the table of users is written when one of them changes."""
