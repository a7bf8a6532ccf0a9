"""What a record must have passed before it is readable: two gates, and the lower one counts. Pure.

`durable`: appended under ASYNC_FLUSH, synced under SYNC_FLUSH (else a consumer could see a message that a power cut
takes back). `confirmed`: other copies of the log have it; a store without such copies has no second gate.
"""

from __future__ import annotations

from dataclasses import dataclass

from .config import FlushMode


@dataclass(slots=True, eq=False, repr=False)
class Gates:
    """Of one log. `confirmed` is None where there is no second gate."""

    flush_mode: FlushMode
    confirmed: int | None = None

    @property
    def needs_sync(self) -> bool:
        return self.flush_mode is FlushMode.SYNC

    @property
    def is_append_alone(self) -> bool:
        """Return whether what is appended is readable at once."""
        return not self.needs_sync and self.confirmed is None

    def passed(self, appended: int, flushed: int) -> int:
        """Return up to where records have passed both."""
        durable = flushed if self.needs_sync else appended
        return durable if self.confirmed is None else min(durable, self.confirmed)
