"""One pull of one queue: the request, the answer's four kinds, and which replica to ask next time.

Answers are read record by record, up to a number of bytes: what is damaged, or more than that, never keeps the records
before it from being delivered, and the next pull goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from ... import logs
from ...errors import ProtocolError
from ...model import names
from ...model.codes import ResponseCode
from ...model.message import StoredMessage
from ...model.topic import MASTER_ID
from ...model.wire_text import whole_number
from ...protocol.bodies.keyed import MessageQueue
from ...protocol.command import Command
from ...protocol.headers.pull import PullMessage
from ...protocol.messages import UnreadableMessage, read_messages, unframed
from ...protocol.pulls import PULL_CODES, PullAnswer, Pulled, PullFlag
from ...protocol.requests import RequestCode
from ..connect.answers import bad_answer
from ..connect.session import Session
from ..core.routing import Route
from ..errors import Refused, TimedOut, Unreachable
from ..received import give_topic_back
from ..subscription import Filter

log = logs.get("pyromq.client")

_ANSWER_S = 15.0  # on top of the time for which the broker may suspend a pull
PULL_BYTES = 256 << 10
PLAIN_BYTES = 100 << 20  # of one answer, once its bodies are decompressed
AWAY_S = 5.0
REREAD_S = 1.0  # for a name server's answer, while a replica that could be read waits
_SLAVE_REFUSES = "[REJECTREQUEST]"  # in the remark of a slave without slaveReadEnable, Java's and ours


class NotRead(Refused):
    """A slave lets nobody read, and its master is away, or not known yet."""

    was_master = False  # as the last route has it: another one is the master now, and soon in a route

    @classmethod
    def of(cls, slave: str, master: str | None) -> NotRead:
        away = "no master is registered" if master in (None, slave) else f"the master {master} is away"
        found = cls(
            f"{away}, and its slave {slave} lets nobody read",
            hint="Set slaveReadEnable=true on master and slave to read there meanwhile, or bring the master back",
            address=slave,
        )
        found.was_master = slave == master
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class PullResult:
    """`messages` fit the filter by text, not only by hash. Pull on from `next_offset`.

    `unreadable` are those among them that nobody can read; they have their places in both lists.
    """

    status: Pulled
    messages: list[StoredMessage]
    unreadable: list[UnreadableMessage] = field(default_factory=list)
    next_offset: int


@dataclass(frozen=True, slots=True)
class PullRequest:
    queue: MessageQueue
    offset: int
    wanted: Filter
    most: int = 32
    hold_s: float = 15.0  # for which the broker may wait for something to come
    commit: int | None = None  # goes along where the master is asked
    plain_bytes: int = PLAIN_BYTES  # of all bodies; the rest comes with the next pull


_CommonPart = tuple[Filter, int, float]  # what seldom changes between the pulls of a queue


class Puller:
    """Event loop only. One per consumer."""

    def __init__(self, session: Session, group: str) -> None:
        self._session = session
        self._group = group
        self._suggested: dict[MessageQueue, int] = {}
        self.ends: dict[MessageQueue, int] = {}  # one past the last message, as each queue's last answer said
        self._common: dict[MessageQueue, tuple[_CommonPart, dict[str, str]]] = {}  # header fields
        self._away_until: dict[str, float] = {}  # by address: replicas that did not answer

    async def pull(self, request: PullRequest) -> PullResult:
        """Pull once. Where a replica does not answer, another one is asked at once, and that one not for a while."""
        queue = request.queue
        route = await self._session.route(queue.topic)
        preferred = self._session.reader(route, queue, self._suggested.get(queue, MASTER_ID))
        address = self._available(route, queue, preferred)
        asked = {address}
        while True:
            try:
                result = await self._pull_from(route, address, request)
                break
            except (Unreachable, TimedOut, NotRead):
                self._away_until[address] = self._session.clock.monotonic() + AWAY_S
                await self._session.routes.reread(queue.topic, REREAD_S)
                route = await self._session.route(queue.topic)
                address = self._available(route, queue, self._session.reader(route, queue))
                if address in asked:
                    raise
                asked.add(address)
        is_refusal = result.status is Pulled.NO_MATCH and result.next_offset == request.offset
        if is_refusal and address != route.master(queue.broker_name):
            await self._session.routes.reread(queue.topic, REREAD_S)
            raise NotRead.of(address, route.master(queue.broker_name))
        return result

    def _available(self, route: Route, queue: MessageQueue, preferred: str) -> str:
        """Return the preferred replica; while it is away another one, if one is there."""
        if not self._is_away(preferred):
            return preferred
        replicas = route.addresses[queue.broker_name]
        return next((replicas[each] for each in sorted(replicas) if not self._is_away(replicas[each])), preferred)

    def _is_away(self, address: str) -> bool:
        until = self._away_until.get(address)
        return until is not None and self._session.clock.monotonic() < until

    async def _pull_from(self, route: Route, address: str, request: PullRequest) -> PullResult:
        queue, offset, wanted = request.queue, request.offset, request.wanted
        commit = request.commit if request.commit is not None and address == route.master(queue.broker_name) else -1
        try:
            answer = await self._session.ask(
                address,
                RequestCode.PULL_MESSAGE,
                self._fields(request, commit),
                timeout_s=request.hold_s + _ANSWER_S,
                expected=PULL_CODES,
            )
        except Refused as refusal:
            if _SLAVE_REFUSES not in refusal.remark:
                raise
            raise NotRead.of(address, route.master(queue.broker_name)) from refusal  # it was the master, perhaps
        pulled = PullAnswer.of(answer.code, answer.header, offset)
        self._suggested[queue] = pulled.suggested_broker
        self.ends[queue] = pulled.max_offset
        next_offset = pulled.next_offset
        if pulled.status is Pulled.ILLEGAL_OFFSET and next_offset == pulled.max_offset < offset:
            next_offset = pulled.min_offset  # the queue was made anew: its end would skip what nobody has read
        if next_offset < 0:
            raise bad_answer(address, f"it says that {queue} goes on at offset {next_offset}")
        messages: list[StoredMessage] = []
        unreadable: list[UnreadableMessage] = []
        if pulled.status is Pulled.FOUND:
            found = read_messages(answer.command.body, budget=request.plain_bytes)
            if not found.is_whole:
                end = found.behind
                if end <= offset:
                    return await self._pull_one(route, address, request, answer.command, next_offset)
                if found.broken:
                    log.warning(
                        "the answer to a pull breaks off, its rest is asked for again",
                        queue=str(queue),
                        offset=offset,
                        read=len(found.messages),
                        goes_on_at=end,
                        fault=found.broken,
                    )
                next_offset = min(next_offset, end)
            messages, unreadable = found.messages, found.unreadable
        if wanted.tags:
            messages = [each for each in messages if wanted.matches(each)]
            unreadable = [each for each in unreadable if wanted.matches(each)]
        if names.is_retry(queue.topic):
            for each in messages:
                give_topic_back(each, self._group)
        return PullResult(status=pulled.status, messages=messages, unreadable=unreadable, next_offset=next_offset)

    async def _pull_one(
        self, route: Route, address: str, request: PullRequest, answer: Command, next_offset: int
    ) -> PullResult:
        """Pull one record alone, since nothing could be read. A broken one becomes a message that says so."""
        queue = request.queue
        if request.most > 1:
            return await self._pull_from(route, address, replace(request, most=1))
        fault = read_messages(answer.body).broken
        if not fault or next_offset <= request.offset:
            raise ProtocolError(
                f"{address} answered a pull of {queue} from offset {request.offset} on without a whole record: {fault}"
            )
        broken = unframed(queue.topic, queue.queue_id, next_offset - 1, fault)
        return PullResult(status=Pulled.FOUND, messages=[broken], unreadable=[broken], next_offset=next_offset)

    def _fields(self, request: PullRequest, commit: int) -> dict[str, str]:
        """Return the header fields; most are the same for all pulls of a queue and encoded once."""
        common = (request.wanted, request.most, request.hold_s)
        known = self._common.get(request.queue)
        if known is None or known[0] != common:
            known = self._common[request.queue] = (common, self._encoded(request))
        fields = known[1].copy()
        fields["queueOffset"] = str(request.offset)
        if commit >= 0:
            fields["commitOffset"] = str(commit)
            fields["sysFlag"] = str((whole_number(fields["sysFlag"]) or 0) | PullFlag.COMMIT_OFFSET)
        return fields

    def _encoded(self, request: PullRequest) -> dict[str, str]:
        return PullMessage(
            consumer_group=self._group,
            topic=request.queue.topic,
            queue_id=request.queue.queue_id,
            queue_offset=0,
            max_msg_nums=request.most,
            sys_flag=(PullFlag.SUSPEND if request.hold_s > 0 else 0) | PullFlag.SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=round(request.hold_s * 1000),
            subscription=request.wanted.expression,
            sub_version=0,
            expression_type=request.wanted.expression_type,
            max_msg_bytes=PULL_BYTES,
            bname=request.queue.broker_name,
        ).to_fields()

    def is_gone(self, queue: MessageQueue, fault: Exception) -> bool:
        """Return whether the queue's broker has refused a pull since its topic was deleted there."""
        if not isinstance(fault, Refused) or fault.code != ResponseCode.TOPIC_NOT_EXIST:
            return False
        return fault.address == self._session.known_master(queue)

    def forget(self, queue: MessageQueue) -> None:
        self._suggested.pop(queue, None)
        self.ends.pop(queue, None)
        self._common.pop(queue, None)


def log_unreadable(group: str, queue: MessageQueue, messages: Iterable[UnreadableMessage], way: str) -> None:
    """Log each record with its place and its cause."""
    for message in messages:
        log.error(
            "a record cannot be read",
            group=group,
            queue=str(queue),
            offset=message.queue_offset,
            position=message.physical_offset,
            id=message.message_id,
            fault=message.fault,
            way=way,
        )
