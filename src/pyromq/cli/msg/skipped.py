"""What a copying command left where it was, because it cannot be read. Each is named, and the exit code is 1.

Used by `topic forward`, `msg replay`, `msg export` and `dlq resend`; whether a message can be read is said in
admin/copies.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..terminal.printing import print_lines
from ..terminal.tree import Fail

if TYPE_CHECKING:
    from ...admin.copies import CannotCopy


class Skipped:
    """Made once for a command. `later` is the command that copies one of them once it can be read."""

    def __init__(self, later: str) -> None:
        self._later = later
        self.count = 0

    def add(self, fault: CannotCopy) -> None:
        """Print the fault at once: a command that is stopped has named those that it skipped."""
        self.count += 1
        print_lines(f"pyromq: skipped: {fault}", err=True)

    def column(self) -> dict[str, int]:
        """Return the count as a column of the summary, where there is one."""
        return {"skipped": self.count} if self.count else {}

    def check(self) -> None:
        """Fail with exit code 1 if any was skipped. Called after the summary."""
        if self.count:
            messages = (
                "1 message that cannot be read" if self.count == 1 else f"{self.count} messages that cannot be read"
            )
            raise Fail(
                f"skipped {messages}, all others were copied. If a package was missing, install it and: {self._later}"
            )
