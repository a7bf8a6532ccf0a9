"""Asks Apache's broker 5.5.0 and writes tests/golden/access/decisions.json: `python -m tests.interop.decisions.record`.

Two brokers are asked, one on 127.0.0.1 and one on ::1. Both have the same users, made by requests 3001 and 3006.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.interop import wire
from tests.interop.peers import java

from .asks import Ask
from .users import SETTINGS, SIX, Asked, Person, by_hand, by_seed

VERSION = "5.5.0"
TABLE = Path(__file__).resolve().parents[2] / "golden" / "access" / "decisions.json"
ADMIN, SECRET = "admin", "a secret of the recording"
RANDOM_USERS = 40
AUTH = "org.apache.rocketmq.auth"
BROKER = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "authenticationProvider": f"{AUTH}.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": f"{AUTH}.authentication.provider.LocalAuthenticationMetadataProvider",
    "authorizationProvider": f"{AUTH}.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": f"{AUTH}.authorization.provider.LocalAuthorizationMetadataProvider",
    "initAuthenticationUser": json.dumps({"username": ADMIN, "password": SECRET}),
    "innerClientAuthenticationCredentials": json.dumps({"accessKey": "inner", "secretKey": SECRET}),
    "autoCreateTopicEnable": "false",
    **SETTINGS,
}


def signed(ask: Ask, name: str, how: str = "right") -> dict[str, str]:
    """Return the fields of a request with its signature, as Java's clients make it."""
    if how == "nothing":
        return dict(ask.fields)
    fields = ask.fields | {"AccessKey": name}
    if how == "no signature":
        return fields
    secret = SECRET if how == "right" else "guessed"
    content = "".join(fields[key] for key in sorted(fields)).encode() + ask.body.encode()
    made = hmac.new(secret.encode(), content, hashlib.sha1).digest()
    return fields | {"Signature": base64.b64encode(made).decode()}


def call(host: str, port: int, source: str, ask: Ask, fields: Mapping[str, str]) -> wire.Answer:
    bound = (source, 0)
    with socket.create_connection((host, port), 30, source_address=bound) as link, link.makefile("rb") as stream:
        link.sendall(wire.request_frame(ask.code, dict(fields), ask.body.encode()))
        return wire.read_answer(stream)


class Server:
    """A broker with users."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port

    def administer(self, code: int, fields: dict[str, str], body: object = None) -> wire.Answer:
        ask = Ask("", code, fields, "" if body is None else json.dumps(body))
        return call(self.host, self.port, self.host, ask, signed(ask, ADMIN))

    def make(self, name: str, person: Person) -> None:
        if not person.exists:
            return
        user = {"username": name, "password": SECRET, "userType": person.type, "userStatus": person.status}
        answers = [self.administer(3001, {"username": name}, user)]
        if person.status != "enable":  # a new user is enabled whatever the request says
            answers.append(self.administer(3002, {"username": name}, user))
        if person.policies():
            subject = f"User:{name}"
            acl = {"subject": subject, "policies": person.policies()}
            answers.append(self.administer(3006, {"subject": subject}, acl))
        for answer in answers:
            if answer.code != 0:
                raise SystemExit(f"{name} ({person.about}) cannot be made: {answer}")

    def decision(self, name: str, asked: Asked) -> wire.Answer:
        fields = signed(asked.ask, name, asked.signed)
        return call(self.host, self.port, asked.source, asked.ask, fields)


def row(name: str, asked: Asked, answer: wire.Answer) -> list[Any]:
    """Return who asked what from where, how he showed who he is, and the answer: its words if it refuses."""
    remark = answer.remark if answer.code == 16 else ""
    return [name, asked.ask.name, asked.source, asked.signed, answer.code, remark]


def recorded(servers: Mapping[bool, Server], people: Mapping[str, Person]) -> list[list[Any]]:
    """Ask all there is to ask. `servers`: by whether the address is one of IPv6."""
    for name, person in people.items():
        for server in servers.values():
            server.make(name, person)
    found: list[list[Any]] = []
    for name, person in people.items():
        found += [row(name, one, servers[one.source == SIX].decision(name, one)) for one in person.asked]
        print(f"{len(found)} decisions, {name}: {person.about}", file=sys.stderr, flush=True)
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
            servers[is_six] = Server(host, int(broker.address.rpartition(":")[2]))
        rows = recorded(servers, people)
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
    TABLE.write_text("{" + ",\n".join([head, *parts]) + "}\n", "utf-8")
    print(f"{len(rows)} decisions for {len(lines['users'])} users: {TABLE}")


if __name__ == "__main__":
    main()
