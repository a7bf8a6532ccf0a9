"""What Apache's broker 5.5.0 decided, asked by tests/interop/decisions, and what ours does: the same, but for what
docs/access.md says. A difference is known by its case and by who refuses; any other one fails.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import msgspec
import pytest

from pyromq.access.directory import Directory
from pyromq.access.forms import policies_of, user_status, user_type
from pyromq.access.gate import AccessGate
from pyromq.access.needs import wants
from pyromq.access.settings import AccessSettings
from pyromq.access.user_rights import UserRights
from pyromq.access.users import User, UserStatus, UserType
from pyromq.ambient import SystemClock
from pyromq.errors import RequestRefused
from pyromq.protocol.bodies.groups import AclInfo
from pyromq.protocol.command import Command
from pyromq.protocol.requests import ROWS, RequestCode
from tests.broker.running import running_broker
from tests.interop.decisions.asks import Ask
from tests.interop.decisions.record import TABLE, decision, fields_of, make
from tests.interop.decisions.users import Asked, Person
from tests.interop.secured import ADMIN, SECRET
from tests.interop.signing import Administrator


class Row(NamedTuple):
    user: str
    ask: str
    source: str
    signed: str
    answer: int
    remark: str


CONTENT = json.loads(TABLE.read_text("utf-8"))
ASKS = {name: Ask(name, *rest) for name, *rest in CONTENT["asks"]}
DECISIONS = [Row(*row) for row in CONTENT["decisions"]]


def directory() -> Directory:
    found = Directory()
    for row in CONTENT["users"]:
        type_, status = user_type(row["type"]), user_status(row["status"])
        found.create(User(row["name"], (SECRET,), type_ or UserType.NORMAL, status or UserStatus.ENABLED))
        if row["policies"]:
            acl = msgspec.convert({"subject": f"User:{row['name']}", "policies": row["policies"]}, AclInfo)
            found.put(row["name"], policies_of(acl))
    return found


@pytest.fixture(scope="module")
def gate() -> AccessGate:
    lists = CONTENT["settings"]
    settings = AccessSettings(
        authentication_enabled=True,
        authorization_enabled=True,
        authentication_whitelist=lists["authenticationWhitelist"],
        authorization_whitelist=lists["authorizationWhitelist"],
    )
    return AccessGate(directory(), settings, cluster=CONTENT["cluster"], clock=SystemClock())


class Decided(NamedTuple):
    """Why a request is refused; empty: it is not. `all_faults`: of each thing that it needs, in ours."""

    fault: str
    all_faults: set[str]


def java(row: Row) -> str:
    is_gate = row.answer == 16 and not row.remark.startswith("recall failed")
    return row.remark.replace("[0:0:0:0:0:0:0:1]", "::1") if is_gate else ""


def ours(gate: AccessGate, row: Row) -> Decided:
    ask = ASKS[row.ask]
    command = Command(code=ask.code, version=513, fields=fields_of(ask, row.user, row.signed), body=ask.body.encode())
    host = f"[{row.source}]" if ":" in row.source else row.source
    request: Any = SimpleNamespace(command=command, peer=SimpleNamespace(address=f"{host}:5000", identity=None))
    request.body = ROWS[ask.code].takes.read_body(command.body) if ask.body.startswith("{") else None
    try:
        gate(request)
    except RequestRefused as fault:
        rights = UserRights(gate.directory, request.principal)
        asked = wants(command, lambda: request.body, CONTENT["cluster"])
        return Decided(str(fault), {str(fault), *(rights.fault(want) or "" for want in asked)})
    return Decided("", set())


# --- what docs/access.md says of differences --------------------------------------------------------------------------

NEEDS = "every request needs something"
UNPROVEN = "a name without a right signature is nobody's, also where a white list lets it in"
OF_GROUP = "retry topics and dead letters are the group's"
ADDRESSES = "addresses of IPv4 and IPv6 are never mixed up, and one of IPv6 is known however it is written"
ENDS = "who may read a topic may ask where its queues begin and end"
ORDERLY = "who may consume with a group may ask how it is set to consume"
WHO_REFUSES = {NEEDS: {"ours"}, UNPROVEN: {"ours"}}  # others: either


def deliberate(row: Row) -> str:
    """Return why ours may differ; empty: it may not."""
    code = ASKS[row.ask].code
    if code in (RequestCode.GET_BROKER_CONFIG, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP):
        return NEEDS
    if row.signed != "right":
        return UNPROVEN if str(code) in CONTENT["settings"]["authenticationWhitelist"].split(",") else ""
    if "%DLQ%" in row.ask or (code in (RequestCode.QUERY_MESSAGE, RequestCode.RECALL_MESSAGE) and "%RETRY%" in row.ask):
        return OF_GROUP
    if row.user.startswith("from-") and (":" in row.source or any(":" in each for each in sources_of(row.user))):
        return ADDRESSES
    if code == RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG:
        return ORDERLY
    return ENDS if code in (29, 30, 31, 32) else ""


def sources_of(user: str) -> list[str]:
    policies = next(row["policies"] for row in CONTENT["users"] if row["name"] == user)
    return [source for policy in policies for entry in policy["entries"] for source in entry.get("sourceIps", ())]


def test_ours_decides_as_javas_broker(gate: AccessGate) -> None:
    unknown, known = [], Counter[str]()
    for row in DECISIONS:
        theirs, own, why = java(row), ours(gate, row), deliberate(row)
        if bool(theirs) == bool(own.fault) and (why or theirs in {"", *own.all_faults}):
            continue
        who = "ours" if own.fault else "Java's"
        if why and who in WHO_REFUSES.get(why, {who}):
            known[why] += 1
        else:
            unknown.append((row, own.fault))
    assert not unknown, unknown
    assert known.keys() == {NEEDS, UNPROVEN, OF_GROUP, ADDRESSES, ENDS, ORDERLY}


def test_the_record_is_large_and_knows_both_answers() -> None:
    counts = Counter(bool(java(row)) for row in DECISIONS)
    assert len(DECISIONS) > 1000
    assert min(counts.values()) > 300
    assert len({ASKS[row.ask].code for row in DECISIONS}) > 30


async def test_our_broker_answers_as_its_gate_decides(tmp_path: Path, gate: AccessGate) -> None:
    """A part of the cases over sockets: users are made by requests, sources are addresses of loopback."""
    lists = CONTENT["settings"]
    settings = {
        "authentication_enabled": True,
        "authorization_enabled": True,
        "authentication_whitelist": lists["authenticationWhitelist"],
        "authorization_whitelist": lists["authorizationWhitelist"],
        "init_authentication_user": json.dumps({"username": ADMIN, "password": SECRET}),
    }
    asked = [row for number, row in enumerate(DECISIONS) if number % 8 == 0 and ":" not in row.source]
    async with running_broker(tmp_path, **settings) as running:
        different = await asyncio.to_thread(differences, running.address, gate, asked)
    assert different == []


def differences(address: str, gate: AccessGate, rows: list[Row]) -> list[object]:
    server = Administrator(address, ADMIN, SECRET)
    for row in CONTENT["users"]:
        both = {policy["policyType"]: policy["entries"] for policy in row["policies"]}
        custom, default = both.get("Custom", []), both.get("Default", [])
        make(server, row["name"], Person(row["about"], custom, default, type=row["type"], status=row["status"]))
    found: list[object] = []
    for row in [one for one in rows for _ in range(2)]:  # the second time by the kernel, which knows the verdict then
        answer = decision(server, row.user, Asked(ASKS[row.ask], row.source, row.signed))
        wanted = ours(gate, row).fault
        is_refused = answer.code == 16 and (answer.remark == wanted or "permission to" in answer.remark)
        if is_refused != bool(wanted) or (wanted and answer.remark != wanted):
            found.append((row, answer, wanted))
    return found
