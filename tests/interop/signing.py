"""Signed requests in a few lines, made without our own protocol code on purpose, and who administers users by them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from . import wire

CREATE_USER, UPDATE_USER, CREATE_ACL, GET_ACL = 3001, 3002, 3006, 3009


def signed(fields: Mapping[str, str], body: bytes, name: str, secret: str) -> dict[str, str]:
    """Return the fields of a request with its signature, as Java's clients make it."""
    named = {**fields, "AccessKey": name}
    content = "".join(named[key] for key in sorted(named)).encode() + body
    made = hmac.new(secret.encode(), content, hashlib.sha1).digest()
    return named | {"Signature": base64.b64encode(made).decode()}


class Administrator:
    """A super user at one server, which is asked over a connection for each request."""

    def __init__(self, address: str, name: str, secret: str) -> None:
        host, _, port = address.rpartition(":")
        self.host, self.port = host.strip("[]"), int(port)
        self._name, self._secret = name, secret

    def ask(self, code: int, fields: Mapping[str, str], body: object = None) -> wire.Answer:
        raw = b"" if body is None else json.dumps(body).encode()
        return self.call(code, signed(fields, raw, self._name, self._secret), raw)

    def call(self, code: int, fields: Mapping[str, str], body: bytes, source: str = "") -> wire.Answer:
        """Ask as it stands, from an address of this machine."""
        bound = (source, 0) if source else None
        with (
            socket.create_connection((self.host, self.port), 30, source_address=bound) as link,
            link.makefile("rb") as stream,
        ):
            link.sendall(wire.request_frame(code, dict(fields), body))
            return wire.read_answer(stream)

    def must(self, code: int, fields: Mapping[str, str], body: object = None) -> wire.Answer:
        answer = self.ask(code, fields, body)
        assert answer.code == 0, (code, fields, answer)
        return answer

    def make_user(self, name: str, secret: str, type_: str = "Normal", status: str = "enable") -> None:
        user = {"username": name, "password": secret, "userType": type_, "userStatus": status}
        self.must(CREATE_USER, {"username": name}, user)
        if status != "enable":  # RocketMQ's new users are enabled whatever the request says
            self.must(UPDATE_USER, {"username": name}, user)

    def give(self, name: str, policies: Sequence[Mapping[str, Any]]) -> None:
        subject = f"User:{name}"
        self.must(CREATE_ACL, {"subject": subject}, {"subject": subject, "policies": policies})

    def allow(self, name: str, **granted: str) -> None:
        """Let a user do something: `Topic="orders-*"` is Pub and Sub, `Group=...` is Sub."""
        actions = {"Topic": ["Pub", "Sub"], "Group": ["Sub"], "Cluster": ["Get"]}
        entries = [
            {"resource": f"{kind}:{pattern}", "actions": actions[kind], "decision": "Allow"}
            for kind, pattern in granted.items()
        ]
        self.give(name, [{"policyType": "Custom", "entries": entries}])
