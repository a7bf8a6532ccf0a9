"""Token buckets, and who draws from which, in readable Python: `native/quota.pxi` does the same in C.

A bucket gives so much a second, and up to a second's worth at once. What costs more than is left passes as long as
something is left, and leaves a debt: so a message larger than a second's worth can be sent at all, and what was read is
charged when its size is known. Event loop only.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from ...protocol.command import Command, Encoding
from ..quotas import OPAQUE, USED, WAIT, QuotaHost, RefusalText
from ..seam import FeedConnection
from .state import ChangeFlag, TimeSource

if TYPE_CHECKING:  # it imports this
    from .send_feed import Notes

_MOST_ALLOWANCES = 1000  # of a connection
_MOST_TEXTS = 1000


class Bucket:
    """One owner's, of one limit."""

    __slots__ = ("counts_bytes", "filled", "of", "rate", "tokens")

    def __init__(self, rate: float, now: float, counts_bytes: bool = False, of: object = None) -> None:
        """Make a full one. `rate`: a second, and the most that is kept. `of`: the broker's own, for its words."""
        self.rate = float(rate)
        self.tokens = self.rate
        self.filled = now  # when the tokens were counted, in seconds
        self.counts_bytes = counts_bytes  # else messages
        self.of = of

    def wait_s(self, now: float) -> float:
        """Return the seconds until something may be taken; 0: now."""
        self._fill(now)
        if self.tokens > 0:
            return 0.0
        return (1 - self.tokens) / self.rate if self.rate > 0 else math.inf

    def take(self, amount: float, now: float) -> None:
        self._fill(now)
        self.tokens -= amount

    def give_back(self, amount: float) -> None:
        """Undo a `take`: what was to be paid for has not come about."""
        self.tokens += amount

    def used(self, now: float) -> float:
        """Return how much of a second's worth is taken."""
        self._fill(now)
        return self.rate - self.tokens

    def _fill(self, now: float) -> None:
        if now > self.filled:
            self.tokens = min(self.rate, self.tokens + (now - self.filled) * self.rate)
            self.filled = now


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


class Allowances:
    """All feeds' of a broker. Nothing is asked of it while it is not on."""

    def __init__(self, host: QuotaHost, time: TimeSource) -> None:
        self._host = host
        self._time = time
        self._texts: dict[Bucket, RefusalText] = {}
        self._answers: list[bytes] = []  # refusals of the buffer that is served
        self._answered: Notes | None = None  # whose they are
        self.is_on = False  # there is a quota
        self.refused = 0  # requests since the start

    def find(self, notes: Notes, topic: str, group: str) -> Allowance | None:
        """Return what such requests of a connection draw from; None: leave them to the handlers."""
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

    def refuses(self, notes: Notes, buckets: Sequence[Bucket], command: Command) -> bool:
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

    def mark(self, notes: Notes) -> int:
        """Return a place to `forget` from."""
        return len(self._answers) if self._answered is notes else 0

    def forget(self, notes: Notes, mark: int) -> None:
        """Drop the refusals made behind a mark: the handlers get the same requests."""
        if self._answered is notes:
            del self._answers[mark:]

    def flush(self, notes: Notes, connection: FeedConnection) -> None:
        """Hand the refusals that were made for a connection to the broker."""
        if self._answers and self._answered is notes:
            answers, self._answers = b"".join(self._answers), []
            self._host.refuse(connection, answers)

    def _refuse(self, notes: Notes, bucket: Bucket, command: Command, now: float, wait_s: float) -> None:
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
        self._answers.append(_frame(text, command, f"{bucket.used(now):.0f}".encode(), wait))


def _frame(text: RefusalText, command: Command, used: bytes, wait: bytes) -> bytes:
    values = {USED: used, WAIT: wait, OPAQUE: b"%d" % command.opaque}
    if command.encoding is Encoding.JSON:
        header = _joined(text.json, text.json_slots, values)
        word = len(header)
    else:
        remark = _joined(text.remark, text.remark_slots, values)
        fields = b""
        if text.field:
            fields = len(text.field).to_bytes(2, "big") + text.field + len(wait).to_bytes(4, "big") + wait
        fixed = text.fixed[:5] + (command.opaque & 0xFFFFFFFF).to_bytes(4, "big") + text.fixed[9:]
        header = fixed + len(remark).to_bytes(4, "big") + remark + len(fields).to_bytes(4, "big") + fields
        word = 1 << 24 | len(header)
    return (4 + len(header)).to_bytes(4, "big") + word.to_bytes(4, "big") + header


def _joined(pieces: Sequence[bytes], slots: Sequence[int], values: dict[int, bytes]) -> bytes:
    return b"".join(piece + values[slot] for piece, slot in zip(pieces, slots, strict=False)) + pieces[-1]
