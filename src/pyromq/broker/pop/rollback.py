"""Request 200056: moving pop records out of RocksDB (`popConsumerKVServiceEnable`), which is never used here."""

from __future__ import annotations

from ...transport.dispatch import Reply, Request

NOT_SET = "not set any response code"  # Java's remark where a handler says nothing


def roll_back(_: Request) -> Reply:
    """Answer success: check points are records of the log already, so there is nothing to move."""
    return Reply(remark=NOT_SET)
