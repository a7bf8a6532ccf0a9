"""What one process may use of its machine: descriptors and memory. Asked for once, at the start, and handed on.

`pyromq up` hands one budget to the name server and the broker that it runs; parts that a test makes get `Budget()`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from .. import logs
from .descriptors import LOG_FILES, MOST, OUTGOING, Shares, divide, raise_limit
from .memory import memory_limit
from .seats import Seats

log = logs.get("pyromq.machine")

_PLENTY = Shares(MOST, 0, queue_files=MOST, log_files=LOG_FILES, outgoing=OUTGOING, connections=MOST)


@dataclass(frozen=True, slots=True)
class Budget:
    """Without arguments: a large machine of which nothing else is known."""

    shares: Shares = _PLENTY
    memory_bytes: int = 8 << 30
    seats: Seats = field(default_factory=lambda: Seats(_PLENTY.connections))

    def tell(self) -> None:
        """One line of the log: who gets what."""
        log.info("open files and memory of this process", **asdict(self.shares), memory_bytes=self.memory_bytes)


def budget_of_process(*, queue_files: int = 0, reserved: int = 0) -> Budget:
    """Of this machine, after the limit of open files was raised as far as the system allows. ConfigError: too few."""
    shares = divide(raise_limit(), queue_files=queue_files, reserved=reserved)
    return Budget(shares, memory_limit(), Seats(shares.connections))
