"""What the servers that keep users have, side by side: all brokers and name servers should have the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ... import admin
from ...protocol.bodies.groups import UserInfo
from ..terminal.exits import REFUSED
from ..terminal.shell import Shell
from ..terminal.tree import Fail, unknown

if TYPE_CHECKING:
    from ...admin.users import AccessServer
    from ...protocol.bodies.groups import AclInfo


@dataclass(frozen=True, slots=True)
class KeptUsers:
    """What one server keeps."""

    server: AccessServer
    users: Mapping[str, UserInfo]
    policies: Mapping[str, AclInfo]


async def kept_users(shell: Shell, which: str | None) -> list[KeptUsers]:
    """Ask all servers, or one by name or address. The first that does not answer ends it: then nothing is changed."""
    if which is not None and ":" in which:
        servers = [admin.users.AccessServer(which, which)]
    else:
        servers = await admin.users.servers(shell.calls)
        if which is not None:
            known = servers
            servers = [one for one in known if which == one.name.partition(" ")[0]]
            if not servers:
                raise unknown("broker", which, [one.name for one in known], "Name it, or give HOST:PORT")
    return [
        KeptUsers(
            one,
            await admin.users.users(shell.calls, one.address),
            await admin.users.policies(shell.calls, one.address),
        )
        for one in servers
    ]


def check_known(found: list[KeptUsers], name: str) -> None:
    """Fail if no server has the user, with similar names."""
    if not any(name in one.users for one in found):
        raise unknown("user", name, {each for one in found for each in one.users}, "pyromq user list shows all")


def check_not_oneself(shell: Shell, found: list[KeptUsers], name: str, change: UserInfo | None = None) -> None:
    """Fail where whoever asks would delete himself (no `change`), or shut himself out by a change."""
    is_super = any(name in one.users and one.users[name].user_type == "Super" for one in found)
    if change is not None and not is_super:
        change = UserInfo(user_status=change.user_status)
    if why := admin.users.own_end(shell.calls, name, change):
        raise Fail(why, REFUSED)


def user_rows(found: list[KeptUsers]) -> list[dict[str, Any]]:
    """Return a row for each user; where servers differ, one for each kind of him, which says where he is so."""
    kinds: dict[tuple[str, str, str, str, bool], list[str]] = {}
    for one in found:
        for name, user in one.users.items():
            acl = one.policies.get(name)
            role = admin.roles.role_of(None if acl is None else acl.policies)
            key = (name, user.user_type or "", user.user_status or "", role, bool(user.old_password_valid))
            kinds.setdefault(key, []).append(one.server.name)
    return [
        {"user": name, "type": kind, "status": status, "role": role, "oldSecretValid": is_rotating}
        | {"on": "all" if len(where) == len(found) else ", ".join(where)}
        for (name, kind, status, role, is_rotating), where in sorted(kinds.items())
    ]


def policy_rows(found: list[KeptUsers], name: str | None = None, resource: str = "") -> list[dict[str, Any]]:
    """Return a row for each entry of all users, or of one; where servers differ it says which ones have it."""
    kinds: dict[tuple[str, ...], list[str]] = {}
    for one in found:
        for user, acl in one.policies.items():
            for policy in acl.policies or ():
                for entry in policy.entries:
                    if name in (None, user) and resource in (entry.resource or ""):
                        actions, sources = (", ".join(words or ()) for words in (entry.actions, entry.source_ips))
                        words = (user, policy.policy_type, entry.resource, actions, sources, entry.decision)
                        kinds.setdefault(tuple(word or "" for word in words), []).append(one.server.name)
    titles = ("user", "policy", "resource", "actions", "from", "decision")
    return [
        dict(zip(titles, words, strict=True)) | {"on": "all" if len(where) == len(found) else ", ".join(where)}
        for words, where in kinds.items()
    ]
