"""MariaDB's global transaction ids: the newest of each domain, which says which transactions a reader has."""

from __future__ import annotations

from typing import Any, Protocol

from ...model.wire_text import whole_number
from ..changes import CaptureError


class TransactionSet(Protocol):
    """Which transactions a reader has: of MariaDB, or of MySQL."""

    def add(self, gtid: str) -> None: ...

    def covers(self, other: Any) -> bool: ...


class GtidSet:
    """`DOMAIN-SERVER-NUMBER`, one of each domain. Numbers of a domain grow along the log."""

    def __init__(self, text: str = "") -> None:
        self._newest: dict[int, tuple[int, int]] = {}
        for each in text.replace(" ", "").split(","):
            if each:
                self.add(each)

    def add(self, gtid: str) -> None:
        domain, server, number = _parts(gtid)
        self._newest[domain] = (server, number)

    def covers(self, other: GtidSet) -> bool:
        """Return whether all transactions of the other one are in this one."""
        return all(self._newest.get(domain, (0, -1))[1] >= number for domain, (_, number) in other._newest.items())

    def missing(self, other: GtidSet) -> int:
        """Return how many transactions the other one has more."""
        newer = other._newest.items()
        return sum(max(0, number - self._newest.get(domain, (0, 0))[1]) for domain, (_, number) in newer)

    def __str__(self) -> str:
        return ",".join(f"{domain}-{server}-{number}" for domain, (server, number) in sorted(self._newest.items()))


def _parts(gtid: str) -> tuple[int, int, int]:
    numbers = [whole_number(part) for part in gtid.split("-")]
    if len(numbers) != 3 or None in numbers:
        raise CaptureError(f"{gtid!r} is no GTID of MariaDB: they are three numbers, as 0-1-42")
    domain, server, number = (each or 0 for each in numbers)
    return domain, server, number
