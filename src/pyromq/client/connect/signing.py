"""Requests signed with an access key, as Java's clients do it: HMAC-SHA1 over the header fields and the body.

The values of all fields in the order of their names (AccessKey among them), then the body, are signed with the secret
key; name and signature go along as fields. The secret itself never leaves.
"""

from __future__ import annotations

import base64
import hmac
from typing import Any

from ...protocol.command import Command
from ...transport.client import RemotingClient

ACCESS_KEY = "AccessKey"
SECURITY_TOKEN = "SecurityToken"
SIGNATURE = "Signature"


class Signer:
    """Puts the signature into a request, in place. Everything else of the request must be there already."""

    def __init__(self, access_key: str, secret_key: str, security_token: str = "") -> None:
        self._secret = secret_key.encode()
        self._fields = {ACCESS_KEY: access_key}
        if security_token:
            self._fields[SECURITY_TOKEN] = security_token

    def sign(self, request: Command) -> None:
        request.fields.pop(SIGNATURE, None)
        request.fields.update(self._fields)
        # Java sorts by UTF-16 units; every field name that exists is ASCII, where that is the same.
        content = "".join(request.fields[name] for name in sorted(request.fields)).encode() + bytes(request.body)
        digest = hmac.new(self._secret, content, "sha1").digest()
        request.fields[SIGNATURE] = base64.b64encode(digest).decode()


class SignedClient(RemotingClient):
    """Connections whose requests are signed, to name servers and brokers alike."""

    def __init__(self, signer: Signer, **shape: Any) -> None:
        super().__init__(**shape)
        self._signer = signer

    async def call(self, address: str, request: Command, timeout_s: float) -> Command:
        self._signer.sign(request)
        return await super().call(address, request, timeout_s)

    async def send(self, address: str, request: Command) -> None:
        self._signer.sign(request)
        await super().send(address, request)
