"""`pyromq user export` and `import`: users and policies as a file, in the JSON that RocketMQ's requests have.

    {"users": [{"username": "shop", "userType": "Normal", "userStatus": "enable"}],
     "acls": [{"subject": "User:shop", "policies": [{"policyType": "Custom", "entries": [...]}]}]}

`users` is what request 3005 answers, `acls` what 3010 does.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from ... import admin
from ...ambient import secret_word
from ...files import replace_file
from ...protocol.bodies.groups import AclInfo, UserInfo
from ..terminal.exits import REFUSED
from ..terminal.options import one_broker
from ..terminal.printing import print_text, to_json
from ..terminal.shell import Shell, changes, talks
from ..terminal.tree import Fail, command
from .file_of_users import read_users
from .servers import KeptUsers, check_not_oneself, kept_users

_SHOWN_ONCE = "Secrets are shown this once: give them to the users' programs."


@command("pyromq user export users.json", "pyromq user export users.json --secrets", name="export")
@click.argument("file", default="-")
@click.option("--secrets", is_flag=True, help="With the secrets, in clear: for super users, into a file alone.")
@one_broker
@talks
async def export(shell: Shell, file: str, secrets: bool, broker: str | None) -> None:
    """Write users and policies to FILE, or to standard output; only their owner can read the file.

    They are those of the first server that has them. Without --secrets, `import` makes new secrets.
    """
    if secrets and file == "-":
        raise click.UsageError("--secrets needs a FILE: what is printed is read by others")
    found = await kept_users(shell, broker)
    users: dict[str, UserInfo] = {}
    acls: dict[str, AclInfo] = {}
    for one in reversed(found):
        users |= one.users
        acls |= one.policies
    if secrets and (hidden := sorted(name for name, user in users.items() if not user.password)):
        raise Fail(f"the secrets of {', '.join(hidden)} are shown to super users alone (allowCopyUser)", REFUSED)
    told = [_shown(user, secrets) for _, user in sorted(users.items())]
    content = {"users": told, "acls": [msgspec.to_builtins(acl) for _, acl in sorted(acls.items())]}
    if file == "-":
        print_text(to_json(content, indent=2))
        return
    _write(file, to_json(content, indent=2))
    shell.rows([{"file": file, "users": len(users), "policies": len(acls), "secrets": secrets}])


def _write(file: str, text: str) -> None:
    if Path(file).is_dir():
        raise click.UsageError(f"{file} is a folder: name a file")
    replace_file(Path(os.path.abspath(file)), (text + "\n").encode(), keep_backup=False)


def _shown(user: UserInfo, with_secret: bool) -> Any:
    return msgspec.to_builtins(user if with_secret else msgspec.structs.replace(user, password=None))


@command("pyromq user import users.json", "pyromq user import users.json --dry-run", name="import")
@click.argument("file")
@one_broker
@changes
async def import_file(shell: Shell, file: str, broker: str | None) -> None:
    """Make or change the users and policies that FILE names, - for standard input. Others stay as they are.

    A new user without a secret in the file gets one, which is printed once.
    """
    users, acls = read_users(_content(file), file)
    found = await kept_users(shell, broker)
    made: dict[str, str] = {}
    rows = []
    for user in users:
        name = user.username or ""
        check_not_oneself(shell, found, name, user)
        if not user.password:
            with_him = [one.server.name for one in found if name in one.users]
            if with_him and len(with_him) < len(found):
                why = f"user {name} is on {', '.join(with_him)} alone, and {file} has no secret for the others"
                raise Fail(f"{why}: export him with --secrets there, and import that", REFUSED)
            if not with_him:
                made[name] = user.password = secret_word()
        rows.append(_row(name, user, name in acls, found))
    rows += [
        {"user": name, "type": "", "status": "", "change": "policies"}
        for name in acls
        if name not in {user.username for user in users}
    ]
    shell.about_to(f"import {len(users)} users and the policies of {len(acls)} from {file}", rows)
    for one in found:
        for user in users:
            await admin.users.put(shell.calls, one.server.address, user)
        for name, acl in acls.items():
            await admin.users.put_policies(shell.calls, one.server.address, name, acl.policies or [])
    shell.rows([row | ({"secret": made[row["user"]]} if row["user"] in made else {"secret": ""}) for row in rows])
    if made:
        shell.say(_SHOWN_ONCE)


def _content(file: str) -> bytes:
    return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()


def _row(name: str, user: UserInfo, has_policies: bool, found: list[KeptUsers]) -> dict[str, Any]:
    is_there = all(name in one.users for one in found)
    change = ("change" if is_there else "make") + (", policies" if has_policies else "")
    return {"user": name, "type": user.user_type or "", "status": user.user_status or "", "change": change}
