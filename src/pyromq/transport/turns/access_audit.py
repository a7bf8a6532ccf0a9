"""What the audit log is told of users and policies: logins, refusals, and changes with before and after.

Never a password, nor anything made of one: of a change of passwords it says that there was one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from ...access.directory import USER, Arrival, Directory, UserState
from ...access.forms import acl_info, user_info
from ...access.gate import AccessGate
from ...access.rights import Principal
from ...audit.log import AuditLog
from ...protocol.command import Command
from ...protocol.requests import ROWS, RequestCode

_OF_USER = {RequestCode.AUTH_CREATE_USER, RequestCode.AUTH_UPDATE_USER, RequestCode.AUTH_DELETE_USER}
_OF_SUBJECT = {RequestCode.AUTH_CREATE_ACL, RequestCode.AUTH_UPDATE_ACL, RequestCode.AUTH_DELETE_ACL}
_MOST_CONNECTIONS = 65_536  # whose logins are remembered; then all of them are noted once more


class AuditedRequest(Protocol):
    """A request as far as its change is described; `transport.dispatch.RequestOf` is one."""

    command: Command


class AccessAudit:
    """Event loop only."""

    def __init__(self, audit: AuditLog, directory: Directory) -> None:
        self._audit = audit
        self._directory = directory
        self._known: dict[str, str] = {}  # by address with its port: who was there

    def watch(self, gate: AccessGate | None) -> None:
        """Note logins and refusals from now on."""
        if gate is not None:
            gate.on_refusal.append(self._refused)
            gate.on_passage.append(self._passed)

    def watch_arrivals(self) -> None:
        """Note from now on how users and policies are changed by what other servers, a log or files say."""
        self._directory.on_arrival.append(self._arrived)

    def describe(self, request: AuditedRequest) -> Callable[[], dict[str, Any]] | None:
        """Return what tells, after a request was served, how it changed a user and his policies; None: it changes
        none."""
        code, fields = request.command.code, request.command.fields
        if code in _OF_USER:
            name = fields.get("username", "")
        elif code in _OF_SUBJECT:
            name = fields.get("subject", "").removeprefix(USER)
        else:
            return None
        before = self._directory.standing(name)
        return lambda: _difference(name, before, self._directory.standing(name))

    def _arrived(self, arrival: Arrival) -> None:
        """Note what another server, the log of a set or a file has changed here."""
        name = arrival.name
        where = {"from": arrival.source} | ({"madeAt": arrival.made_at} if arrival.made_at else {})
        about = f"{USER}{name}" if name else "all accounts"
        told = _difference(name, arrival.before, arrival.after)
        self._audit.note("policy", user=arrival.told_by, **where, about=about, **told)

    def _refused(self, principal: Principal, what: int | str, address: str, why: str) -> None:
        host, call = address.rpartition(":")[0], _name_of(what)
        key = ("refusal", principal.name, host, call, why)
        self._audit.note_seldom(key, "refusal", user=principal.name, **{"from": address}, call=call, why=why)

    def _passed(self, principal: Principal, address: str) -> None:
        """Note the first request of a user on a connection."""
        if self._known.get(address) == principal.name or not principal.is_let_in:
            return
        if len(self._known) >= _MOST_CONNECTIONS:
            self._known.clear()
        self._known[address] = principal.name
        host = address.rpartition(":")[0]
        fields = {"user": principal.name, "from": address, "by": principal.proof.value}
        self._audit.note_seldom(("login", principal.name, host), "login", **fields)


def _difference(name: str, before: UserState, after: UserState) -> dict[str, Any]:
    told: dict[str, Any] = {"before": _shown(name, before), "after": _shown(name, after)}
    return told | ({"passwordChanged": True} if _secrets(before) != _secrets(after) else {})


def _shown(name: str, standing: UserState) -> dict[str, Any] | None:
    """Return what holds about a user, without his password; None: there is none."""
    user, policies, believed = standing
    addresses = {"believedFrom": list(believed)} if believed else {}
    if user is None:
        return addresses or None
    acl = acl_info(name, policies)
    shown: dict[str, Any] = msgspec.to_builtins(user_info(user, with_secret=False))
    shown.pop("password", None)
    return shown | {"policies": [] if acl is None else msgspec.to_builtins(acl).get("policies")} | addresses


def _secrets(standing: UserState) -> tuple[str, ...]:
    return () if standing.user is None else tuple(standing.user.secrets)


def _name_of(what: int | str) -> str:
    row = ROWS.get(what) if isinstance(what, int) else None
    return str(what) if row is None else row.name
