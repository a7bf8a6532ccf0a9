"""What a file of `pyromq user import` says, checked whole before anything is changed.

Servers leave out what they do not know. In a file a key or a word that is not known is a slip of the pen, by which a
user could be let in who should not be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from ... import admin
from ...access.forms import policies_of
from ...access.policies import ALL, PolicyKind
from ...access.users import unknown_words
from ...errors import RequestRefused
from ...protocol.access import Action
from ...protocol.bodies.groups import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from ...text.similar import closest
from ..terminal.exits import REFUSED
from ..terminal.tree import Fail

_PARTS: dict[str, type[msgspec.Struct]] = {
    "policies": PolicyInfo,
    "entries": PolicyEntryInfo,
}  # what stands in lists under these keys
_ACTIONS = (ALL, *(action.value for action in Action))
_KINDS = tuple(kind.value for kind in PolicyKind)


def read_users(data: bytes, file: str) -> tuple[list[UserInfo], dict[str, AclInfo]]:
    """Return what a file says. Fail says what is wrong with it."""
    try:
        content = msgspec.json.decode(data)
        users = msgspec.convert(content.get("users", []), list[UserInfo])
        acls = msgspec.convert(content.get("acls", []), list[AclInfo])
    except (msgspec.DecodeError, msgspec.ValidationError, AttributeError, UnicodeDecodeError) as fault:
        raise Fail(f"{file} is no file of pyromq user export: {fault}", REFUSED) from None
    for slip in (*_unknown_keys(content), *_faults_of_users(users), *_faults_of_acls(acls)):
        raise Fail(f"{file}, of which nothing was taken: {slip}", REFUSED)
    if not users and not acls:
        raise Fail(f'{file} names nobody: it is {{"users": [...], "acls": [...]}}', REFUSED)
    return users, {(acl.subject or "").removeprefix(admin.users.USER): acl for acl in acls}


def _unknown_keys(content: dict[str, Any]) -> Iterator[str]:
    yield from _strange(content, ("users", "acls"), "the file")
    for user in content.get("users", []):
        yield from _strange(user, _keys(UserInfo), f"user {user.get('username')!r}")
    for acl in content.get("acls", []):
        yield from _unknown_keys_in(acl, AclInfo, f"the policies of {acl.get('subject')!r}")


def _unknown_keys_in(value: dict[str, Any], kind: type[msgspec.Struct], where: str) -> Iterator[str]:
    yield from _strange(value, _keys(kind), where)
    for key, part in _PARTS.items():
        for each in value.get(key) or ():
            yield from _unknown_keys_in(each, part, where)


def _strange(value: Iterable[str], known: tuple[str, ...], where: str) -> Iterator[str]:
    for key in value:
        if key not in known:
            yield f"{where} has a key {key!r}, which nobody reads: {', '.join(known)}.{closest(key, known)}"


def _keys(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(field.encode_name for field in msgspec.structs.fields(kind))


def _faults_of_users(users: list[UserInfo]) -> Iterator[str]:
    for user in users:
        if not (user.username or "").strip():
            yield "a user without a username"
        if unknown := unknown_words(user.user_type, user.user_status):
            yield f"user {user.username!r}: {unknown}"


def _faults_of_acls(acls: list[AclInfo]) -> Iterator[str]:
    for acl in acls:
        subject = acl.subject or ""
        if not subject.startswith(admin.users.USER) or not acl.policies:
            yield f"acls have a subject User:NAME and policies, not {subject!r}"
        for policy in acl.policies or ():
            if policy.policy_type:
                yield from _no_word("policyType", policy.policy_type, _KINDS, subject)
            for action in (action for entry in policy.entries for action in entry.actions or ()):
                yield from _no_word("actions", action, _ACTIONS, subject)
        try:
            policies_of(acl)
        except RequestRefused as refusal:
            yield f"{subject}: {refusal}"


def _no_word(key: str, word: str, known: tuple[str, ...], subject: str) -> Iterator[str]:
    if word.lower() not in (each.lower() for each in known):
        yield f"{subject}: {key} {word!r} is not known: {', '.join(known)}.{closest(word, known)}"
