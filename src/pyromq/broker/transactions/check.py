"""The loop that asks producers about half messages that nobody ended, every `transactionCheckInterval`.

A message is checked once it is older than `transactionTimeOut` (or its own immunity), at most `transactionCheckMax`
times, then it goes to TRANS_CHECK_MAX_TIME_TOPIC. While its group has no producer, or only ones that say they cannot
tell yet (`end.py` takes that check back), it waits for as long as messages are kept: a service that is down for an hour
loses none. A check writes nothing but a number, so that many undecided messages do not fill the log. `wiring/` starts
it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import islice

from ... import logs
from ...config import Live
from ...errors import PyroError
from ...model.ids import offset_message_id
from ...model.message import Property
from ...model.names import HALF_TOPIC
from ...protocol.access import Action, Resource
from ...protocol.command import ONEWAY_FLAG, Command
from ...protocol.headers.send import CheckTransactionState
from ...protocol.record import Record, encode_record
from ...protocol.requests import RequestCode
from ...transport.peer import Peer
from ..clients.producers import Producers
from ..config import BrokerConfig
from ..intake.intake import Outcome
from ..stats.events import Events
from .half_records import discarded, shown, text_of
from .halves import Halves, longest_wait_ms
from .states import Event
from .undecided import Half

log = logs.get("pyromq.broker")

AT_ONCE = 100  # checks between two pauses: many undecided messages must not swamp producers, nor the loop
BYTES_AT_ONCE = 1 << 20
PAUSE_S = 0.1
BETWEEN_YIELDS = 1000  # messages, most of which are too young to be checked
TRIED = 3  # producers of a group, before nobody counts as there
LOOKED_AT = 200  # of those that say so: the next check begins with another one
TRANSACTION_ID = Property.TRANSACTION_ID.encode()


class TransactionChecks:
    """Event loop only. `save` is called when what was counted has changed."""

    def __init__(
        self,
        live: Live[BrokerConfig],
        halves: Halves,
        producers: Producers,
        save: Callable[[], None],
        events: Events | None = None,
    ) -> None:
        self._events = Events() if events is None else events
        self._live = live
        self._halves = halves
        self._clock, self._store, self._intake = halves.access.clock, halves.access.store, halves.access.intake
        self._producers = producers
        self._save = save
        self._in_vain: Counter[str] = Counter()  # messages of this round, by group
        self._absent: set[str] = set()  # groups of the last one: once is enough for the log

    async def run(self) -> None:
        """Run a round per interval until cancelled."""
        while True:
            await self._clock.sleep(self._live.config.transaction_check_interval / 1000)
            await self.round()

    async def round(self) -> None:
        """Check every undecided message that is old enough."""
        self._halves.ops.gather_owed()
        await self._halves.catch_up()
        undecided = self._halves.undecided.all()
        oldest_ms = longest_wait_ms(self._live.config) if undecided else 0
        checks = size = 0
        for number, half in enumerate(undecided, 1):
            if number % BETWEEN_YIELDS == 0:
                await self._clock.sleep(0)
            if not self._halves.ledger.is_undecided(half.offset):
                continue
            try:
                sent = await self._check(half, oldest_ms)
            except Exception as fault:
                self._halves.put_into_quarantine(half, fault)
                continue
            if sent is None:
                continue
            checks, size = checks + 1, size + sent
            if checks == AT_ONCE or size >= BYTES_AT_ONCE:
                checks = size = 0
                self._save()  # a round over many takes minutes: a kill in it repeats a portion, not all of them
                await self._clock.sleep(PAUSE_S)
        await self._halves.save_progress()
        self._log_in_vain()
        self._save()

    def _log_in_vain(self) -> None:
        for group in self._in_vain.keys() - self._absent:
            messages = self._in_vain[group]
            log.warning("no producer can be asked about half messages, they wait", group=group, messages=messages)
        self._absent = set(self._in_vain)
        self._in_vain.clear()

    async def close(self) -> None:
        """Write how far it got, once nothing is decided any more."""
        try:
            self._halves.ops.gather_owed()
            for _ in range(2):  # what a commit gathers comes second
                self._halves.ops.put_gathered()
                self._intake.flush()
            await self._halves.catch_up()
            await self._halves.save_progress()
        except PyroError as fault:
            log.error("progress of transactions cannot be written, the next start looks again", why=str(fault))

    # --- one message ----------------------------------------------------------------------------------------------

    async def _check(self, half: Half, oldest_ms: int) -> int | None:
        """Ask about a message or give it up, and return the bytes that went to a producer. None: it waits."""
        config = self._live.config
        age_ms = self._clock.now_ms() - half.born_ms
        immune_ms = config.transaction_time_out if half.immune_ms is None else half.immune_ms
        if 0 <= age_ms <= immune_ms:
            return None
        is_old = age_ms > oldest_ms  # then one more question: an administrator may have it checked again
        is_over = half.checks >= config.transaction_check_max or (is_old and half.checks > 0)
        peer = None if is_over else self._whom_to_ask(half)
        if peer is None and not is_over and not is_old:
            self._in_vain[half.group] += 1
            if self._halves.may_wait(half):
                return None
            self._halves.undecided.count_checks(half, half.checks + 1)
            return 0
        record = await self._store.ask(partial(self._store.reader.record_at, half.position))
        if not self._halves.ledger.is_undecided(half.offset):
            return None  # ended, or put again, while it was read
        if record is None:
            self._halves.leave_out_unreadable(half)
        elif peer is None:
            self._give_up(half, record)
        else:
            self._halves.undecided.count_checks(half, half.checks + 1)
            return self._ask(half, record, peer)
        return 0

    def _whom_to_ask(self, half: Half) -> Peer | None:
        """Return an open connection of the group, another one each time; None if the first few are closed.

        Anybody may say that he is of the group: who may not send to the topic is not shown the message either."""
        members = islice(self._producers.in_turn(half.group), LOOKED_AT)
        allowed = (one.peer for one in members if one.rights.may(Resource.TOPIC, half.topic, Action.PUB))
        return next((peer for peer in islice(allowed, TRIED) if peer.is_open), None)

    def _ask(self, half: Half, record: Record, peer: Peer) -> int:
        header = CheckTransactionState(
            topic=HALF_TOPIC,
            tran_state_table_offset=half.offset,
            commit_log_offset=half.position,
            msg_id=half.unique,
            transaction_id=text_of(record, TRANSACTION_ID) or half.unique,
            offset_msg_id=offset_message_id(record.store_host, half.position),
        )
        fields = header.to_fields() | {"bname": self._live.config.broker_name}
        body = encode_record(shown(record, half.checks))
        peer.send(Command(code=RequestCode.CHECK_TRANSACTION_STATE, flag=ONEWAY_FLAG, fields=fields, body=body))
        return len(body)

    def _give_up(self, half: Half, record: Record) -> None:
        target = discarded(record, half.checks, self._halves.access.store_host)
        self._halves.ledger.move(half.offset, Event.CHECKS_EXHAUSTED)
        log.error(
            "A HALF MESSAGE IS GIVEN UP: nobody said how its transaction ended",
            topic=half.topic,
            group=half.group,
            id=half.unique,
            checks=half.checks,
            cure=f"pyromq msg recheck {half.unique}: a producer of the group is asked anew",
        )

        def done(outcome: Outcome) -> None:
            self._events.given_up[half.topic] += outcome.refusal is None
            if outcome.refusal is None or self._halves.quarantine.put_refused(record, outcome.refusal):
                self._halves.carried_out(half.offset)
            else:
                self._halves.ledger.move(half.offset, Event.NOT_STORED)

        self._intake.put(target, done)
