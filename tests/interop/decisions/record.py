"""Asks Apache's broker 5.5.0 and writes tests/golden/access/*.json: `python -m tests.interop.decisions.record`.

Two brokers are asked, one on 127.0.0.1 and one on ::1. Both have the same users, made by requests 3001 and 3006.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.interop import wire
from tests.interop.peers import java
from tests.interop.secured import ADMIN, JAVA_SETTINGS, SECRET
from tests.interop.signing import Administrator, signed

from .asks import Ask
from .changes import GET_ACL, GET_USER, Step, sequences
from .users import SETTINGS, SIX, Asked, Person, by_hand, by_seed

VERSION = "5.5.0"
GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "access"
TABLE, CHANGES = GOLDEN / "decisions.json", GOLDEN / "changes.json"
RANDOM_USERS = 40
BROKER = JAVA_SETTINGS | SETTINGS | {"autoCreateTopicEnable": "false"}


def fields_of(ask: Ask, name: str, how: str = "right") -> dict[str, str]:
    """Return the fields of a request in which somebody shows who he is."""
    if how == "nothing":
        return dict(ask.fields)
    if how == "no signature":
        return ask.fields | {"AccessKey": name}
    return signed(ask.fields, ask.body.encode(), name, SECRET if how == "right" else "guessed")


def make(server: Administrator, name: str, person: Person) -> None:
    if person.exists:
        server.make_user(name, SECRET, person.type, person.status)
        if person.policies():
            server.give(name, person.policies())


def decision(server: Administrator, name: str, asked: Asked) -> wire.Answer:
    ask = asked.ask
    return server.call(ask.code, fields_of(ask, name, asked.signed), ask.body.encode(), asked.source)


def row(name: str, asked: Asked, answer: wire.Answer) -> list[Any]:
    """Return who asked what from where, how he showed who he is, and the answer: its words if it refuses."""
    remark = answer.remark if answer.code == 16 else ""
    return [name, asked.ask.name, asked.source, asked.signed, answer.code, remark]


def recorded(servers: Mapping[bool, Administrator], people: Mapping[str, Person]) -> list[list[Any]]:
    """Ask all there is to ask. `servers`: by whether the address is one of IPv6."""
    for name, person in people.items():
        for server in servers.values():
            make(server, name, person)
    found: list[list[Any]] = []
    for name, person in people.items():
        found += [row(name, one, decision(servers[one.source == SIX], name, one)) for one in person.asked]
        print(f"{len(found)} decisions, {name}: {person.about}", file=sys.stderr, flush=True)
    return found


def changed(server: Administrator, name: str, steps: list[Step]) -> list[list[Any]]:
    """Make a sequence of changes; return what each was answered, then what is shown of user and policies."""
    shown = [Step(GET_USER, {"username": name}), Step(GET_ACL, {"subject": f"User:{name}"})]
    found = []
    for step in [*steps, *shown]:
        answer = server.ask(step.code, step.fields, step.body)
        body = json.loads(answer.body) if answer.body else None
        found.append([step.code, step.fields, step.body, answer.code, answer.remark if answer.code else "", body])
    return found


def main() -> None:
    people = {**by_hand(), **by_seed(RANDOM_USERS)}
    with tempfile.TemporaryDirectory() as home, ExitStack() as stack:
        names = java.NameServer(VERSION, Path(home) / "names")
        stack.callback(names.kill)
        servers = {}
        for is_six, host in ((False, "127.0.0.1"), (True, SIX)):
            settings = BROKER | {"bindAddress": host}
            broker = java.Broker(VERSION, Path(home) / f"broker{is_six}", [names.address], settings)
            stack.callback(broker.kill)
            port = broker.address.rpartition(":")[2]
            servers[is_six] = Administrator(f"{host}:{port}", ADMIN, SECRET)
        rows = recorded(servers, people)
        changes = [[name, *changed(servers[False], name, steps)] for name, steps in sequences().items()]
    requests = {one.ask.name: one.ask for person in people.values() for one in person.asked}
    lines: dict[str, list[Any]] = {
        "users": [
            {"name": name, "about": one.about, "type": one.type, "status": one.status, "policies": one.policies()}
            for name, one in people.items()
            if one.exists
        ],
        "asks": [[one.name, one.code, one.fields, one.body] for one in requests.values()],
        "decisions": rows,
    }
    parts = [f'"{key}": [\n' + ",\n".join(json.dumps(one) for one in lines[key]) + "\n]" for key in lines]
    head = f'"server": "Apache RocketMQ {VERSION}", "cluster": "DefaultCluster", "settings": {json.dumps(SETTINGS)}'
    CHANGES.write_text("[\n" + ",\n".join(json.dumps(one) for one in changes) + "\n]\n", "utf-8")
    TABLE.write_text("{" + ",\n".join([head, *parts]) + "}\n", "utf-8")
    print(f"{len(rows)} decisions for {len(lines['users'])} users: {TABLE}")


if __name__ == "__main__":
    main()
