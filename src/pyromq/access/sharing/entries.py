"""A user with his policies as servers tell each other: his secrets sealed with what only they know."""

from __future__ import annotations

import msgspec

from ...protocol.bodies.groups import AclInfo
from ...protocol.bodies.own import SharedUser, SharedUserRow
from ..directory import Directory
from ..forms import acl_info, policies_of, user_status, user_type
from ..policies import Policies
from ..sealing import Seal
from ..users import User, UserStatus, UserType
from .stamps import ChangeStamp


def entry_of(directory: Directory, name: str, stamp: ChangeStamp, seal: Seal) -> SharedUser:
    """Return a user as he is now; one that is not there was deleted."""
    user, acl = directory.find(name), acl_info(name, directory.policies.get(name, ()))
    row = None
    if user is not None:
        secrets = [seal.close(name, secret) for secret in user.secrets]
        row = SharedUserRow(type=user.type.value, status=user.status.value, secrets=secrets)
    policies = [] if acl is None else msgspec.to_builtins(acl.policies)
    return SharedUser(name=name, changed_ms=stamp.ms, changed_by=stamp.by, user=row, policies=policies)


def read_entry(entry: SharedUser, seal: Seal) -> tuple[User | None, Policies]:
    """Return what another server says of a user. ConfigError: it has other inner credentials; RequestRefused: nonsense.

    A word of a later version gives nobody more than this one knows."""
    if entry.user is None:
        return None, ()
    row = entry.user
    secrets = tuple(seal.open(entry.name, sealed) for sealed in row.secrets)
    kind, status = user_type(row.type) or UserType.NORMAL, user_status(row.status) or UserStatus.DISABLED
    acl = msgspec.convert({"policies": entry.policies}, AclInfo)
    return User(entry.name, secrets, kind, status), policies_of(acl) if acl.policies else ()
