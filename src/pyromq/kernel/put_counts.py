"""What a feed of sends has counted for the statistics."""

from __future__ import annotations

SIZE_BOUNDS = (1 << 10, 4 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20)  # of RocketMQ's histogram of message sizes

# What was stored in one queue: topic, queue, messages, bytes, requests; requests by the size of their messages; how
# many messages had an order key, and their bytes.
PutCount = tuple[str, int, int, int, int, tuple[int, ...], tuple[int, int]]
