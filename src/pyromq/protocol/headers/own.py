"""Headers of the requests that only our brokers know (30,001 and up)."""

from __future__ import annotations

import msgspec

from .header import Header, Int32


class MessageLifeRequest(Header, kw_only=True):
    """30002. `id`: the client's unique id, the broker's offset id, or a key that one message alone has."""

    topic: str
    id: str


class HalfMessagesRequest(Header, kw_only=True):
    """30003. Up to `most` half messages of a topic or producer group, from the queue offset `begin` on."""

    begin: str | None = msgspec.field(default=None, name="from")
    most: str | None = None
    topic: str | None = None
    producer_group: str | None = None


class DeadLettersRequest(Header, kw_only=True):
    """30005. With a group its messages, the oldest first; without one, the groups."""

    group: str | None = None
    max_num: Int32 = 100
