"""`pyromq acl`: what users may do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from ... import admin
from ...access.plain.accounts import PlainAccount, PlainFile, read_file
from ...access.plain.users import migrated_policies, migrated_user
from ...errors import ConfigError
from ...protocol.access import Action, Resource
from ...protocol.bodies.groups import PolicyEntryInfo, PolicyInfo
from ...text.similar import closest
from ..terminal.exits import REFUSED
from ..terminal.options import one_broker, together
from ..terminal.printing import print_prose
from ..terminal.shell import Shell, changes, talks
from ..terminal.tree import Fail, Tree, command
from .servers import KeptUsers, check_known, kept_users, policy_rows

_name = click.argument("name", metavar="USER")
_ACTIONS = ("All", *(action.value for action in Action))


@click.group(cls=Tree)
def acl() -> None:
    """Permissions: what users may do.

    A RESOURCE is Topic:orders, Group:shop-*, Cluster:* or *, an action one of Pub, Sub, Create, Update, Delete, Get,
    List and All. The narrowest entry that fits a request decides; what nothing fits is refused.
    """


@command("pyromq acl list", "pyromq acl list Topic:orders --json", of=acl, name="list")
@click.argument("resource", default="")
@one_broker
@talks
async def list_all(shell: Shell, resource: str, broker: str | None) -> None:
    """List the permissions of all users, or those whose resource has RESOURCE in it."""
    shell.rows(policy_rows(await kept_users(shell, broker), resource=resource), "no permissions: only super users may")


@command("pyromq acl show shop", of=acl)
@_name
@one_broker
@talks
async def show(shell: Shell, name: str, broker: str | None) -> None:
    """Show what USER may do. Exit code 1: nothing."""
    found = await kept_users(shell, broker)
    check_known(found, name)
    rows = policy_rows(found, name)
    if not rows:
        raise Fail(f"user {name} has no permissions: pyromq acl create {name} Topic:orders --allow Pub")
    shell.rows(rows)


@command(
    "pyromq acl create shop Topic:orders --allow Pub,Sub",
    "pyromq acl create shop 'Group:shop-*' --allow Sub --from 10.1.0.0/16",
    "pyromq acl create shop Topic:orders-secret --deny All",
    of=acl,
)
@_name
@click.argument("resources", metavar="RESOURCE...", nargs=-1, required=True)
@together(
    click.option("--allow", metavar="ACTIONS", help="What is allowed, with commas."),
    click.option("--deny", metavar="ACTIONS", help="What is refused, with commas."),
    click.option("--from", "sources", metavar="ADDRESS", multiple=True, help="Only from there; may be given again."),
    one_broker,
)
@changes
async def create(
    shell: Shell,
    name: str,
    resources: tuple[str, ...],
    allow: str | None,
    deny: str | None,
    sources: tuple[str, ...],
    broker: str | None,
) -> None:
    """Allow or refuse USER actions on resources. An entry takes the place of the one for the same resource."""
    if (allow is None) == (deny is None):
        raise click.UsageError("give --allow ACTIONS or --deny ACTIONS")
    actions = _actions(allow or deny or "")
    for resource in resources:
        _check_resource(resource)
    decision = "Deny" if allow is None else "Allow"
    found = await _with(shell, name, broker)
    entries = [
        PolicyEntryInfo(resource=each, actions=actions, decision=decision, source_ips=list(sources) or None)
        for each in resources
    ]
    rows = [
        {"user": name, "resource": each, "actions": ", ".join(actions), "from": ", ".join(sources)}
        | {"decision": decision}
        for each in resources
    ]
    kept = {entry.resource for one in found for entry in admin.users.entries_of(one.policies.get(name), "Custom")}
    if shell.is_dry or not kept.isdisjoint(resources):
        shell.about_to(f"change what {name} may do", rows)
    for one in found:
        await admin.users.put_policies(shell.calls, one.server.address, name, [PolicyInfo(entries=entries)])
    shell.rows(rows)


@command("pyromq acl role alice operator", "pyromq acl role alice none --yes", of=acl)
@_name
@click.argument("role", type=click.Choice((*admin.roles.ROLES, "none")))
@one_broker
@changes
async def role(shell: Shell, name: str, role: str, broker: str | None) -> None:
    """Give USER a role in the place of the one that he has.

    reader: sees everything, messages of topics too. operator: also makes, changes and deletes topics and groups, and
    moves groups. administrator: also settings of servers, and users, so that he can give himself the rest. Entries of
    `pyromq acl create` count before a role.
    """
    found = await _with(shell, name, broker)
    row = {"user": name, "role": role}
    shell.about_to(f"give {name} the role {role}" if role != "none" else f"take {name} his role", [row])
    for one in found:
        await admin.users.drop_role(shell.calls, one.server.address, name, one.policies.get(name))
        if role != "none":
            await admin.users.put_policies(shell.calls, one.server.address, name, [admin.roles.policy_of(role)])
    shell.rows([row])


@command("pyromq acl delete shop Topic:orders --yes", "pyromq acl delete shop --yes", of=acl)
@_name
@click.argument("resources", metavar="[RESOURCE]...", nargs=-1)
@one_broker
@changes
async def delete(shell: Shell, name: str, resources: tuple[str, ...], broker: str | None) -> None:
    """Delete USER's entries for these resources; without one, everything that he may do."""
    found = [one for one in await _with(shell, name, broker) if name in one.policies]
    rows = [row for row in policy_rows(found, name) if not resources or row["resource"] in resources]
    missing = set(resources) - {row["resource"] for row in rows if row["policy"] == "Custom"}
    if missing or not rows:
        what = ", ".join(sorted(missing)) or "anything"
        raise Fail(f"user {name} has no entry for {what}: pyromq acl show {name}; a role is taken by pyromq acl role")
    shell.about_to(f"delete {len(rows)} entries of {name}", rows)
    for one in found:
        had = {entry.resource for entry in admin.users.entries_of(one.policies[name], "Custom")}
        if not resources or not had.isdisjoint(resources):
            wanted = [each for each in resources if each in had]
            await admin.users.delete_policies(shell.calls, one.server.address, name, wanted)
    shell.rows([row | {"deleted": True} for row in rows])


@command(
    "pyromq acl import conf/plain_acl.yml --dry-run",
    "pyromq acl import conf/plain_acl.yml conf/acl/*.yml",
    of=acl,
    name="import",
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@one_broker
@changes
async def import_files(shell: Shell, files: tuple[str, ...], broker: str | None) -> None:
    """Make users and permissions of RocketMQ 4.x's accounts (ACL 1.0, plain_acl.yml). Users who are there stay.

    It is what a server does with migrateAuthFromV1Enabled. White lists are not taken over: it says which.
    """
    found = await kept_users(shell, broker)
    accounts: dict[str, PlainAccount] = {}
    for file in files:
        plain = _read(file)
        for account in plain.accounts:
            accounts.setdefault(account.name, account)
        for text in _left_out(plain):
            print_prose(f"pyromq: left out: {text}")
    there = {name for one in found for name in one.users}
    new = {name: account for name, account in accounts.items() if name not in there}
    rows = [
        {"user": name, "type": migrated_user(account).user_type}
        | {"entries": sum(len(one.entries) for one in migrated_policies(account))}
        | {"change": "make" if name in new else "none: he is there already"}
        for name, account in accounts.items()
    ]
    if new:
        shell.about_to(f"make {len(new)} users", rows)
    for name, account in new.items():
        for one in found:
            await admin.users.put(shell.calls, one.server.address, migrated_user(account))
            if policies := migrated_policies(account):
                await admin.users.put_policies(shell.calls, one.server.address, name, policies)
    shell.rows(rows)


def _read(file: str) -> PlainFile:
    try:
        return read_file(Path(file).read_bytes(), file)
    except ConfigError as fault:
        raise Fail(str(fault), REFUSED) from None


def _left_out(plain: PlainFile) -> Iterator[str]:
    """Yield the white lists: users have none."""
    if plain.white.patterns:
        yield f"globalWhiteRemoteAddresses {plain.white}: servers have such lists (authenticationAddressWhitelist)"
    for account in plain.accounts:
        if account.white.patterns:
            yield f"whiteRemoteAddress {account.white} of {account.name}: he signs from there too"


async def _with(shell: Shell, name: str, broker: str | None) -> list[KeptUsers]:
    found = await kept_users(shell, broker)
    check_known(found, name)
    return [one for one in found if name in one.users]


def _actions(text: str) -> list[str]:
    known = {action.lower(): action for action in _ACTIONS}
    given = [word.strip() for word in text.split(",")]
    for word in given:
        if word.lower() not in known:
            raise click.UsageError(f"{word!r} is no action: {', '.join(_ACTIONS)}.{closest(word, _ACTIONS)}")
    return [known[word.lower()] for word in given]


def _check_resource(text: str) -> None:
    kind, colon, name = text.partition(":")
    kinds = [kind.value for kind in Resource]
    if text != "*" and (not colon or not name or kind.lower() not in (*(one.lower() for one in kinds), "any")):
        raise click.UsageError(
            f"{text!r} is no resource: Topic:orders, Group:shop-*, Cluster:* or *.{closest(kind, kinds)}"
        )
