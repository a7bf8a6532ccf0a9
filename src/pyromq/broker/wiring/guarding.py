"""The broker's side of a kernel's guard: what the gate of the handlers says of who sent a frame, and of what he may.

Every rule is the gate's (`access/gate.py`). What it says of a user is left with the guard until something about him
changes: a new password, another status, other policies, his end. Event loop only.
"""

from __future__ import annotations

from typing import Any

from ...access.gate import AccessGate, principal_of_user, source_of
from ...access.rights import Principal, Proof
from ...access.signatures import is_signed
from ...errors import ProtocolError, RequestRefused
from ...kernel.seam import Feed, FeedConnection
from ...protocol.access import Action, NameIn, Resource
from ...protocol.command import Command
from ...protocol.frame import FrameLimits, decode_frames
from ...protocol.requests import ROWS
from ...protocol.requests import RequestCode as Code

SENDS_AND_PULLS = (
    Code.SEND_MESSAGE_V2,
    Code.SEND_MESSAGE,
    Code.SEND_BATCH_MESSAGE,
    Code.PULL_MESSAGE,
    Code.LITE_PULL_MESSAGE,
)
ENDS = (Code.END_TRANSACTION,)
POPS = (Code.POP_MESSAGE, Code.ACK_MESSAGE, Code.CHANGE_MESSAGE_INVISIBLETIME, Code.BATCH_ACK_MESSAGE)


class GuardVerdicts:
    """One listener's. Implements `kernel.guard.GuardHost`."""

    def __init__(self, gate: AccessGate, limits: FrameLimits, module: Any, sends: Any, feed: Feed) -> None:
        self._gate = gate
        self._limits = limits
        served = (*SENDS_AND_PULLS, *((*POPS, *ENDS) if hasattr(module, "PopFeed") else ()))
        codes = {row.code: _named_by(row.code) for row in served}
        self.kernel = module.AccessGuard(self, sends, feed, codes, limits.frame_bytes, limits.header_bytes)
        gate.directory.watch(lambda name: self.kernel.revoke(name.encode()))

    def secrets_of(self, name: bytes) -> tuple[bytes, ...] | None:
        return secrets_of(self._gate, name)

    def is_signed(self, name: bytes, command: Command) -> bool:
        return is_signed(command, self._gate.user(name.decode()).secrets)

    def allows(
        self, connection: FeedConnection, name: bytes, by_certificate: bool, frame: bytes, topic: bytes = b""
    ) -> bool:
        try:
            (command,), _, _ = decode_frames(frame, self._limits)
        except ProtocolError:
            return False  # Python says what is wrong with it
        principal = self._principal(connection, name, by_certificate)
        if not self._gate.allows(command, principal):
            return False
        ended = topic.decode("utf-8", "replace")  # as `broker/reading/record_rights.py` has it of the record
        return not ended or self._gate.rights_of(principal).may(Resource.TOPIC, ended, Action.PUB)

    def passed(self, connection: FeedConnection, name: bytes, by_certificate: bool) -> None:
        self._gate.note_passage(self._principal(connection, name, by_certificate), connection.address)

    def _principal(self, connection: FeedConnection, name: bytes, by_certificate: bool) -> Principal:
        proof = Proof.CERTIFICATE if by_certificate else Proof.SIGNATURE
        return principal_of_user(self._gate.user(name.decode()), source_of(connection.address), proof)


def secrets_of(gate: AccessGate, name: bytes) -> tuple[bytes, ...] | None:
    """Return what an enabled user may sign with. None: there is none of that name."""
    try:
        return tuple(secret.encode() for secret in gate.user(name.decode()).secrets)
    except (RequestRefused, UnicodeError):
        return None


def _named_by(code: int) -> tuple[bytes, ...]:
    """Return the fields that name what a verdict on a request is about. None: its body or the log does, as the guard
    knows."""
    needs = ROWS[code].needs
    if code in ENDS:
        return ()  # the message that it ends
    in_body = code == Code.BATCH_ACK_MESSAGE
    if any(need.name_in is not (NameIn.BODY if in_body else NameIn.HEADER) or need.separator for need in needs):
        raise ValueError(f"request {code}: its needs are of a kind that no kernel knows")
    return () if in_body else tuple(need.name.encode() for need in needs)
