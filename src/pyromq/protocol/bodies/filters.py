"""What a group filters a topic by, as `consumerFilter.json` and the answer to request 321 hold it."""

from __future__ import annotations

from ..ints import Int32, Int64
from .body import Body, always, always_new


class BloomFilterData(Body, kw_only=True):
    bit_num: Int32 = always(0)
    bit_pos: list[Int32] = always_new(list)


class ConsumerFilterData(Body, kw_only=True):
    """Times are ms. It lives while its group has members; a dead one is kept a day, so that versions stay known."""

    bloom_filter_data: BloomFilterData | None = None
    born_time: Int64 = always(0)
    client_version: Int64 = always(0)
    consumer_group: str = ""
    dead: bool = always(False)
    dead_time: Int64 = always(0)
    expression: str = ""
    expression_type: str = ""
    topic: str = ""
