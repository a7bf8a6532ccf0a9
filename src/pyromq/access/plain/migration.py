"""Accounts of ACL 1.0 written into the table of users, as RocketMQ 5.x does with `migrateAuthFromV1Enabled`."""

from __future__ import annotations

from pathlib import Path

from ... import logs
from ...errors import ConfigError, RequestRefused
from ...protocol.bodies.groups import AclInfo
from ..forms import policies_of
from ..table import AccessTable
from ..users import User, UserType
from .files import MAIN, ReadFiles, contents
from .users import migrated_policies

log = logs.get("pyromq.access")


def migrate(table: AccessTable, home: Path, main: str = MAIN) -> None:
    """Make users of the accounts that there are none of. One that was deleted stays deleted. Blocks.

    ConfigError: a file is broken."""
    files = ReadFiles()
    files.take(contents(home, main))
    for fault in files.faults.values():
        raise ConfigError(f"migrateAuthFromV1Enabled = true: {fault}")
    for path, account in files.accounts():
        if table.directory.find(account.name) is not None or account.name in table.stamps.by_name:
            continue
        user = User(account.name, (account.secret,), UserType.SUPER if account.is_admin else UserType.NORMAL)
        shown = migrated_policies(account)
        try:
            table.make(user, policies_of(AclInfo(policies=shown)) if shown else ())
        except RequestRefused as fault:
            raise ConfigError(f"{path}: {account.name} cannot be made a user: {fault}") from None
        log.info("an account of ACL 1.0 is a user now", user=account.name, type=user.type.value, file=path)
    if files.white.patterns or any(account.white.patterns for _, account in files.accounts()):
        log.warning(
            "white lists of ACL 1.0 are not migrated: authenticationAddressWhitelist and authorizationAddressWhitelist "
            "let addresses in"
        )
