"""Who draws from which buckets."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..state import ChangeFlag
from .buckets import Bucket


class Allowance:
    """What the requests of a connection draw from that name one topic and one group."""

    __slots__ = ("aside", "flag", "reads", "sends", "until")

    def __init__(
        self,
        flag: ChangeFlag,
        until: float,
        sends: Sequence[Bucket] | None,
        reads: Sequence[Bucket],
        aside: Collection[bytes] = (),
    ) -> None:
        """It holds until `flag` is set, or the time is over (monotonic). No `sends`: they are the handlers' to refuse.
        `aside`: properties of messages that the handlers must count."""
        self.flag = flag
        self.until = until
        self.sends = None if sends is None else tuple(sends)
        self.reads = tuple(reads)
        self.aside = frozenset(aside)

    def charge_read(self, size: int, messages: int, now: float) -> None:
        """Take what was read."""
        for bucket in self.reads:
            bucket.take(size if bucket.counts_bytes else messages, now)

    def take_send(self, size: int, messages: int, now: float) -> None:
        for bucket in self.sends or ():
            bucket.take(size if bucket.counts_bytes else messages, now)

    def give_back_send(self, size: int, messages: int) -> None:
        for bucket in self.sends or ():
            bucket.give_back(size if bucket.counts_bytes else messages)
