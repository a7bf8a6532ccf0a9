"""What the matrix of every request and every kind of caller is made of: requests that name what their rows need."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from pyromq.access.directory import Directory
from pyromq.access.forms import policies_of
from pyromq.access.signatures import Signer
from pyromq.access.users import User, UserStatus, UserType
from pyromq.protocol.access import NameIn, Need
from pyromq.protocol.bodies.groups import AclInfo, PolicyEntryInfo, PolicyInfo
from pyromq.protocol.command import Command
from pyromq.protocol.requests import ROWS
from pyromq.protocol.row import AnyRow

CLUSTER = "DefaultCluster"
SECRET = "a secret of the matrix"
SUPER, NORMAL, DISABLED = "boss", "worker", "gone"
ON: dict[str, Any] = {
    "authentication_enabled": True,
    "authorization_enabled": True,
    "stranger_refusals": 1_000_000,  # a matrix is refused more often on a connection than any client
    "init_authentication_user": f'{{"username":"{SUPER}","password":"{SECRET}"}}',
}


def name_of(need: Need) -> str:
    """Return what a request calls the resource of a need: each need of a row has a name of its own."""
    return f"M-{need.name.replace('.', '-')}"


def request_of(row: AnyRow) -> Command:
    """Return a request that names what its row needs, and nothing else."""
    fields = {need.name: name_of(need) for need in row.needs if need.name_in is NameIn.HEADER}
    paths = {need.name: name_of(need) for need in row.needs if need.name_in is NameIn.BODY}
    body = msgspec.json.encode(_body(row.takes.body, paths)) if paths else b""
    return Command(code=row.code, fields=fields, body=body)


def _body(kind: Any, paths: dict[str, str]) -> Any:
    """Return the object in which each path of members leads to its name, with what it must have besides."""
    found: dict[str, Any] = {each.encode_name: _least(each) for each in msgspec.structs.fields(kind) if each.required}
    for path, name in paths.items():
        member, _, rest = path.partition(".")
        field = next(each for each in msgspec.structs.fields(kind) if each.encode_name == member)
        inner = next((one for one in getattr(field.type, "__args__", ()) if one is not type(None)), field.type)
        if not rest:
            found[member] = name
            continue
        others = {other.partition(".")[2]: its for other, its in paths.items() if other.startswith(member + ".")}
        value = _body(inner, others)
        is_many = getattr(field.type, "__origin__", None) in (list, set, frozenset)
        found[member] = [value] if is_many else value
    return found


def _least(field: Any) -> Any:
    return "x" if field.type is str else 0


def signed(command: Command, name: str, secret: str = SECRET) -> Command:
    Signer(name, secret).sign(command)
    return command


def make_users(directory: Directory) -> None:
    directory.create(User(NORMAL, (SECRET,)))
    directory.create(User(DISABLED, (SECRET,), UserType.SUPER, UserStatus.DISABLED))


def allow(directory: Directory, needs: tuple[Need, ...], *, suffix: str = "", cluster: str = CLUSTER) -> None:
    """Let the normal user do what these needs ask for, and nothing else. `suffix`: on other names than those."""
    if NORMAL in directory.policies:
        directory.remove(NORMAL)
    entries = [
        PolicyEntryInfo(
            resource=f"{need.resource.value}:{cluster if need.name_in is NameIn.SERVER else name_of(need) + suffix}",
            actions=[need.actions[0].value],
            decision="Allow",
        )
        for need in needs
    ]
    if entries:
        directory.put(NORMAL, policies_of(AclInfo(policies=[PolicyInfo(entries=[entry]) for entry in entries])))


class Answered(Protocol):
    """An answer as any of the tests' clients has it."""

    @property
    def code(self) -> int: ...

    @property
    def remark(self) -> str | None: ...


def is_refused(answer: Answered) -> bool:
    """Tell whether the gate refused a request, not a handler for reasons of its own."""
    remark = answer.remark or ""
    words = ("permission to access", "check signature failed", "username cannot be null", "is disabled", "is not found")
    return answer.code == 16 and any(word in remark for word in words)


# What needs the message that it points at, and nothing else, is in test_pointed_at.py.
GUARDED = [row for row in ROWS.values() if any(need.name_in is not NameIn.MESSAGE for need in row.needs)]
