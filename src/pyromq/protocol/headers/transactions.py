"""The second phase of a transaction, and asking the producer about it."""

from __future__ import annotations

from .header import Header, Int32, Int64
from .shared import RpcHeader


class EndTransaction(RpcHeader, kw_only=True):
    """37. commit_or_rollback: 8 commit, 12 rollback, 0 unknown."""

    topic: str | None = None
    producer_group: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    commit_or_rollback: Int32
    from_transaction_check: bool = False
    msg_id: str
    transaction_id: str | None = None


class CheckTransactionState(RpcHeader, kw_only=True):
    """39, from the broker to a producer, one-way."""

    topic: str | None = None
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None


class ResumeCheckHalfMessage(Header, kw_only=True):
    topic: str | None = None
    msg_id: str | None = None
