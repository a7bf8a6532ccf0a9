"""How far a consumer group is behind: the one arithmetic for brokers, tools and pipelines. Pure.

An offset that somebody set by hand may lie beyond the end of its queue. Java shows the difference as it is, below
zero then; ours count messages, and there are none.
"""

from __future__ import annotations


def difference(end: int, committed: int) -> int:
    """Return Java's `diff`: below zero where the offset lies beyond the end."""
    return end - committed


def lag(end: int, committed: int) -> int:
    """Return how many messages of one queue wait, 0 at least: so that one queue is not set off against another."""
    return max(0, difference(end, committed))
