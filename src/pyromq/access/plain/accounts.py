"""A file of ACL 1.0 (`plain_acl.yml`, `conf/acl/*.yml`), read as RocketMQ 4.9 reads it, but for words that it guesses.

    globalWhiteRemoteAddresses: [10.10.103.*]
    accounts:
    - accessKey: RocketMQ
      secretKey: 12345678
      whiteRemoteAddress: 192.168.0.*
      admin: false
      defaultTopicPerm: DENY
      defaultGroupPerm: SUB
      topicPerms: [orders=PUB|SUB]
      groupPerms: [shop=SUB]

A permission is DENY, PUB, SUB or PUB|SUB. For any other word RocketMQ 4.9 takes DENY and 5.x everything; here the file
is refused. PyYAML is not the core's: the extra `acl` brings it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ...errors import ConfigError
from ...protocol.access import Action
from ...text.extras import install_command
from .addresses import NO_ADDRESSES, AddressList

MOST_BYTES = 4 << 20
_LEAST_CHARACTERS = 7  # of names and secrets, as RocketMQ has it
# Of `!!bool x`, of a date that is none, of nesting without end: nothing of it is a YAMLError.
_WHAT_PYYAML_RAISES = (ValueError, LookupError, AttributeError, TypeError, ArithmeticError, RecursionError)
Permission = frozenset[Action]  # nothing in it: DENY
_PUB_SUB = frozenset((Action.PUB, Action.SUB))
_WORDS: dict[str, Permission] = {
    "DENY": frozenset(),
    "PUB": frozenset((Action.PUB,)),
    "SUB": frozenset((Action.SUB,)),
    "PUB|SUB": _PUB_SUB,
    "SUB|PUB": _PUB_SUB,
}
T = TypeVar("T")


class BrokenFile(ConfigError):
    """A file is none of ACL 1.0. Its text says where and why, without anything secret of it."""


@dataclass(frozen=True, slots=True)
class PlainAccount:
    """`topic_default` and `group_default` None: the file says nothing, which is DENY in ACL 1.0."""

    name: str
    secret: str = field(repr=False)
    is_admin: bool = False
    white: AddressList = NO_ADDRESSES
    topic_default: Permission | None = None
    group_default: Permission | None = None
    topics: tuple[tuple[str, Permission], ...] = ()
    groups: tuple[tuple[str, Permission], ...] = ()


@dataclass(frozen=True, slots=True)
class PlainFile:
    accounts: tuple[PlainAccount, ...] = ()
    white: AddressList = NO_ADDRESSES

    @property
    def lets_in(self) -> bool:
        """Return whether it has any white list of addresses."""
        return bool(self.white.patterns) or any(account.white.patterns for account in self.accounts)


def read_file(data: bytes, file: str) -> PlainFile:
    """Return what a file says. BrokenFile otherwise. ConfigError where PyYAML is missing."""
    content = _yaml(data, file)
    if content is None:
        return PlainFile()
    if not isinstance(content, dict) or not isinstance(content.get("accounts") or [], list):
        raise BrokenFile(f"{file} is no file of ACL 1.0: it has a list of accounts")
    white = _addresses(content.get("globalWhiteRemoteAddresses"), f"{file}: globalWhiteRemoteAddresses")
    accounts = enumerate(content.get("accounts") or [], 1)
    return PlainFile(tuple(_account(account, f"{file}: account {number}") for number, account in accounts), white)


def _yaml(data: bytes, file: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise ConfigError(f"{file} is YAML, which needs PyYAML: {install_command('acl')}") from None
    if len(data) > MOST_BYTES:
        raise BrokenFile(f"{file} has more than {MOST_BYTES} bytes: that is no file of accounts")
    try:
        return yaml.load(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, *_WHAT_PYYAML_RAISES) as fault:  # what it says may quote a secret: its line alone is told
        mark = getattr(fault, "problem_mark", None)
        where = "" if mark is None else f" in line {mark.line + 1}"
        raise BrokenFile(f"{file} is no YAML that can be read{where}") from None


def _account(account: Any, where: str) -> PlainAccount:
    if not isinstance(account, dict):
        raise BrokenFile(f"{where} has no accessKey and secretKey")
    name, secret = (_text(account.get(key), f"{where}: {key}") for key in ("accessKey", "secretKey"))
    if not name or not secret:
        raise BrokenFile(f"{where} has no accessKey or no secretKey")
    for key, value in (("accessKey", name), ("secretKey", secret)):
        if len(value) < _LEAST_CHARACTERS:
            raise BrokenFile(f"{where}: its {key} is too short: it has more than 6 characters, as in RocketMQ")
    where = f"{where} ({name})"
    admin = account.get("admin")
    if admin not in (None, True, False):
        raise BrokenFile(f"{where}: admin is true or false")
    return PlainAccount(
        name,
        secret,
        bool(admin),
        _addresses(account.get("whiteRemoteAddress"), f"{where}: whiteRemoteAddress"),
        _default(account, "defaultTopicPerm", where),
        _default(account, "defaultGroupPerm", where),
        _permissions(account, "topicPerms", where),
        _permissions(account, "groupPerms", where),
    )


def _text(value: Any, where: str) -> str:
    """Return a text. A number may stand without quotes, as RocketMQ's own example has it."""
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise BrokenFile(f"{where} is no text: put it in quotes")
    try:
        return str(value).strip()
    except ValueError:  # of thousands of digits
        raise BrokenFile(f"{where} is no text: put it in quotes") from None


def _addresses(value: Any, where: str) -> AddressList:
    texts = [_text(one, where) for one in (value if isinstance(value, list) else [value])]
    return _said(where, lambda: AddressList.parse(texts))


def _default(account: dict[Any, Any], key: str, where: str) -> Permission | None:
    text = _text(account.get(key), f"{where}: {key}")
    return _permission(text, f"{where}: {key}") if text else None


def _permissions(account: dict[Any, Any], key: str, where: str) -> tuple[tuple[str, Permission], ...]:
    value = account.get(key) or []
    if not isinstance(value, list):
        raise BrokenFile(f"{where}: {key} is a list of NAME=PUB|SUB")
    found: dict[str, Permission] = {}
    for one in value:
        name, equal, word = (part.strip() for part in _text(one, f"{where}: {key}").partition("="))
        if not equal or not name:
            raise BrokenFile(f"{where}: {key} has {one!r}: it is NAME=PUB|SUB")
        found[name] = _permission(word, f"{where}: {key}")  # of two, the later one, as in RocketMQ
    return tuple(found.items())


def _permission(word: str, where: str) -> Permission:
    if word not in _WORDS:
        raise BrokenFile(f"{where}: {word!r} is none of {', '.join(_WORDS)}")
    return _WORDS[word]


def _said(where: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except ValueError as fault:
        raise BrokenFile(f"{where}: {fault}") from None
