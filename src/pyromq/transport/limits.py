"""What peers may cost us: one frozen value per server or client. The log line of a violation names its field here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from ..errors import ConfigError
from ..protocol.frame import DEFAULT_LIMITS, FrameLimits
from ..protocol.properties import MAX_PROPERTIES_BYTES
from ..protocol.row import RequestClass
from .turns.fair_queue import SHARES

_SMALL_HEADERS = FrameLimits(header_bytes=64 << 10, header_fields=128)


def _check_positive(limits: Limits | StrangerLimits) -> None:
    for spec in fields(limits):
        value = getattr(limits, spec.name)
        if isinstance(value, (int, float)) and value <= 0:
            raise ConfigError(f"{spec.name}={value} must be greater than 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class StrangerLimits:
    """What connections may cost us that have not shown who they are. A violation closes the connection."""

    frame: FrameLimits = _SMALL_HEADERS
    seconds: float = 30.0  # from accept to the first request that is accepted
    held_bytes: int = 64 << 20  # all of them: unfinished frames and requests
    connections: int = 4096  # all listeners of a daemon; never more than half of what there may be
    connections_per_address: int = 256
    refusals: int = 100  # requests of one connection

    def __post_init__(self) -> None:
        _check_positive(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Seconds, bytes and counts. A violation closes the connection where not stated otherwise."""

    frame: FrameLimits = DEFAULT_LIMITS
    property_bytes: int = MAX_PROPERTIES_BYTES  # message properties of a send; refused with MESSAGE_ILLEGAL

    # Connections of one server or client. None: as many as the process may have (machine/connection_quota.py).
    connections: int | None = None
    connections_per_address: int | None = None  # None: off

    # Slow and half-open peers.
    idle_s: float = 120.0  # neither read nor written (serverChannelMaxIdleTimeSeconds)
    opening_s: float = 30.0  # from accept to the first whole frame, TLS handshake included
    frame_s: float = 60.0  # from the first byte of a frame to its last
    blocked_s: float = 60.0  # how long the write buffer may stand above write_high_bytes
    linger_s: float = 5.0  # after a close: for what is still to be written

    # Memory. Above write_high_bytes reading from the peer and serving its requests pause.
    write_high_bytes: int = 1 << 20
    write_max_bytes: int = 64 << 20
    unfinished_requests: int = 1024  # of one connection; reading pauses
    unfinished_bytes: int = 32 << 20  # bodies of those; reading pauses
    held_bytes: int = 1 << 30  # all connections: unfinished frames and requests, blocked write buffers

    # Service. Requests over queued_requests in a class are refused with SYSTEM_BUSY.
    queued_requests: int = 10_000
    loop_hold_ms: int = 20  # by one request in one go; longer is counted and logged (`loop_holds.py`), never refused
    shares: Mapping[RequestClass, int] = field(default_factory=lambda: SHARES)

    strangers: StrangerLimits | None = None  # None: nobody is asked who he is

    def __post_init__(self) -> None:
        _check_positive(self)
        if min(self.shares.get(kind, 0) for kind in RequestClass) < 1:
            raise ConfigError(f"shares={dict(self.shares)} must give each class of requests 1 or more")
        if self.write_max_bytes < self.write_high_bytes:
            raise ConfigError(
                f"write_max_bytes={self.write_max_bytes} must not be less than write_high_bytes={self.write_high_bytes}"
            )
