"""A user with his policies as servers tell each other: his secrets sealed with what only they know, all of it proved
with that, so that nobody else makes or changes an entry."""

from __future__ import annotations

from typing import Protocol

import msgspec

from ...errors import ConfigError
from ...protocol.bodies.groups import AclInfo
from ...protocol.bodies.own import SharedUser, SharedUserRow
from ..directory import Directory
from ..forms import acl_info, policies_of, user_status, user_type
from ..policies import Policies
from ..sealing import Seal
from ..users import User, UserStatus, UserType
from .stamps import ChangeStamp


class ProvingSeal(Seal, Protocol):
    def prove(self, content: bytes) -> str: ...

    def is_proof(self, proof: str, content: bytes) -> bool: ...


def entry_of(directory: Directory, name: str, stamp: ChangeStamp, seal: ProvingSeal) -> SharedUser:
    """Return a user as he is now; one that is not there was deleted."""
    user, acl = directory.find(name), acl_info(name, directory.policies.get(name, ()))
    row = None
    if user is not None:
        secrets = [seal.close(name, secret) for secret in user.secrets]
        row = SharedUserRow(type=user.type.value, status=user.status.value, secrets=secrets)
    policies = [] if acl is None else msgspec.to_builtins(acl.policies)
    entry = SharedUser(name=name, changed_ms=stamp.ms, changed_by=stamp.by, user=row, policies=policies)
    entry.proof = seal.prove(_proved(entry))
    return entry


def _proved(entry: SharedUser) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(entry, proof=""), order="deterministic")


def read_entry(entry: SharedUser, seal: ProvingSeal) -> tuple[User | None, Policies]:
    """Return what another server says of a user. ConfigError: it has other inner credentials, or somebody has
    changed the entry on its way; RequestRefused: nonsense.

    A word of a later version gives nobody more than this one knows."""
    if not seal.is_proof(entry.proof, _proved(entry)):
        raise ConfigError(f"what is told of user {entry.name!r} was not made with this server's inner credentials")
    if entry.user is None:
        return None, ()
    row = entry.user
    secrets = tuple(seal.open(entry.name, sealed) for sealed in row.secrets)
    kind, status = user_type(row.type) or UserType.NORMAL, user_status(row.status) or UserStatus.DISABLED
    acl = msgspec.convert({"policies": entry.policies}, AclInfo)
    return User(entry.name, secrets, kind, status), policies_of(acl) if acl.policies else ()
