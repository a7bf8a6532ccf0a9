"""The table of users and policies on disk: `pyromq/access.json`, with its `.bak`, secrets sealed.

    {"users": {"name": {"type": "Normal", "status": "enable", "secrets": ["siv1:..."]}}, "policies": {"name": [...]},
     "stamps": {"name": [milliseconds, server]}}

The directory in memory is what decides; each change of it goes into the table, and who made it waits for `saved`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import msgspec

from .. import logs
from ..errors import ConfigError, RequestRefused
from ..protocol.bodies.groups import AclInfo, PolicyInfo
from .directory import AccessContent, Directory
from .forms import acl_info, policies_of, user_status, user_type
from .policies import AclConflict, Policies
from .sealing import Seal
from .settings import GateSettings, NamedSecret
from .sharing.stamps import NEVER, ChangeStamp, Stamps
from .users import User, UserStatus, UserType

log = logs.get("pyromq.access")

TABLE = "pyromq/access.json"
KEY = "pyromq/access.key"
USERS, POLICIES, STAMPS = "users", "policies", "stamps"


class Rows(Protocol):
    """A table of JSON values in sections, and its file."""

    def load(self) -> Mapping[str, Any]: ...

    def put(self, section: str, key: str, value: Any) -> None: ...

    def drop(self, section: str, key: str) -> None: ...

    async def saved(self) -> None:
        """Return once every change made before this call is on disk."""
        ...


class AccessTable:
    """Event loop only. Opening it reads the file; ConfigError says what is wrong with it."""

    def __init__(self, rows: Rows, seal: Seal, stamps: Stamps, conflict: AclConflict = AclConflict.DENY) -> None:
        """`stamps`: empty ones, which learn here when users were changed."""
        self._rows, self._seal, self.stamps = rows, seal, stamps
        content = rows.load()
        found, known = self._read(content)
        self.directory = Directory(found, conflict)
        stamps.load(known, set(found.users))
        self._stamp: ChangeStamp | None = None  # of the change that is being made; None: one of this server
        self._by = ""  # the server that handed this change on; empty: none
        self._named: dict[str, NamedSecret] = {}  # the users that the settings name
        self.directory.watch_own(self._note)

    async def saved(self) -> None:
        await self._rows.saved()

    def begin(self, settings: GateSettings, *, revives: bool = True) -> None:
        """Make the users that the settings name, unless they are there: as in RocketMQ, both are super users.

        One whom somebody has deleted stays deleted, here and at all other servers. Only where `revives` he is made
        again if nobody could get in without him: servers have nobody to sign as, or there is no other administrator."""
        first, inner = settings.first_user(), settings.inner_credentials()
        self._named = {named.name: named for named in (first, inner) if named is not None}
        for named in self._named.values():
            if self.directory.find(named.name) is not None:
                continue
            if self.stamps.is_unchanged(named.name):
                self._make(named)
            elif revives and (named == inner or not self._has_administrator(inner)):
                log.warning(
                    "a user of the settings was deleted, and is made again: nobody gets in without him", user=named.name
                )
                self._make(named)

    def _has_administrator(self, inner: NamedSecret | None) -> bool:
        """Return whether there is a super user who is let in, besides the one that servers sign as."""
        others = (user for user in self.directory.users.values() if inner is None or user.name != inner.name)
        return any(user.is_super and user.is_enabled for user in others)

    def warn_if_nobody(self, settings: GateSettings) -> None:
        """Say at a start, in one line, that no request will ever be let in: nobody is there who could make a user."""
        if not settings.authentication_enabled or settings.white_lists.unsigned.patterns:
            return
        if not any(user.is_enabled for user in self.directory.users.values()):
            log.warning(
                "nobody can get in",
                why="authenticationEnabled=true, and this server has no user who is let in",
                cure='set initAuthenticationUser={"username":"admin","password":"..."}, and the same '
                'innerClientAuthenticationCredentials={"accessKey":"inner","secretKey":"..."} on all servers '
                "(docs/access.md)",
            )

    def _make(self, named: NamedSecret) -> None:
        try:
            self.make(User(named.name, (named.secret,), UserType.SUPER))
        except RequestRefused as fault:
            raise ConfigError(f"the user {named.name!r} of the configuration cannot be made: {fault}") from None

    def make(self, user: User, policies: Policies = ()) -> None:
        """Make a user whom settings or files want. What somebody changes about him, on any server, counts more."""
        with self._stamped(NEVER if user.name not in self.stamps.by_name else None):
            self.directory.create(user)
            if policies:
                self.directory.put(user.name, policies)

    def take(self, name: str, user: User | None, policies: Policies, stamp: ChangeStamp) -> None:
        """Make a user what another server has."""
        with self._stamped(stamp):
            self.directory.become(name, user, policies)

    def shut_out(self, name: str) -> None:
        """Let a user in no more, of whom another server has what cannot be read here: he is as unknown, and whoever
        tells of him later counts more."""
        self.take(name, None, (), self.stamps.by_name.get(name, NEVER))

    def forget(self, name: str) -> None:
        """Make a user what he is where nobody has ever changed him: unknown, or as the settings have him."""
        self.shut_out(name)
        self.stamps.forget(name)
        self._rows.drop(STAMPS, name)
        if name in self._named:
            self._make(self._named[name])

    @contextmanager
    def handed_on(self, by: str) -> Iterator[None]:
        """Stamp what changes meanwhile as made by another server; empty: by this one."""
        self._by = by
        try:
            yield
        finally:
            self._by = ""

    @contextmanager
    def _stamped(self, stamp: ChangeStamp | None) -> Iterator[None]:
        self._stamp = stamp
        try:
            yield
        finally:
            self._stamp = None

    # --- to disk and back ---------------------------------------------------------------------------------------------

    def _note(self, name: str) -> None:
        """Put one user, as he is now, into the table."""
        user, policies = self.directory.find(name), self.directory.policies.get(name)
        self.stamps.put(name, self.stamps.new(self._by) if self._stamp is None else self._stamp)
        self._rows.put(STAMPS, name, list(self.stamps.by_name[name]))
        if user is None:
            self._rows.drop(USERS, name)
        else:
            sealed = [self._seal.close(name, secret) for secret in user.secrets]
            self._rows.put(USERS, name, {"type": user.type.value, "status": user.status.value, "secrets": sealed})
        if policies is None:
            self._rows.drop(POLICIES, name)
        else:
            self._rows.put(POLICIES, name, _policy_rows(name, policies))

    def _read(self, content: Mapping[str, Any]) -> tuple[AccessContent, dict[str, ChangeStamp]]:
        try:
            users = {name: self._user(name, row) for name, row in content.get(USERS, {}).items()}
            policies = {name: _policies(rows) for name, rows in content.get(POLICIES, {}).items()}
            stamps = msgspec.convert(content.get(STAMPS, {}), dict[str, ChangeStamp])
        except (KeyError, TypeError, AttributeError, msgspec.ValidationError, RequestRefused) as fault:
            raise ConfigError(
                f"{TABLE} cannot be read ({fault!r}): put its .bak in its place, or remove both and make the users anew"
            ) from None
        return AccessContent(users, policies), stamps

    def _user(self, name: str, row: Mapping[str, Any]) -> User:
        secrets = tuple(self._seal.open(name, sealed) for sealed in row["secrets"])
        type_, status = user_type(row["type"]), user_status(row["status"])
        # A word of a later version gives nobody more than this one knows.
        return User(name, secrets, type_ or UserType.NORMAL, status or UserStatus.DISABLED)


def _policy_rows(name: str, policies: Policies) -> list[Any]:
    shown = acl_info(name, policies)
    return [] if shown is None else [msgspec.to_builtins(policy) for policy in shown.policies or ()]


def _policies(rows: list[Any]) -> Policies:
    return policies_of(AclInfo(policies=msgspec.convert(rows, list[PolicyInfo])))
