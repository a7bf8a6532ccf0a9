"""What a kernel's guard and the broker say to each other: who may send a frame that the feeds could take.

A guard stands before all feeds of a listener where requests must be signed. It knows no rule: it checks signatures, and
keeps what the broker (`broker/wiring/guarding.py`) has said of each user, until that is taken back. A frame that it is
not sure of goes to Python untouched, where the gate of the handlers refuses it or lets it pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ..protocol.command import Command
from .seam import FeedConnection

# By code, the fields of its requests that name what a verdict is about. Codes that are not here are never let pass.
GuardedCodes = Mapping[int, Sequence[bytes]]


class GuardHost(Protocol):
    """What a guard asks of the broker, on the event loop, within one call of `feed`. Names are those of users."""

    def secrets_of(self, name: bytes) -> Sequence[bytes] | None:
        """Return what a user may sign with. None: there is none who may sign, and Python says so.

        It holds until it is revoked (`AccessGuard.revoke`).
        """
        ...

    def is_signed(self, name: bytes, command: Command) -> bool:
        """Tell whether a user has signed this. The native kernel sees that by itself."""
        ...

    def allows(
        self, connection: FeedConnection, name: bytes, by_certificate: bool, frame: bytes, topic: bytes = b""
    ) -> bool:
        """Tell whether a user may send a frame, and others of its code with the same names from the same address.

        It holds until it is revoked. `by_certificate`: his certificate says who he is, not a signature. `topic`: of the
        half message that a frame commits, and of all others to which this applies then.
        """
        ...

    def passed(self, connection: FeedConnection, name: bytes, by_certificate: bool) -> None:
        """Note that a connection's requests are from now on those of another user."""
        ...
