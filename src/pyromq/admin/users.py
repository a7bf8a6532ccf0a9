"""Users and policies (ACL 2.0) of brokers and of those name servers that keep users: ours do, Apache's do not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..client.errors import Refused
from ..model.codes import ResponseCode
from ..protocol.bodies.groups import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from ..protocol.headers.admin import AclSubject, DeleteAcl, ListAcls, ListUsers, UserChange, UserName
from ..protocol.requests import RequestCode
from . import cluster
from .calls import Calls
from .roles import DEFAULT, ROLES

USER = "User:"  # before the name, where a policy's subject is written
_EXISTS = "The user is existed"  # how brokers say it, Apache's too


@dataclass(frozen=True, slots=True)
class AccessServer:
    """A broker or a name server that keeps users."""

    name: str
    address: str


async def servers(calls: Calls) -> list[AccessServer]:
    """Return all brokers, slaves and replicas too, and the name servers that keep users."""
    found = [
        AccessServer(place.name if place.is_master else f"{place.name} {place.id}", place.address)
        for place in await cluster.brokers(calls)
    ]
    for address in calls.session.config.name_servers:
        unsupported = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        answer = await calls.ask(address, RequestCode.AUTH_LIST_USER, ListUsers(), known=[unsupported])
        if answer.code != unsupported:
            found.append(AccessServer("name server", address))
    return found


# --- users ------------------------------------------------------------------------------------------------------------


async def users(calls: Calls, address: str) -> dict[str, UserInfo]:
    """Return all users by name. Passwords are among them only if the server shows them to whom asks."""
    found = (await calls.ask(address, RequestCode.AUTH_LIST_USER, ListUsers())).body_or_none or []
    return {user.username or "": user for user in found}


async def create(calls: Calls, address: str, user: UserInfo) -> None:
    await calls.ask(address, RequestCode.AUTH_CREATE_USER, UserName(username=user.username), user)


async def update(calls: Calls, address: str, user: UserInfo, *, keep_old: bool = False) -> None:
    """Change what is given. `keep_old`: the password that was valid stays valid beside the new one (our servers)."""
    header = UserChange(username=user.username, keep_old=True if keep_old else None)
    await calls.ask(address, RequestCode.AUTH_UPDATE_USER, header, user)


async def put(calls: Calls, address: str, user: UserInfo) -> None:
    """Create the user, or change the one that is there: a server of the same cluster may have told of him already.

    Without a password he is there: nobody can be created so."""
    if not user.password:
        await update(calls, address, user)
        return
    try:
        await create(calls, address, user)
    except Refused as refusal:
        if not refusal.remark.startswith(_EXISTS):
            raise
        await update(calls, address, user)


async def drop_old(calls: Calls, address: str, name: str) -> None:
    """Let a user's newest password alone be valid (our servers)."""
    header = UserChange(username=name, drop_old=True)
    await calls.ask(address, RequestCode.AUTH_UPDATE_USER, header, UserInfo(username=name))


async def delete(calls: Calls, address: str, name: str) -> None:
    await calls.ask(address, RequestCode.AUTH_DELETE_USER, UserName(username=name))


def own_end(calls: Calls, name: str, change: UserInfo | None = None) -> str:
    """Return why whoever asks does not delete himself (no `change`), disable himself or give up being a super user;
    empty: it is nothing of that kind.

    Servers tell each other before they answer: the first one makes the change, and the next one lets him in no more."""
    what = "delete"
    if change is not None:
        status, kind = (change.user_status or "").lower(), (change.user_type or "").lower()
        what = "disable" if status == "disable" else "demote" if kind == "normal" else ""
    if not what or not name or name != calls.session.config.access_key:
        return ""
    return f"you are {name}: nobody is to {what} himself. Another super user does it, with his own keys"


# --- policies ---------------------------------------------------------------------------------------------------------


async def policies(calls: Calls, address: str) -> dict[str, AclInfo]:
    """Return all policies by the user's name."""
    found = (await calls.ask(address, RequestCode.AUTH_LIST_ACL, ListAcls())).body_or_none or []
    return {(acl.subject or "").removeprefix(USER): acl for acl in found}


async def put_policies(calls: Calls, address: str, name: str, found: Sequence[PolicyInfo]) -> None:
    """Give a user policies: each entry takes the place of the one for the same resource."""
    body = AclInfo(subject=USER + name, policies=list(found))
    await calls.ask(address, RequestCode.AUTH_CREATE_ACL, AclSubject(subject=USER + name), body)


async def delete_policies(calls: Calls, address: str, name: str, resources: Iterable[str], kind: str = "") -> None:
    """Remove the entries for these resources; without one, all that the user has."""
    for resource in list(resources) or [""]:
        header = DeleteAcl(subject=USER + name, policy_type=kind or None, resource=resource or None)
        await calls.ask(address, RequestCode.AUTH_DELETE_ACL, header)


async def drop_role(calls: Calls, address: str, name: str, had: AclInfo | None) -> None:
    """Remove what any role gave a user."""
    for kind in {kind for role in ROLES.values() for kind in role}:
        if any(entry.resource == f"{kind}:*" for entry in entries_of(had, DEFAULT)):
            await delete_policies(calls, address, name, [f"{kind}:*"], DEFAULT)


def entries_of(acl: AclInfo | None, kind: str = "") -> list[PolicyEntryInfo]:
    """Return the entries of a user's policies, or of those of one kind."""
    if acl is None:
        return []
    return [entry for policy in acl.policies or () if kind in ("", policy.policy_type) for entry in policy.entries]
