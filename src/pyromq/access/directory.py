"""All users and their policies, in memory: every change as 5.5.0 makes it, refused in its words.

Values are replaced, never changed, so that `Directory.snapshot` is whole. `version` grows with every change: what was
decided under an older one is decided again.

Besides the users that requests make there may be a layer derived from files (ACL 1.0, `plain/`): its users sign and are
judged as the others, are in no list and no table, and count where no other has the name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

from ..errors import RequestRefused
from ..model.codes import ResponseCode
from ..model.names import STATE_TOPIC
from ..protocol.access import Action, Resource
from .patterns import Pattern
from .policies import AclConflict, Decision, Policies, Policy, PolicyKind, deciding
from .users import User, UserStatus, UserType

USER = "User:"  # before the name, where a policy's subject is written
_NAME_CHARS = 255


def refused(remark: str) -> RequestRefused:
    return RequestRefused(remark, ResponseCode.NO_PERMISSION)


@dataclass(frozen=True, slots=True)
class AccessContent:
    """Users and policies by the user's name, as they stood at one moment."""

    users: Mapping[str, User]
    policies: Mapping[str, Policies]


NO_CONTENT = AccessContent({}, {})


class UserState(NamedTuple):
    """What holds about one name. `believed`: from where who says it needs no signature."""

    user: User | None = None
    policies: Policies = ()
    believed: tuple[str, ...] = ()


class Arrival(NamedTuple):
    """A change that nobody asked this server for: another server has said so, a log, or a file.

    `name` empty: it is about no user, but about addresses. `told_by`: the user as whom that server came, if one did."""

    name: str
    told_by: str
    source: str  # its address, or the path of a file
    before: UserState
    after: UserState
    made_at: str = ""  # the server that was asked for it


class Directory:
    """Event loop only. Changes raise RequestRefused with 5.5.0's code and words. `watch` hears of each."""

    def __init__(self, snapshot: AccessContent | None = None, conflict: AclConflict = AclConflict.DENY) -> None:
        self._users: dict[str, User] = {} if snapshot is None else dict(snapshot.users)
        self._policies: dict[str, Policies] = {} if snapshot is None else dict(snapshot.policies)
        self.conflict = conflict
        self.version = 0
        self._derived = NO_CONTENT
        self._watchers: list[Callable[[str], None]] = []
        self._own_watchers: list[Callable[[str], None]] = []
        self.on_arrival: list[Callable[[Arrival], None]] = []  # each hears of what came from elsewhere

    def watch(self, changed: Callable[[str], None]) -> None:
        """Call `changed` with the user's name after each change of what is decided about him."""
        self._watchers.append(changed)

    def watch_own(self, changed: Callable[[str], None]) -> None:
        """Call `changed` with the user's name after each change that is no derived layer's, before all others."""
        self._own_watchers.append(changed)

    @property
    def users(self) -> Mapping[str, User]:
        return MappingProxyType(self._users)

    @property
    def policies(self) -> Mapping[str, Policies]:
        return MappingProxyType(self._policies)

    def snapshot(self) -> AccessContent:
        return AccessContent(dict(self._users), dict(self._policies))

    def take(self, snapshot: AccessContent) -> None:
        """Replace everything, by what another server has."""
        before = self.snapshot()
        self._users, self._policies = dict(snapshot.users), dict(snapshot.policies)
        for name in before.users.keys() | before.policies.keys() | self._users.keys() | self._policies.keys():
            is_same = before.users.get(name) == self._users.get(name)
            if not is_same or before.policies.get(name) != self._policies.get(name):
                self._changed(name)

    def derive(self, content: AccessContent) -> None:
        """Replace the layer that is derived from files. Between its entries that are equally narrow Allow wins."""
        before, self._derived = self._derived, content
        for name in before.users.keys() | content.users.keys():
            is_same = before.users.get(name) == content.users.get(name)
            if not is_same or before.policies.get(name) != content.policies.get(name):
                self._decide_anew(name)

    def _changed(self, name: str) -> None:
        try:
            for watcher in self._own_watchers:
                watcher(name)
        finally:  # memory has the change: whatever fails, nobody decides by what was before
            self._decide_anew(name)

    def _decide_anew(self, name: str) -> None:
        self.version += 1
        for watcher in self._watchers:
            watcher(name)

    def revoke_all(self) -> None:
        """Have everything decided anew: something changed that is no user's own."""
        for name in [*self._users, *(self._derived.users.keys() - self._users.keys())]:
            self._decide_anew(name)

    # --- users ------------------------------------------------------------------------------------------------------

    def find(self, name: str) -> User | None:
        return self._users.get(name)

    def signer(self, name: str) -> User | None:
        """Return who signs with a name: a user, or else one of the derived layer."""
        return self._users.get(name) or self._derived.users.get(name)

    def is_derived(self, name: str) -> bool:
        return name not in self._users and name in self._derived.users

    def create(self, user: User) -> None:
        if not user.name.strip():
            raise refused("username can not be blank")
        if len(user.name) > _NAME_CHARS or not user.name.isprintable():
            raise refused(f"a username has at most {_NAME_CHARS} characters, all of them printable")
        if not user.secrets or not user.secrets[0].strip():
            raise refused("password can not be blank")
        if user.name in self._users:
            raise refused("The user is existed")
        self._users[user.name] = user
        self._changed(user.name)

    def update(
        self, name: str, secret: str | None, type: UserType | None, status: UserStatus | None, *, keep_old: bool = False
    ) -> None:
        """Change what is given. `keep_old`: the secret that was valid stays valid beside the new one."""
        old = self._users.get(name)
        if old is None:
            raise refused("The user is not exist")
        secrets = old.secrets
        if secret is not None and secret.strip():
            is_known = secret == old.secrets[0]  # said once more
            kept = old.secrets if is_known else (secret, old.secrets[0])
            secrets = kept if keep_old else (secret,)
        self._users[name] = replace(old, secrets=secrets, type=type or old.type, status=status or old.status)
        self._changed(name)

    def drop_old_secret(self, name: str) -> None:
        """Leave a user with his newest secret alone: the end of a rotation."""
        user = self._users.get(name)
        if user is None:
            raise refused("The user is not exist")
        self._users[name] = replace(user, secrets=user.secrets[:1])
        self._changed(name)

    def delete(self, name: str) -> None:
        """Remove a user and his policies, if there is one."""
        if not name.strip():
            raise refused("username can not be blank")
        if self._users.pop(name, None) is not None or name in self._policies:
            self._policies.pop(name, None)
            self._changed(name)

    # --- policies ---------------------------------------------------------------------------------------------------

    def put(self, name: str, policies: Policies) -> None:
        """Create or change a user's policies: entries take the place of those with the same pattern."""
        if name not in self._users:
            raise refused(f"The subject of {USER}{name} is not exist.")
        if not policies:
            raise refused("The policies is empty.")
        found = {policy.kind: policy for policy in self._policies.get(name, ())}
        for new in policies:
            old = found.get(new.kind)
            found[new.kind] = new if old is None else old.changed(new.entries)
        self._policies[name] = tuple(found.values())
        self._changed(name)

    def remove(self, name: str, kind: PolicyKind = PolicyKind.CUSTOM, pattern: Pattern | None = None) -> None:
        """Remove a user's policies, or the entry of one pattern."""
        if name not in self._users:
            raise refused("The subject is not exist.")
        if name not in self._policies:
            raise refused("The acl is not exist.")
        kept: list[Policy] = []
        if pattern is not None:
            changed = (p.without(pattern) if p.kind is kind else p for p in self._policies[name])
            kept = [policy for policy in changed if policy.entries]
        if kept:
            self._policies[name] = tuple(kept)
        else:
            del self._policies[name]
        self._changed(name)

    def become(self, name: str, user: User | None, policies: Policies) -> None:
        """Make a user and his policies what another server has; None: he was deleted there."""
        self._replace(name, user, policies)
        self._changed(name)

    def cache(self, name: str, user: User | None, policies: Policies) -> None:
        """Do the same for a user who is in no table here."""
        self._replace(name, user, policies)
        self._decide_anew(name)

    def _replace(self, name: str, user: User | None, policies: Policies) -> None:
        self._users.pop(name, None)
        self._policies.pop(name, None)
        if user is not None:
            self._users[name] = user
            if policies:
                self._policies[name] = policies

    # --- what came from elsewhere -----------------------------------------------------------------------------------

    def standing(self, name: str) -> UserState:
        return UserState(self._users.get(name), self._policies.get(name, ()))

    @contextmanager
    def arriving(self, name: str, told_by: str, source: str, made_at: str = "") -> Iterator[None]:
        """Tell `on_arrival` how a user was changed meanwhile, if he was."""
        before = self.standing(name)
        yield
        self.arrived(Arrival(name, told_by, source, before, self.standing(name), made_at))

    def arrived(self, arrival: Arrival) -> None:
        if arrival.before != arrival.after:
            for each in self.on_arrival:
                each(arrival)

    # --- decisions --------------------------------------------------------------------------------------------------

    def fault(self, name: str, kind: Resource, resource: str, actions: tuple[Action, ...], source: str) -> str | None:
        """Return why a user may not do one of these actions, in 5.5.0's words; None: he may."""
        user = self.signer(name)
        if user is None:
            return f"User:{name} not found."
        if not user.is_enabled:
            return f"User:{name} is disabled."
        if user.is_super:
            return None
        if kind is Resource.TOPIC and resource == STATE_TOPIC:  # it has everybody's policies, and sealed secrets
            return f"{USER}{name} has no permission to access {kind.value}:{resource}, which is for super users alone"
        conflict = AclConflict.ALLOW if self.is_derived(name) else self.conflict
        entry = deciding(self._judging(name), kind, resource, actions, source, conflict)
        if entry is not None and entry.decision is Decision.ALLOW:
            return None
        detail = "no matched policies." if entry is None else "the decision is deny."
        return f"{USER}{name} has no permission to access {kind.value}:{resource} from {source}, {detail}"

    def may_any(self, name: str, kind: Resource, actions: tuple[Action, ...]) -> bool:
        """Tell whether a user's policies allow one of these actions on anything of a kind at all."""
        user = self.signer(name)
        if user is None or not user.is_enabled:
            return False
        return user.is_super or any(
            entry.decision is Decision.ALLOW
            and entry.pattern.kind in (kind, None)
            and not entry.covered.isdisjoint(actions)
            for policy in self._judging(name)
            for entry in policy.entries
        )

    def _judging(self, name: str) -> Policies:
        return (self._derived if self.is_derived(name) else self).policies.get(name, ())
