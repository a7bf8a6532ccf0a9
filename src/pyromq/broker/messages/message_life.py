"""The life of one message, asked for by topic and id (request 30002, ours): where it is and what became of it.

Every step of a message is a record of its own with the same unique key, so the index leads from one to the next;
offsets say what each group has done. Read-only. `pyromq msg get` shows the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from msgspec import UNSET
from msgspec.structs import asdict

from ...config import Live
from ...errors import RequestRefused
from ...model import names
from ...model.codes import ResponseCode
from ...model.ids import offset_message_id, parse_offset_message_id
from ...model.message import Property
from ...model.wire_text import whole_number
from ...protocol.bodies.own import LifeState, MessageLifeAnswer
from ...protocol.headers.admin import MessageLifeRequest
from ...protocol.properties import decode_properties
from ...protocol.record import Record
from ...store.log.reader import KeyQuery
from ...store.log.retention import RetentionConfig
from ...store.message_store import MessageStore
from ...store.tables.quarantine import Quarantine
from ...transport.dispatch import Reply, RequestOf
from ..clients.consumers import Consumers
from ..config import BrokerConfig
from ..metadata.offsets import Offsets
from ..retries.dead_letters import DeadLetters, file_leaves_ms
from ..timing.level_park import due_of
from ..transactions.halves import Halves
from ..transactions.states import State
from .expired import Expired
from .life_states import Copy, Step, classify, of_group, state_of

WAITING_TOPICS = (names.SCHEDULE_TOPIC, names.TIMER_TOPIC, names.HALF_TOPIC, names.CHECKS_EXHAUSTED_TOPIC)
_WAITING = ("timed", "half", "rolled back", "in retry")  # or so it seems, where the record was put aside
_WORDS = {State.HALF: "half", State.ROLLED_BACK: "rolled back", State.DISCARDED: "given up"}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MessageLife:
    """Event loop only."""

    live: Live[BrokerConfig]
    store: MessageStore
    offsets: Offsets
    consumers: Consumers
    halves: Halves
    dead_letters: DeadLetters
    expired: Expired
    quarantine: Quarantine
    now_ms: Callable[[], int]

    async def __call__(self, request: RequestOf[MessageLifeRequest, None]) -> Reply:
        header = request.header
        copies = await self._copies(header.topic, header.id)
        if not copies:
            return Reply(body=self._gone(header))
        await self.halves.catch_up()
        return Reply(body=self._life(header.topic, copies))

    # --- finding its copies ---------------------------------------------------------------------------------------

    async def _copies(self, topic: str, wanted: str) -> list[Copy]:
        records = await self._named(topic, wanted)
        uniques = {decode_properties(record.properties).get(Property.UNIQ_KEY) for record in records}
        if len(uniques) > 1:
            ids = ", ".join(sorted(unique or "without id" for unique in uniques)[:10])
            raise RequestRefused(f"{len(uniques)} messages of {topic} have the key {wanted}: ask for one of {ids}")
        unique = next(iter(uniques), None)
        if unique is not None and unique != wanted:
            records += await self._everywhere(topic, unique)
        once = {record.physical_offset: record for record in records}
        found = (self._classified(topic, once[position]) for position in sorted(once))
        return [copy for copy in found if copy is not None]

    async def _named(self, topic: str, wanted: str) -> list[Record]:
        """Find the copies by unique id or key anywhere, else by the place that an offset id names."""
        records = await self._everywhere(topic, wanted)
        if records:
            return records
        try:
            place = parse_offset_message_id(wanted)
        except ValueError:
            return []
        record = await self.store.ask(lambda: self.store.reader.record_at(place.physical_offset))
        fits = record is not None and record.store_host == place.host
        return [record] if record is not None and fits and self._classified(topic, record) is not None else []

    async def _everywhere(self, topic: str, key: str) -> list[Record]:
        topics = [topic, *WAITING_TOPICS, *self._ends()]
        found: list[Record] = []
        for name in dict.fromkeys(topics):
            found += [
                record
                for record in await self.store.by_key(KeyQuery(name, key))
                if self._classified(topic, record) is not None
            ]
        return found

    def _ends(self) -> list[str]:
        return [name for name in self.store.queues.topics() if name.startswith((names.RETRY_PREFIX, names.DLQ_PREFIX))]

    def _classified(self, topic: str, record: Record) -> Copy | None:
        pairs = decode_properties(record.properties)
        return classify(topic, record, pairs, self._due(record, pairs))

    def _due(self, record: Record, pairs: dict[str, str]) -> int:
        if record.topic == names.TIMER_TOPIC:
            slot_ms = whole_number(pairs.get(Property.TIMER_OUT_MS))
            return 0 if slot_ms is None else slot_ms + self.live.config.timer_precision_ms
        if record.topic != names.SCHEDULE_TOPIC:
            return 0
        queue = self.store.queues.get(record.topic, record.queue_id)
        entry = None if queue is None else queue.entry_at(record.queue_offset)
        return due_of(pairs, 0 if entry is None else entry.tag_code)

    # --- telling --------------------------------------------------------------------------------------------------

    def _life(self, topic: str, copies: list[Copy]) -> MessageLifeAnswer:
        first = copies[0]
        own = [one for one in copies if not one.group]
        state = (
            self._or_quarantined(state_of(copies, self._decided, self.now_ms()), own[-1])
            if own
            else LifeState(state="expired", at_ms=self._when_gone(first))
        )
        state.leaves_ms = self._leaves_ms(copies[-1])
        return MessageLifeAnswer(
            topic=topic,
            id=first.pairs.get(Property.UNIQ_KEY) or offset_message_id(first.record.store_host, first.position),
            keys=first.pairs.get(Property.KEYS),
            tags=first.pairs.get(Property.TAGS),
            born_ms=first.record.born_timestamp,
            bytes=len(first.record.body),
            groups=[self._of_group(name, copies) for name in self._groups(topic, copies)],
            history=[copy.shown() for copy in copies],
            **{name: value for name, value in asdict(state).items() if value is not UNSET},
        )

    def _or_quarantined(self, state: LifeState, newest: Copy) -> LifeState:
        """Return the state, or that it was put aside: what no loop handles any more neither waits nor was decided."""
        aside = self.quarantine.get(newest.position)
        if aside is None or state.state not in _WAITING:
            return state
        return LifeState(state="put aside", reason=aside.reason, at_ms=aside.time_ms)

    def _when_gone(self, later: Copy) -> int | None:
        """Return when the message went, of which a retry or dead letter is left: it names the place of the first."""
        try:
            place = parse_offset_message_id(later.pairs.get(Property.ORIGIN_MESSAGE_ID, ""))
        except ValueError:
            return None
        return self.expired.at(place.physical_offset)

    def _groups(self, topic: str, copies: Iterable[Copy]) -> list[str]:
        online = {group.name for group in self.consumers.all() if topic in group.subscriptions}
        return sorted({copy.group for copy in copies if copy.group} | online | set(self.offsets.groups_of(topic)))

    def _of_group(self, group: str, copies: list[Copy]) -> LifeState:
        mine = [copy for copy in copies if copy.group in ("", group)]
        if not mine:
            return LifeState(group=group, state="expired")
        state = self._or_quarantined(of_group(group, copies, self._progress_of), mine[-1])
        state.group = group
        if state.state == "dead":
            state.leaves_ms = self._leaves_ms(mine[-1])
        return state

    def _progress_of(self, group: str, record: Record) -> str:
        """Return how far a group is with a record."""
        place = (record.topic, group, record.queue_id)
        if record.queue_offset < (self.offsets.find(*place) or 0):
            return "consumed"
        return "in flight" if record.queue_offset < (self.offsets.pulled(*place) or 0) else "ready"

    def _leaves_ms(self, copy: Copy) -> int:
        files, hours = self.store.log_files(), self.live.config.part(RetentionConfig).file_reserved_hours
        if copy.step is Step.DEAD:
            return self.dead_letters.leaves_ms(copy.record, files)
        return file_leaves_ms(files, copy.record, hours, self.now_ms())

    def _decided(self, half: Copy) -> tuple[str, int | None]:
        """Return how a transaction ended. The op topic does not say; a committed message would be there."""
        offset, _ = self.halves.stands_for(half.record.queue_offset, half.position)
        open_half = self.halves.undecided.get(offset)
        if open_half is not None:
            return "half", open_half.checks
        return _WORDS.get(self.halves.ledger.state(offset), "rolled back"), None

    def _gone(self, header: MessageLifeRequest) -> MessageLifeAnswer:
        at = self.expired.of(header.id, self.now_ms(), self.store.commit_log.start)
        if at is None:
            raise RequestRefused(
                f"no message {header.id} of topic {header.topic} is known here: it may be on another broker, it may "
                "never have been stored, or its topic or id is not the one it was sent with",
                ResponseCode.QUERY_NOT_FOUND,
            )
        return MessageLifeAnswer(topic=header.topic, id=header.id, state="expired", at_ms=at or None)
