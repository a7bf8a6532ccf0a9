"""What a kernel and the broker say to each other of quotas: who draws from which buckets, and how a refusal is worded.

A bucket is one object for everybody who counts: the feeds of the kernel, and the gate of the handlers
(`broker/quotas/gate.py`). Which ones a request draws from is the broker's to say; it says it once for each connection,
user, topic and group (an `Allowance`), and again when a quota has changed. The kernel takes what a request costs, or
refuses it in the broker's words and hands the answers to it, which holds them back for a moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from .seam import FeedConnection

if TYPE_CHECKING:  # the native module imports this
    from .python.quotas.allowance import Allowance

USED, WAIT, OPAQUE = range(3)  # the values that stand in a refusal: how much is used, when to try again in ms


class RefusalText(NamedTuple):
    """The answer to what is beyond a bucket, cut where its own values stand. One piece more than slots."""

    json: Sequence[bytes]  # a header
    json_slots: Sequence[int]  # which value follows each piece
    fixed: bytes  # of a binary header, up to the remark
    remark: Sequence[bytes]
    remark_slots: Sequence[int]
    field: bytes  # the name under which a binary header says WAIT once more; empty: it does not


class QuotaHost(Protocol):
    """What is asked of the broker, on the event loop, within one call of a feed."""

    def allowance(self, address: str, user: str, topic: str, group: str) -> Allowance | None:
        """Return what a connection's requests about this topic by this group draw from, if they may pass otherwise.
        None: the handlers say what is wrong. It holds until its time is over, or its flag is set.
        """
        ...

    def text_of(self, of: object) -> RefusalText:
        """Return the refusal of what is beyond a bucket, by what the bucket is `of`."""
        ...

    def refuse(self, connection: FeedConnection, answers: bytes) -> None:
        """Send these frames to the connection, in a moment."""
        ...
