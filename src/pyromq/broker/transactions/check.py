"""Asking producers about half messages that nobody ended: the loop, on the interval of `transactionCheckInterval`.

A message is asked about once it is older than `transactionTimeOut` (or its own immunity), at most
`transactionCheckMax` times, then it goes to TRANS_CHECK_MAX_TIME_TOPIC. Asking writes nothing but a number, so that
many undecided messages do not fill the log. `broker.py` runs it; retention calls `carry` before a log file goes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import islice

import msgspec

from ... import logs
from ...ambient import Clock
from ...config import Live
from ...errors import PyroError, RequestRefused
from ...model.codes import RequestCode
from ...model.ids import offset_message_id
from ...model.message import Property
from ...model.names import HALF_TOPIC, SCHEDULE_TOPIC
from ...protocol.command import ONEWAY_FLAG, Command
from ...protocol.headers.transactions import CheckTransactionState
from ...protocol.properties import decode_properties
from ...protocol.record import Record, encode_record
from ...store.message_store import MessageStore
from ...store.retention import RetentionConfig
from ...store.tables import Table
from ..clients.producers import Producers
from ..config import BrokerConfig
from ..intake import Intake, Outcome
from ..metadata.table_content import next_version, read_version
from .halves import Half, Halves
from .park import again, discarded, shown
from .states import State

log = logs.get("pyromq.broker")

AT_ONCE = 100  # checks between two pauses: many undecided messages must not swamp producers, nor the loop
PAUSE_S = 0.1
TRIED = 3  # producers of a group, before a check counts as asked in vain
METRICS = "transactionCount"
_HOUR_MS = 3_600_000


class TransactionChecks:
    """Event loop only. `save` is called when a table has changed."""

    def __init__(
        self,
        live: Live[BrokerConfig],
        clock: Clock,
        store: MessageStore,
        intake: Intake,
        halves: Halves,
        producers: Producers,
        metrics: Table,
        store_host: bytes,
        save: Callable[[], None],
    ) -> None:
        self._live = live
        self._clock = clock
        self._store = store
        self._intake = intake
        self._halves = halves
        self._producers = producers
        self._metrics = metrics
        self._version = read_version(metrics.load(), metrics.name)
        self._store_host = store_host
        self._save = save
        self._counted: dict[str, int] = {}
        self._oldest_ms = live.config.part(RetentionConfig).file_reserved_hours * _HOUR_MS
        self._turn = asyncio.Lock()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._clock.sleep(self._live.config.transaction_check_interval / 1000)
            await self.round()

    async def round(self) -> None:
        """Look at every undecided message once."""
        async with self._turn:
            self._halves.pay()
            await self._halves.look()
            asked = 0
            for half in list(self._halves.undecided.values()):
                if self._halves.ledger.state(half.offset) is not State.HALF:
                    self._halves.settle(half.offset)
                elif self._take_care(half):
                    asked += 1
                    if asked % AT_ONCE == 0:
                        await self._clock.sleep(PAUSE_S)
            await self._halves.save_progress()
        self._count_open()
        self._save()

    async def start(self) -> None:
        """Know what is undecided before the first end arrives. A kill may have come between a commit and its op."""
        await self._halves.look()
        if self._store.recovery.clean_stop:
            return
        for half in list(self._halves.undecided.values()):
            if half.unique is not None and self._is_committed(half, half.unique):
                self._halves.decide(half.offset, State.COMMITTED)
                self._halves.settle(half.offset)
                self._halves.owe(half.offset)

    def _is_committed(self, half: Half, unique: str) -> bool:
        """The index knows: a committed message, waiting or not, says which half message it was."""
        return any(
            found.prepared_transaction_offset == half.position
            for topic in (half.topic, SCHEDULE_TOPIC)
            for found in self._store.reader.by_key(topic, unique)
        )

    async def close(self) -> None:
        """Nothing is decided any more: write how far it got."""
        try:
            async with self._turn:
                self._halves.pay()
                self._intake.flush()
                await self._halves.look()
                await self._halves.save_progress()
        except PyroError as fault:
            log.error("progress of transactions cannot be written, the next start looks again", why=str(fault))

    # --- one message ----------------------------------------------------------------------------------------------

    def _take_care(self, half: Half) -> bool:
        """Ask about it or give it up. False: it is too young."""
        config = self._live.config
        age_ms = self._clock.now_ms() - half.born_ms
        immune_ms = config.transaction_time_out if half.immune_ms is None else half.immune_ms
        if 0 <= age_ms <= immune_ms:
            return False
        record = self._store.reader.record_at(half.position)
        if record is None:
            log.error("A HALF MESSAGE CANNOT BE READ AND IS LEFT OUT", position=half.position, group=half.group)
            self._halves.decide(half.offset, State.DECIDED)
            self._halves.owe(half.offset)
            return False
        if half.checks >= config.transaction_check_max or age_ms > self._oldest_ms:
            self._give_up(half, record)
        else:
            self._halves.checked(half, half.checks + 1)
            self._ask(half, record)
        return True

    def _ask(self, half: Half, record: Record) -> None:
        pairs = decode_properties(record.properties)
        header = CheckTransactionState(
            topic=HALF_TOPIC,
            tran_state_table_offset=half.offset,
            commit_log_offset=half.position,
            msg_id=half.unique,
            transaction_id=pairs.get(Property.TRANSACTION_ID, half.unique),
            offset_msg_id=offset_message_id(record.store_host, half.position),
        )
        fields = header.to_fields() | {"bname": self._live.config.broker_name}
        body = encode_record(shown(record, pairs))
        for producer in islice(self._producers.in_turn(half.group), TRIED):
            if producer.peer.is_open:
                command = Command(
                    code=RequestCode.CHECK_TRANSACTION_STATE, flag=ONEWAY_FLAG, fields=dict(fields), body=body
                )
                producer.peer.send(command)
                return
        log.warning("nobody can be asked about a half message", group=half.group, id=half.unique, checks=half.checks)

    def _give_up(self, half: Half, record: Record) -> None:
        pairs = decode_properties(record.properties)
        target = discarded(record, pairs, half.checks, self._store_host)
        self._halves.decide(half.offset, State.DISCARDED)
        log.error(
            "A HALF MESSAGE IS GIVEN UP: nobody said how its transaction ended",
            topic=half.topic,
            group=half.group,
            id=half.unique,
            checks=half.checks,
        )

        def done(outcome: Outcome) -> None:
            if outcome.refusal is not None:
                self._halves.undo(half.offset)
            else:
                self._halves.settle(half.offset)
                self._halves.put_owed_op(half.offset)

        self._intake.put(target, done)

    # --- retention ------------------------------------------------------------------------------------------------

    async def carry(self, start: int, end: int) -> None:
        """Put again what is undecided in a part of the log that is about to go. Raises if that cannot be."""
        async with self._turn:
            await self._halves.look()
            going = [half for half in self._halves.undecided.values() if half.position < end]
            refusals: list[RequestRefused] = []
            for half in going:
                if self._halves.ledger.state(half.offset) is State.HALF:
                    self._put_again(half, refusals)
            self._intake.flush()
            self._intake.flush()  # their ops
            if refusals:
                raise refusals[0]
            if going:
                await self._store.flush_log()  # the old copies go next
                log.info("half messages carried forward", messages=len(going), start=start, end=end)

    def _put_again(self, half: Half, refusals: list[RequestRefused]) -> None:
        record = self._store.reader.record_at(half.position)
        if record is None:
            return  # damaged: the next round says so
        copy = again(record, decode_properties(record.properties), half.checks, self._store_host)

        def done(outcome: Outcome) -> None:
            if outcome.refusal is not None:
                refusals.append(outcome.refusal)
            else:
                placed = outcome.places[-1]
                self._halves.carry(half, placed.queue_offset, placed.position)
                self._halves.put_owed_op(half.offset)

        self._intake.put(copy, done)

    # --- what is open ---------------------------------------------------------------------------------------------

    def _count_open(self) -> None:
        """`config/transactionMetrics`: undecided messages by topic."""
        counts = dict.fromkeys(self._counted, 0) | dict(self._halves.open_by_topic())
        if counts == self._counted:
            return
        self._counted = counts
        now = self._clock.now_ms()
        self._version = next_version(self._version, now)
        self._metrics.replace("dataVersion", msgspec.to_builtins(self._version))
        for topic, count in counts.items():
            self._metrics.put(METRICS, topic, {"count": count, "timeStamp": now})

    def undecided(self, most: int) -> list[dict[str, object]]:
        """The oldest undecided messages, for whoever asks."""
        now = self._clock.now_ms()
        halves = islice(self._halves.undecided.values(), most)
        return [
            {
                "topic": half.topic,
                "producerGroup": half.group,
                "id": half.unique,
                "ageSeconds": max(0, now - half.born_ms) // 1000,
                "checks": half.checks,
                "position": half.position,
            }
            for half in halves
        ]
