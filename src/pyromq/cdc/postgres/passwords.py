"""How a password is shown to PostgreSQL without being sent: SCRAM-SHA-256 (RFC 5802, RFC 7677) and the older MD5. Pure.

Each side proves that it knows the password. The server's proof is checked, too: who cannot give it is not the server.
"""

from __future__ import annotations

import hashlib
import hmac
import unicodedata
from base64 import b64decode, b64encode

from ...model.wire_text import whole_number
from ..changes import CaptureError

MECHANISM = "SCRAM-SHA-256"
_HEADER = "n,,"  # no channel binding
_MOST_ROUNDS = 10_000_000


def md5_answer(user: str, password: str, salt: bytes) -> str:
    """Return what a server of `md5` wants to see."""
    inner = hashlib.md5(password.encode() + user.encode(), usedforsecurity=False).hexdigest()
    return "md5" + hashlib.md5(inner.encode() + salt, usedforsecurity=False).hexdigest()


class Scram:
    """One conversation: `first`, then `answer` to the server's challenge, then `check` of its proof."""

    def __init__(self, password: str, nonce: str) -> None:
        self._password = password if password.isascii() else unicodedata.normalize("NFKC", password)
        self._nonce = nonce
        self._first = f"n=,r={nonce}"  # the user stands in the startup message
        self._proof = b""

    @property
    def first(self) -> str:
        return _HEADER + self._first

    def answer(self, challenge: str) -> str:
        """Return our proof. CaptureError if the challenge is none to what we sent."""
        given = dict(part.partition("=")[::2] for part in challenge.split(","))
        rounds = whole_number(given.get("i"), 1, _MOST_ROUNDS)
        if rounds is None or not given.get("r", "").startswith(self._nonce) or "s" not in given:
            raise CaptureError("the server's challenge to our password is damaged, or of another server")
        salted = hashlib.pbkdf2_hmac("sha256", self._password.encode(), b64decode(given["s"]), rounds)
        key = _hmac(salted, b"Client Key")
        without_proof = f"c={b64encode(_HEADER.encode()).decode()},r={given['r']}"
        said = ",".join((self._first, challenge, without_proof)).encode()
        signature = _hmac(hashlib.sha256(key).digest(), said)
        self._proof = _hmac(_hmac(salted, b"Server Key"), said)
        proof = bytes(left ^ right for left, right in zip(key, signature, strict=True))
        return f"{without_proof},p={b64encode(proof).decode()}"

    def check(self, final: str) -> None:
        """Raise CaptureError if the server does not know the password itself."""
        given = final.partition("v=")[2]
        if not hmac.compare_digest(given.encode(), b64encode(self._proof)):
            raise CaptureError("the server does not know the password that it asked for: it is not the one we mean")


def _hmac(key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, "sha256")
