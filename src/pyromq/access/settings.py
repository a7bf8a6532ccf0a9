"""Settings of users and permissions, with Java's names. Every daemon has those of the gate; who keeps users, all."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from ..config import setting
from ..errors import ConfigError
from .plain.addresses import AddressList, WhiteLists
from .policies import AclConflict


@dataclass(frozen=True, slots=True)
class NamedSecret:
    """A name and its secret, as they stand in a setting. The secret is in no text made of it."""

    name: str
    secret: str = field(repr=False)
    token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSettings:
    """Who is let in, and who may do what."""

    authentication_enabled: bool = setting(False, help="every request must be signed by a user, or shown a certificate")
    authorization_enabled: bool = setting(False, help="users may do only what their policies allow")
    init_authentication_user: str = setting(
        "", help='the first super user, made if he is not there: {"username":"...","password":"..."}'
    )
    inner_client_authentication_credentials: str = setting(
        "",
        help="what this server signs its own requests to other servers with, a super user: "
        '{"accessKey":"...","secretKey":"..."}',
    )
    authentication_whitelist: str = setting("", help="request codes, separated by commas, that need not be signed")
    authorization_whitelist: str = setting("", help="request codes, separated by commas, that every user may send")
    authentication_address_whitelist: str = setting(
        "",
        help="addresses, separated by commas, that need not sign: 10.1.2.3, 10.1.2.*, 10.1.2.1-10, 10.1.2.{1,2}, "
        "10.1.0.0/16",
    )
    authorization_address_whitelist: str = setting(
        "", help="addresses, separated by commas, from where users may do everything; who need not sign there, too"
    )
    call_signature_seconds: int = setting(
        900, low=0, help="how far the date of a signed gRPC call may be off, so that it cannot be sent again; 0: any"
    )
    acl_conflict: AclConflict = setting(
        AclConflict.DENY, help="which of two equally narrow policy entries wins; deny as RocketMQ 5.5.0, allow as 5.3"
    )

    def check_access(self) -> None:
        """Raise ConfigError where the settings contradict each other."""
        if self.authorization_enabled and not self.authentication_enabled:
            raise ConfigError(
                "authorizationEnabled = true: policies are worth nothing while anybody may claim to be anybody; "
                "set authenticationEnabled = true too"
            )
        self.first_user()
        self.inner_credentials()
        _ = self.white_lists  # raises where one is no list of addresses

    def check_white_lists(self, why_not: str) -> None:
        """Raise ConfigError where addresses are let in though they may not be. `why_not` empty: they may."""
        white = self.white_lists
        for key, addresses in (
            ("authenticationAddressWhitelist", white.unsigned),
            ("authorizationAddressWhitelist", white.unjudged),
        ):
            if why_not and self.authentication_enabled and addresses.patterns:
                raise ConfigError(f"{key} = {addresses}: {why_not}")

    @property
    def holds_secrets(self) -> bool:
        """Return whether a server with these settings has secrets of users or of servers in its memory."""
        return self.authentication_enabled or bool(self.inner_client_authentication_credentials.strip())

    def first_user(self) -> NamedSecret | None:
        return _credentials("initAuthenticationUser", self.init_authentication_user, "username", "password")

    def inner_credentials(self) -> NamedSecret | None:
        key, text = "innerClientAuthenticationCredentials", self.inner_client_authentication_credentials
        return _credentials(key, text, "accessKey", "secretKey")

    @property
    def white_lists(self) -> WhiteLists:
        """Return the addresses that are let in. ConfigError names what is none."""
        return WhiteLists(
            unsigned=_addresses("authenticationAddressWhitelist", self.authentication_address_whitelist),
            unjudged=_addresses("authorizationAddressWhitelist", self.authorization_address_whitelist),
        )

    @property
    def authentication_whitelist_items(self) -> frozenset[str]:
        return _items(self.authentication_whitelist)

    @property
    def authorization_whitelist_items(self) -> frozenset[str]:
        return _items(self.authorization_whitelist)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSettings(GateSettings):
    """Those of the gate, and of a server that keeps users on disk and serves them."""

    allow_copy_user: bool = setting(
        True,
        help="super users may read passwords, as RocketMQ's copyUser needs it; false: only servers of the cluster may",
    )
    access_secret: str = setting(
        "", help="what users' passwords are sealed with on disk; empty: a key file made for it, pyromq/access.key"
    )


def _items(text: str) -> frozenset[str]:
    return frozenset(item.strip() for item in text.split(",") if item.strip())


def _addresses(key: str, text: str) -> AddressList:
    try:
        return AddressList.parse(text)
    except ValueError as fault:
        raise ConfigError(f"{key}: {fault}") from None


def _credentials(key: str, text: str, name: str, secret: str) -> NamedSecret | None:
    """Return what a setting of JSON says. ConfigError, without the text, which is a secret."""
    if not text.strip():
        return None
    try:
        value: Any = json.loads(text)
        found = (value[name], value[secret])
    except (ValueError, KeyError, TypeError):
        found = (None, None)
    if not all(isinstance(part, str) and part.strip() for part in found):
        raise ConfigError(f'{key}: it must be JSON like {{"{name}":"...","{secret}":"..."}}')
    token = value.get("securityToken")
    return NamedSecret(found[0], found[1], token if isinstance(token, str) else "")
