"""`pyromq user`: who may sign requests. Secrets are made here, printed once, and can be replaced without a gap."""

from __future__ import annotations

from typing import Any

import click

from ... import admin
from ...ambient import secret_word
from ...protocol.bodies.groups import UserInfo
from ..terminal.exits import REFUSED
from ..terminal.options import one_broker, together
from ..terminal.secret_file import read_secret
from ..terminal.shell import Shell, changes, talks
from ..terminal.tree import Fail, Tree, command
from .files import export, import_file
from .servers import KeptUsers, check_known, check_not_oneself, kept_users, policy_rows, user_rows

ROLE_NAMES = click.Choice(tuple(admin.roles.ROLES))
_name = click.argument("name", metavar="NAME")
_secret_file = click.option(
    "--secret-file", metavar="FILE", help="Take the secret from FILE, - for standard input.  [a new random one]"
)


@click.group(cls=Tree)
def user() -> None:
    """Users: who may sign requests.

    All brokers and name servers of ours are asked and changed, each keeps its own table. Only a super user, or who may
    update the cluster, is let in here: his keys are those of the profile, or PYROMQ_ACCESS_KEY and PYROMQ_SECRET_KEY.
    """


user.add_command(export)
user.add_command(import_file)


@command("pyromq user create shop", "pyromq user create alice --role operator --json", of=user)
@_name
@together(
    click.option("--super", "is_super", is_flag=True, help="A super user: may do everything."),
    click.option("--role", type=ROLE_NAMES, help="Ready permissions (pyromq acl role).  [none: he may do nothing yet]"),
    _secret_file,
    one_broker,
)
@changes
async def create(
    shell: Shell, name: str, is_super: bool, role: str | None, secret_file: str | None, broker: str | None
) -> None:
    """Make user NAME. His secret is made here, printed once, and can be shown by nobody later."""
    if is_super and role is not None:
        raise click.UsageError("a super user may do everything: leave --role out")
    found = await kept_users(shell, broker)
    if where := [one.server.name for one in found if name in one.users]:
        raise Fail(f"user {name} is on {', '.join(where)} already: pyromq user update, rotate or delete change him")
    kind = "Super" if is_super else "Normal"
    row = {"user": name, "type": kind, "role": role or ""}
    if shell.is_dry or is_super:
        shell.about_to(f"make the {'super ' if is_super else ''}user {name}", [row])
    secret = _secret(secret_file)
    for one in found:
        await admin.users.put(shell.calls, one.server.address, UserInfo(username=name, password=secret, user_type=kind))
    if role is not None:
        for one in found:
            await admin.users.put_policies(shell.calls, one.server.address, name, [admin.roles.policy_of(role)])
    _show_secret(shell, row, secret, secret_file)


@command("pyromq user list", "pyromq user list --json", of=user, name="list")
@one_broker
@talks
async def list_users(shell: Shell, broker: str | None) -> None:
    """List users, with their roles, and on which servers they are if not on all."""
    shell.rows(user_rows(await kept_users(shell, broker)), "nobody: pyromq user create NAME makes a user")


@command("pyromq user show shop", of=user)
@_name
@one_broker
@talks
async def show(shell: Shell, name: str, broker: str | None) -> None:
    """Show user NAME and what he may do. His secret is not shown."""
    found = await kept_users(shell, broker)
    check_known(found, name)
    shown = [row for row in user_rows(found) if row["user"] == name]
    entries = [{key: row[key] for key in row if key != "user"} for row in policy_rows(found, name)]
    shell.report({"user": name, "is": [{k: v for k, v in row.items() if k != "user"} for row in shown], "may": entries})


@command("pyromq user update shop --disable --yes", "pyromq user update alice --super --yes", of=user)
@_name
@together(
    click.option("--enable/--disable", "is_enabled", default=None, help="Let him in, or keep him out."),
    click.option("--super/--normal", "is_super", default=None, help="May do everything, or what policies allow."),
    one_broker,
)
@changes
async def update(shell: Shell, name: str, is_enabled: bool | None, is_super: bool | None, broker: str | None) -> None:
    """Change whether NAME is let in, and whether he may do everything."""
    if is_enabled is None and is_super is None:
        raise click.UsageError("say what to change: --enable, --disable, --super or --normal")
    found = await _with(shell, name, broker)
    status = None if is_enabled is None else "enable" if is_enabled else "disable"
    kind = None if is_super is None else "Super" if is_super else "Normal"
    info = UserInfo(username=name, user_status=status, user_type=kind)
    check_not_oneself(shell, found, name, info)
    row = {"user": name} | ({"status": status} if status else {}) | ({"type": kind} if kind else {})
    shell.about_to(f"change user {name}", [row])
    for one in found:
        await admin.users.update(shell.calls, one.server.address, info)
    shell.rows([row])


@command("pyromq user rotate shop", "pyromq user rotate shop --finish", of=user)
@_name
@together(
    click.option("--finish", is_flag=True, help="End it: the secret from before is no longer valid."),
    click.option("--at-once", is_flag=True, help="End the old secret now: for one that others have seen."),
    _secret_file,
    one_broker,
)
@changes
async def rotate(
    shell: Shell, name: str, finish: bool, at_once: bool, secret_file: str | None, broker: str | None
) -> None:
    """Give NAME a new secret, printed once; the old one is valid too until --finish.

    Rotate, give the new secret to all programs of the user, then finish.
    """
    if finish and (at_once or secret_file is not None):
        raise click.UsageError("--finish makes no new secret: leave --at-once and --secret-file out")
    found = await _with(shell, name, broker)
    rotating = [one.server.name for one in found if one.users[name].old_password_valid]
    if finish:
        if not rotating:
            raise Fail(f"user {name} has one secret only: there is nothing to finish")
        shell.about_to(f"end the old secret of {name}", [{"user": name, "on": ", ".join(rotating)}])
        for one in found:
            await admin.users.drop_old(shell.calls, one.server.address, name)
        shell.rows([{"user": name, "oldSecretValid": False}])
        return
    if rotating and not at_once:
        raise Fail(
            f"user {name} has two secrets already: pyromq user rotate {name} --finish ends the older one first",
            REFUSED,
        )
    if at_once or shell.is_dry:
        shell.about_to(f"replace the secret of {name}", [{"user": name, "oldSecretValid": not at_once}])
    secret = _secret(secret_file)
    for one in found:
        info = UserInfo(username=name, password=secret)
        await admin.users.update(shell.calls, one.server.address, info, keep_old=not at_once)
    _show_secret(shell, {"user": name, "oldSecretValid": not at_once}, secret, secret_file)


@command("pyromq user delete shop --yes", of=user)
@_name
@one_broker
@changes
async def delete(shell: Shell, name: str, broker: str | None) -> None:
    """Delete user NAME and his policies."""
    found = await _with(shell, name, broker)
    check_not_oneself(shell, found, name)
    shell.about_to(f"delete user {name} and his policies", [{"user": name, "on": ", ".join(_names(found))}])
    for one in found:
        await admin.users.delete(shell.calls, one.server.address, name)
    shell.rows([{"user": name, "deleted": True}])


async def _with(shell: Shell, name: str, broker: str | None) -> list[KeptUsers]:
    """Return the servers that have the user."""
    found = await kept_users(shell, broker)
    check_known(found, name)
    return [one for one in found if name in one.users]


def _names(found: list[KeptUsers]) -> list[str]:
    return [one.server.name for one in found]


def _secret(file: str | None) -> str:
    """Return the secret of a file, or a new one."""
    return secret_word() if file is None else read_secret(file)


def _show_secret(shell: Shell, row: dict[str, Any], secret: str, given: str | None) -> None:
    """Print what was made; a secret only where it was made here."""
    shell.rows([row if given is not None else row | {"secret": secret}])
    if given is None:
        shell.say("The secret is shown this once. Programs take it as secret key (PYROMQ_SECRET_KEY), with the name as")
        shell.say("access key (PYROMQ_ACCESS_KEY).")
