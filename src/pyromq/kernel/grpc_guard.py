"""What a kernel's guard of gRPC calls and the broker say to each other: who may make calls that the kernel would serve.

The guard knows no rule. It checks the signature of a call's date, and keeps what the broker
(`broker/wiring/grpc_guarding.py`) has said of each user at an address until that is taken back. A call that it is not
sure of goes to the RPC untouched, whose gate refuses it or lets it pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class CallGuardHost(Protocol):
    """What the guard asks of the broker, on the event loop."""

    def source_of(self, remote: str) -> str:
        """Return the machine of an address with a port."""
        ...

    def secrets_of(self, name: bytes) -> Sequence[bytes] | None:
        """Return what a user may sign with. None: there is none who may sign, and Python says so.

        It holds until it is revoked (`CallGuard.revoke`).
        """
        ...

    def allows(self, name: bytes, remote: str, call: str, group: str, topic: str, client_type: int) -> bool:
        """Tell whether a user may make such calls from that machine, about what they name. Empty: they name none.

        It holds until it is revoked. `client_type`: of a heartbeat.
        """
        ...

    def now_ms(self) -> int: ...
