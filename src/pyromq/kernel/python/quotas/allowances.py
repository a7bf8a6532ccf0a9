"""What the connections of a broker draw from, and the refusals of a buffer: the twin of `native/quota.pxi`. Event loop
only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from ....protocol.command import Command
from ...quotas import QuotaHost, RefusalText
from ...seam import FeedConnection
from ..state import TimeSource
from .allowance import Allowance
from .buckets import Bucket
from .refusals import refusal

_MOST_ALLOWANCES = 100  # of a connection
_MOST_NAMED = 1024  # characters of topic and group: clients choose them, and they are kept
_MOST_TEXTS = 1000


class QuotaNotes(Protocol):
    """What is known of a connection."""

    address: str
    user: str  # whose requests its are now
    allowances: dict[tuple[str, str, str], Allowance]  # by user, topic and group


class Allowances:
    """All feeds' of a broker. Nothing is asked of it while it is not on."""

    def __init__(self, host: QuotaHost, time: TimeSource) -> None:
        self._host = host
        self._time = time
        self._texts: dict[Bucket, RefusalText] = {}
        self._answers: list[bytes] = []  # refusals of the buffer that is served
        self._answered: QuotaNotes | None = None  # whose they are
        self.is_on = False  # there is a quota
        self.refused = 0  # requests since the start

    def find(self, notes: QuotaNotes, topic: str, group: str) -> Allowance | None:
        """Return what such requests of a connection draw from; None: leave them to the handlers."""
        if len(topic) + len(group) > _MOST_NAMED:
            return None
        key = notes.user, topic, group
        found = notes.allowances.get(key)
        if found is not None and not found.flag.is_set and self._time.monotonic() < found.until:
            return found
        notes.allowances.pop(key, None)
        found = self._host.allowance(notes.address, *key)
        if found is not None:
            if len(notes.allowances) >= _MOST_ALLOWANCES:
                notes.allowances.clear()
            notes.allowances[key] = found
        return found

    def refuses(self, notes: QuotaNotes, buckets: Sequence[Bucket], command: Command) -> bool:
        """Return whether one of these lacks tokens. Then the refusal is made."""
        now = self._time.monotonic()
        for bucket in buckets:
            wait_s = bucket.wait_s(now)
            if wait_s > 0:
                self._refuse(notes, bucket, command, now, wait_s)
                return True
        return False

    def now(self) -> float:
        return self._time.monotonic()

    def mark(self, notes: QuotaNotes) -> int:
        """Return a place to `forget` from."""
        return len(self._answers) if self._answered is notes else 0

    def forget(self, notes: QuotaNotes, mark: int) -> None:
        """Drop the refusals made behind a mark: the handlers get the same requests."""
        if self._answered is notes:
            del self._answers[mark:]

    def flush(self, notes: QuotaNotes, connection: FeedConnection) -> None:
        """Hand the refusals that were made for a connection to the broker."""
        if self._answers and self._answered is notes:
            answers, self._answers = b"".join(self._answers), []
            self._host.refuse(connection, answers)

    def _refuse(self, notes: QuotaNotes, bucket: Bucket, command: Command, now: float, wait_s: float) -> None:
        self.refused += 1
        if self._answered is not notes:  # what is left of others was never handed over: their connection is closed
            self._answers.clear()
            self._answered = notes
        if command.is_oneway:
            return  # nobody hears its answer
        text = self._texts.get(bucket)
        if text is None:
            if len(self._texts) >= _MOST_TEXTS:
                self._texts.clear()
            text = self._texts[bucket] = self._host.text_of(bucket.of)
        wait = b"" if math.isinf(wait_s) else b"%d" % max(1, math.ceil(wait_s * 1000))
        self._answers.append(refusal(text, command, f"{bucket.used(now):.0f}".encode(), wait))
