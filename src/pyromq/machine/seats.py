"""Connections that the listeners of one process may hold together, so that sockets never take the descriptors of files.

Made once a process (`budget.py`). Each listener asks for a `Row` of its own; a flood at one of them leaves the others a
part that only they may use.
"""

from __future__ import annotations

_KEPT_SHARE = 8  # every listener has an eighth of all seats to itself


class Seats:
    """Event loop only. Invariant: never more seats taken than `total`."""

    def __init__(self, total: int, bound_by: str = "open files") -> None:
        """`bound_by`: what there would have to be more of."""
        self.total = total
        self.bound_by = bound_by
        self._rows: list[Row] = []

    def row(self) -> Row:
        """Return the seats of one more listener."""
        row = Row(self)
        self._rows.append(row)
        return row

    @property
    def taken(self) -> int:
        return sum(row.taken for row in self._rows)

    def may_seat(self, asking: Row) -> bool:
        """Return whether a free seat is left that no other listener has to itself."""
        kept = self.total // _KEPT_SHARE
        spoken_for = sum(max(row.taken, kept) for row in self._rows if row is not asking)
        return asking.taken + spoken_for < self.total


class Row:
    """The seats of one listener."""

    def __init__(self, seats: Seats) -> None:
        self.seats = seats
        self.taken = 0

    def take(self) -> bool:
        """Take a seat. Return False if there is none."""
        if not self.seats.may_seat(self):
            return False
        self.taken += 1
        return True

    def leave(self) -> None:
        self.taken -= 1
