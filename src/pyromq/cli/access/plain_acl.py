"""ACL 1.0 of RocketMQ 4.x (`plain_acl.yml`, `conf/acl/*.yml`) as users and policies of 2.0, the way 5.x migrates it.

    accounts:
    - accessKey: RocketMQ
      secretKey: 12345678
      admin: false
      defaultTopicPerm: DENY
      topicPerms: [orders=PUB|SUB]
      groupPerms: [shop=SUB]

`topicPerms` and `groupPerms` become the Custom policy, the defaults the Default one, an admin a super user. White lists
let addresses in without a signature: 2.0 has nothing like them, so they are named and left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ...protocol.bodies.groups import PolicyEntryInfo, PolicyInfo, UserInfo
from ..terminal.exits import REFUSED
from ..terminal.tree import Fail

_MOST_BYTES = 4 << 20
_DENY = "DENY"
_ACTIONS = {"PUB": ["Pub"], "SUB": ["Sub"], "PUB|SUB": ["Pub", "Sub"], "SUB|PUB": ["Pub", "Sub"], _DENY: ["All"]}


@dataclass(frozen=True, slots=True)
class PlainAccount:
    user: UserInfo
    policies: list[PolicyInfo]


@dataclass(slots=True)
class PlainAcl:
    """What a file says. `left_out`: what has no counterpart, in words."""

    accounts: list[PlainAccount] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def read_plain_acl(data: bytes, file: str) -> PlainAcl:
    """Return the accounts of a file. Fail says what is wrong with it, without its secrets."""
    import yaml

    if len(data) > _MOST_BYTES:
        raise Fail(f"{file} has more than {_MOST_BYTES} bytes: that is no file of accounts", REFUSED)
    try:
        content = yaml.safe_load(data)
    except yaml.YAMLError as fault:  # its own text shows lines of the file
        mark = getattr(fault, "problem_mark", None)
        where = "" if mark is None else f" (line {mark.line + 1})"
        raise Fail(f"{file} is no YAML{where}: {getattr(fault, 'problem', 'it cannot be read')}", REFUSED) from None
    if not isinstance(content, dict) or not isinstance(content.get("accounts") or [], list):
        raise Fail(f"{file} is no file of ACL 1.0: it has a list of accounts", REFUSED)
    found = PlainAcl()
    if white := content.get("globalWhiteRemoteAddresses"):
        found.left_out.append(f"globalWhiteRemoteAddresses {', '.join(map(str, white))}: everybody signs")
    for number, account in enumerate(content.get("accounts") or [], 1):
        if not isinstance(account, dict):
            raise Fail(f"{file}: account {number} has no accessKey and secretKey", REFUSED)
        found.accounts.append(_account(account, f"{file}: account {number}"))
        if white := account.get("whiteRemoteAddress"):
            found.left_out.append(f"whiteRemoteAddress {white} of {account['accessKey']}: he signs from there too")
    return found


def _account(account: dict[str, Any], where: str) -> PlainAccount:
    name, secret = (str(account.get(key) or "").strip() for key in ("accessKey", "secretKey"))
    if not name or not secret:
        raise Fail(f"{where} has no accessKey or no secretKey", REFUSED)
    kind = "Super" if account.get("admin") is True else "Normal"
    custom = [*_entries(account, "topicPerms", "Topic", where), *_entries(account, "groupPerms", "Group", where)]
    default = [
        _entry(f"{resource}:*", str(account[key]), f"{where}: {key}")
        for key, resource in (("defaultTopicPerm", "Topic"), ("defaultGroupPerm", "Group"))
        if account.get(key)
    ]
    policies = [
        PolicyInfo(policy_type=policy, entries=entries)
        for policy, entries in (("Custom", custom), ("Default", default))
        if entries
    ]
    return PlainAccount(UserInfo(username=name, password=secret, user_type=kind), policies)


def _entries(account: dict[str, Any], key: str, resource: str, where: str) -> Iterator[PolicyEntryInfo]:
    for text in account.get(key) or []:
        name, equal, permission = str(text).partition("=")
        if not equal or not name.strip():
            raise Fail(f"{where}: {key} has {text!r}: it is NAME=PUB|SUB", REFUSED)
        yield _entry(f"{resource}:{name.strip()}", permission, f"{where}: {key}")


def _entry(resource: str, permission: str, where: str) -> PolicyEntryInfo:
    """Return one permission. RocketMQ takes words that it does not know for everything; here they are refused."""
    word = permission.replace(" ", "").upper()
    if word not in _ACTIONS:
        raise Fail(f"{where}: {permission.strip()!r} is none of {', '.join(_ACTIONS)}", REFUSED)
    return PolicyEntryInfo(resource=resource, actions=_ACTIONS[word], decision="Deny" if word == _DENY else "Allow")
