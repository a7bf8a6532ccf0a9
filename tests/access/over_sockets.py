"""Signed requests over sockets to servers that are other processes, and the settings with which those have users."""

from __future__ import annotations

import json

from pyromq.protocol.command import Command
from pyromq.protocol.row import AnyRow
from tests.access.matrix import signed
from tests.interop import wire

SECRET, SHOP = "a secret of these tests", "the secret of the shop"
SECURED = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": json.dumps({"username": "boss", "password": SECRET}),
    "innerClientAuthenticationCredentials": json.dumps({"accessKey": "inner", "secretKey": SECRET}),
}


def ask(
    at: str, row: AnyRow, body: object = b"", who: str = "boss", secret: str = SECRET, **fields: str
) -> wire.Answer:
    """Ask once, on a connection of its own. The answer's code is -1 where nobody takes the request."""
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    command = signed(Command(row.code, fields=fields, body=text), who, secret)
    try:
        return wire.ask(at, row.code, command.fields, body=text)
    except OSError as fault:
        return wire.Answer(-1, str(fault), {}, b"")
