"""Requests signed with an access key, as Java's clients do it: HMAC-SHA1 over the header fields and the body.

The values of all fields in the order of their names (AccessKey among them), then the body, are signed with the secret
key; name and signature go along as fields. The secret itself never leaves. Nothing in it is used once: who records a
signed request can send it again (docs/access.md).
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from ..model.client_info import Version
from ..protocol.command import Command

if TYPE_CHECKING:
    from .settings import GateSettings

ACCESS_KEY = "AccessKey"
SECURITY_TOKEN = "SecurityToken"
SIGNATURE = "Signature"
SIGNING = frozenset((ACCESS_KEY, SECURITY_TOKEN, SIGNATURE))  # the fields that a signer adds
# Clients up to 4.9.3 put it in when the request was signed already.
ADDED_LATER = "_UNIQUE_KEY_QUERY"


def signed_content(request: Command) -> bytes:
    """Return the bytes that a request's signature is made of. What UTF-8 cannot say is `?`, as in Java."""
    skipped = {SIGNATURE, ADDED_LATER} if request.version <= Version.V4_9_3 else {SIGNATURE}
    fields = request.fields
    values = "".join(fields[name] for name in sorted(fields.keys() - skipped, key=_java_order))
    return values.encode(errors="replace") + bytes(request.body)


def _java_order(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")


def signature(secret: str, content: bytes) -> str:
    return base64.b64encode(hmac.digest(secret.encode(), content, "sha1")).decode()


def is_signed(request: Command, secrets: Iterable[str]) -> bool:
    """Tell whether one of the secrets made a request's signature. Takes as long for a wrong one as for a right one."""
    given, content = request.fields.get(SIGNATURE, "").encode(errors="replace"), signed_content(request)
    found = False
    for secret in secrets:  # all of them: how long it takes says nothing about which one fits
        found |= hmac.compare_digest(signature(secret, content).encode(), given)
    return found


class Signer:
    """Puts the signature into a request, in place. Everything else of the request must be there already."""

    def __init__(self, access_key: str, secret_key: str, security_token: str = "") -> None:
        self._secret = secret_key
        self._fields = {ACCESS_KEY: access_key}
        if security_token:
            self._fields[SECURITY_TOKEN] = security_token

    def sign(self, request: Command) -> None:
        request.fields.pop(SIGNATURE, None)
        request.fields.update(self._fields)
        request.fields[SIGNATURE] = signature(self._secret, signed_content(request))


def inner_sign(settings: GateSettings) -> Callable[[Command], None] | None:
    """Return what signs a server's own requests to other servers; None: nobody does."""
    inner = settings.inner_credentials()
    return None if inner is None else Signer(inner.name, inner.secret, inner.token).sign


# --- gRPC calls: the text of their date alone is signed ---------------------------------------------------------------


class CallSignature(NamedTuple):
    """What `authorization` says. `digest`: hexadecimal digits."""

    name: str
    digest: str


def call_signature(authorization: str) -> CallSignature:
    """Return what a call's header says. ValueError in 5.5.0's words."""
    _, space, rest = authorization.partition(" ")
    if not space:
        raise ValueError("authentication header is incorrect.")
    found: dict[str, str] = {}
    for pair in rest.split(","):
        key, equal, value = pair.strip().partition("=")
        if not equal:
            raise ValueError("authentication keyValues length is incorrect, actual length=1.")
        found[key] = value
    return CallSignature(found.get("Credential", "").partition("/")[0], found.get("Signature", ""))


def claimed_name(authorization: str) -> str:
    """Return whose name a call's header has in it; nothing where it has none."""
    try:
        return call_signature(authorization).name
    except ValueError:
        return ""


def is_call_signed(digest: str, date: str, secrets: Iterable[str]) -> bool:
    """Tell whether one of the secrets made a call's signature: capital or small digits."""
    given, found = digest.lower().encode(errors="replace"), False
    for secret in secrets:
        found |= hmac.compare_digest(hmac.digest(secret.encode(), date.encode(), "sha1").hex().encode(), given)
    return found
