"""Transactions of one producer: a half message first, the caller's own work, then commit or rollback.

A half message is stored but not delivered. If the end never reaches the broker, it asks (39), and the check handler
answers. While nobody can say (the handler raises or is still busy, or the block of the transaction is open here), the
answer says that, and our broker does not count the question.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from functools import wraps
from types import TracebackType
from typing import ParamSpec

from ... import logs
from ...model.ids import parse_offset_message_id
from ...model.message import SysFlag
from ...protocol.command import ONEWAY_FLAG, Command
from ...protocol.headers.send import CheckTransactionState, EndTransaction
from ...protocol.requests import RequestCode
from ...transport.peer import Peer
from ..connect.answers import bad_answer
from ..connect.session import Session
from ..errors import Error, NoBroker, Refused, TimedOut, Unreachable
from ..handle.attempts import failure
from ..handle.failures import Failures
from ..handle.handlers import AdaptedHandler, Handler, worker
from ..received import Received
from ..tracing.trace_writer import Tracer
from ..tracing.traced_work import trace_answer, trace_end
from .sending import SendResult, SendStatus

log = logs.get("pyromq.client")

P = ParamSpec("P")

CHECKS_AT_ONCE = 4  # threads of a check handler that blocks


class TransactionDecision(Enum):
    """How a transaction ends. UNKNOWN: the broker asks again later."""

    UNKNOWN = 0
    COMMIT = SysFlag.TRANSACTION_COMMIT
    ROLLBACK = SysFlag.TRANSACTION_ROLLBACK


_STATES = {  # in traces, by Java's names
    TransactionDecision.UNKNOWN: "UNKNOW",
    TransactionDecision.COMMIT: "COMMIT_MESSAGE",
    TransactionDecision.ROLLBACK: "ROLLBACK_MESSAGE",
}


@dataclass(slots=True, eq=False, repr=False)
class Transaction:
    """One half message, as the block of `Producer.transaction` sees it."""

    result: SendResult
    properties: Mapping[str, str]
    decision: TransactionDecision | None = None

    @property
    def message_id(self) -> str:
        """The id by which the check handler is asked: note it with your own work."""
        return self.result.message_id

    def commit(self) -> None:
        """Deliver the message at the end of the block, also if the block raises from now on.

        For the line after your own commit: what fails behind it must not drop the message.
        """
        self.decision = TransactionDecision.COMMIT

    def rollback(self) -> None:
        """Drop the message at the end of the block."""
        self.decision = TransactionDecision.ROLLBACK

    def leave_open(self) -> None:
        """Say nothing at the end of the block: the broker will ask the check handler."""
        self.decision = TransactionDecision.UNKNOWN


class TransactionBlock(AbstractAsyncContextManager[Transaction]):
    """The `async with` of one transaction, which can be entered once. Error at the second time."""

    def __init__(self, block: AbstractAsyncContextManager[Transaction]) -> None:
        self._block = block
        self._is_entered = False

    async def __aenter__(self) -> Transaction:
        if self._is_entered:
            hint = "Call transaction(...) again: each message is a transaction of its own"
            raise Error("this transaction was entered before", hint=hint)
        self._is_entered = True
        return await self._block.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._block.__aexit__(kind, fault, trace)


def entered_once(function: Callable[P, AsyncIterator[Transaction]]) -> Callable[P, TransactionBlock]:
    """Make a method that runs a transaction return its block."""
    make = asynccontextmanager(function)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> TransactionBlock:
        return TransactionBlock(make(*args, **kwargs))

    return call


class ProducerTransactions:
    """Event loop only."""

    def __init__(self, session: Session, group: str, tracer: Tracer | None = None) -> None:
        self._session = session
        self._group = group
        self._tracer = tracer
        self._open: dict[str, Transaction] = {}
        self._checks: dict[str, AdaptedHandler] = {}
        self._failures = Failures(group, session.clock, "retry", "transaction check failed")
        self._in_check: set[str] = set()  # ids of messages that check handlers are busy with

    @asynccontextmanager
    async def block(self, result: SendResult, properties: Mapping[str, str]) -> AsyncIterator[Transaction]:
        """Run a transaction as a block: a clean end commits, an exception rolls back, unless it was decided before."""
        transaction = self._open[result.message_id] = Transaction(result, properties)
        try:
            if result.status is not SendStatus.OK:
                raise Refused(
                    f"the half message was stored as {result.status.name}: it is rolled back, as Java's client does",
                    hint="See why the broker does not flush or copy in time",
                    code=result.status.value,
                )
            yield transaction
        except BaseException:
            await self._end_failed(transaction)
            raise
        else:
            await self._end(transaction, transaction.decision or TransactionDecision.COMMIT)
        finally:
            del self._open[result.message_id]

    async def _end_failed(self, transaction: Transaction) -> None:
        """Roll back, or commit if that was decided, and log a failure: the caller's own error matters more.

        The broker asks then, or gives up.
        """
        is_committed = transaction.decision is TransactionDecision.COMMIT
        decision = TransactionDecision.COMMIT if is_committed else TransactionDecision.ROLLBACK
        try:
            await self._end(transaction, decision)
        except Error as fault:
            log.warning(
                "transaction not ended, the broker will ask",
                id=transaction.message_id,
                wanted=decision.name.lower(),
                fault=str(fault),
            )

    async def _end(self, transaction: Transaction, decision: TransactionDecision) -> None:
        result = transaction.result
        if self._tracer is not None:
            trace_end(self._tracer, self._group, _STATES[decision], result, transaction.properties)
        if decision is TransactionDecision.UNKNOWN:
            return
        topic = result.queue.topic
        try:
            position = parse_offset_message_id(result.offset_message_id).physical_offset
        except ValueError as fault:
            raise bad_answer(result.queue.broker_name, f"{fault}; the broker will ask about the transaction") from None
        header = EndTransaction(
            topic=topic,
            producer_group=self._group,
            tran_state_table_offset=result.queue_offset,
            commit_log_offset=position,
            commit_or_rollback=decision.value,
            msg_id=result.message_id,
            transaction_id=result.message_id,
            bname=result.queue.broker_name,
        )
        try:
            await self._session.ask(await self._session.master(result.queue), RequestCode.END_TRANSACTION, header)
        except (Unreachable, TimedOut, NoBroker) as fault:
            if topic not in self._checks:
                hint = "Whether it took effect is not known; a handler given to `transaction_check` would settle it"
                text = f"{decision.name.lower()} of {result.message_id}: {fault}"
                raise type(fault)(text, hint=hint, may_be_stored=True) from None
            log.warning("the broker will ask about a transaction", id=result.message_id, fault=str(fault))

    def answer_by(self, topic: str, handler: Handler) -> None:
        """Let the handler answer for this topic, which has its name on the wire."""
        self._checks[topic] = worker(handler, CHECKS_AT_ONCE)

    async def check(self, peer: Peer, header: CheckTransactionState, half: Received) -> None:
        known = await self._decide(half)
        decision = known or TransactionDecision.UNKNOWN
        if self._tracer is not None:
            trace_answer(self._tracer, self._group, _STATES[decision], half, peer.address)
        ended = EndTransaction(
            topic=half.wire_topic,
            producer_group=self._group,
            tran_state_table_offset=header.tran_state_table_offset,
            commit_log_offset=header.commit_log_offset,
            commit_or_rollback=decision.value,
            from_transaction_check=True,
            msg_id=half.id,
            transaction_id=header.transaction_id,
            uncounted=True if known is None else None,
        )
        answer = Command(code=RequestCode.END_TRANSACTION, flag=ONEWAY_FLAG, fields=ended.to_fields())
        if self._session.signer is not None:
            self._session.signer.sign(answer)
        peer.send(answer)

    @property
    def checking(self) -> int:
        return len(self._in_check)

    async def _decide(self, half: Received) -> TransactionDecision | None:
        """Return what the handler answers. None: it failed or is still busy, or the block is open."""
        if half.id in self._open or half.id in self._in_check:
            return None
        check = self._checks.get(half.wire_topic)
        if check is None:
            log.warning("a broker asks about a transaction, nobody answers", topic=half.topic, id=half.id)
            return TransactionDecision.UNKNOWN
        self._in_check.add(half.id)
        try:
            return _DECISIONS[await check.run([half])]
        except (Exception, asyncio.CancelledError) as fault:
            self._failures.log(half, failure(fault), "asked again")
            return None
        finally:
            self._in_check.remove(half.id)

    def close(self) -> None:
        for check in self._checks.values():
            check.close()


_DECISIONS: dict[bool | None, TransactionDecision] = {
    True: TransactionDecision.COMMIT,
    False: TransactionDecision.ROLLBACK,
    None: TransactionDecision.UNKNOWN,
}
