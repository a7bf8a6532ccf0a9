"""What one process may use of its machine: descriptors and memory. Asked for once, at the start, and handed on.

`pyromq up` hands one budget to the name server and the broker that it runs; parts that a test makes get `Budget()`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from .. import logs
from .connection_quota import ConnectionQuota
from .descriptors import LOG_FILES, MOST, OUTGOING, Shares, divide, raise_limit
from .memory import memory_limit

log = logs.get("pyromq.machine")

_CONNECTION_BYTES = 128 << 10  # a peer that leaves as much unread as it may takes half of this
_LEAST_BY_MEMORY = 256

_PLENTY = Shares(MOST, 0, queue_files=MOST, log_files=LOG_FILES, outgoing=OUTGOING, connections=MOST)


@dataclass(frozen=True, slots=True)
class Budget:
    """Without arguments: a large machine of which nothing else is known."""

    shares: Shares = _PLENTY
    memory_bytes: int = 8 << 30
    quota: ConnectionQuota = field(default_factory=lambda: ConnectionQuota(_PLENTY.connections))

    def shown(self) -> dict[str, int]:
        """Return the limit of open files, and who may have how many of them, for people."""
        shares = self.shares
        return {
            "limit": shares.limit,
            "connections": self.quota.total,
            "queueFiles": shares.queue_files,
            "logFiles": shares.log_files,
            "outgoing": shares.outgoing,
        }

    def log_shares(self) -> None:
        log.info(
            "open files and memory of this process",
            **asdict(self.shares),
            seats=self.quota.total,
            memory_bytes=self.memory_bytes,
        )


def budget_of_process(*, queue_files: int = 0, reserved: int = 0) -> Budget:
    """Return the budget of this process, with the limit of open files raised. ConfigError: it is too low."""
    shares, memory_bytes = divide(raise_limit(), queue_files=queue_files, reserved=reserved), memory_limit()
    by_memory = max(_LEAST_BY_MEMORY, memory_bytes // _CONNECTION_BYTES)
    if by_memory < shares.connections:
        return Budget(shares, memory_bytes, ConnectionQuota(by_memory, "memory"))
    return Budget(shares, memory_bytes, ConnectionQuota(shares.connections))
