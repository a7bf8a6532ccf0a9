"""One pull of one queue: the request, the answer's four kinds, and which replica to ask next time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ..model import names
from ..model.codes import RequestCode, ResponseCode
from ..model.message import Property, StoredMessage
from ..model.route import MASTER_ID
from ..protocol.bodies.keyed import MessageQueue
from ..protocol.headers.pull import PullMessage, PullMessageAnswer
from ..protocol.messages import decode_messages
from .core.routing import Route
from .errors import NoBroker, TimedOut, Unreachable
from .session import Session
from .subscription import Filter

_COMMIT, _SUSPEND, _SUBSCRIPTION = 1, 2, 4
_ANSWER_S = 15.0  # on top of the time that the broker may hold a pull
PULL_BYTES = 256 << 10
AWAY_S = 5.0


class Pulled(Enum):
    FOUND = ResponseCode.SUCCESS
    NONE = ResponseCode.PULL_NOT_FOUND
    NO_MATCH = ResponseCode.PULL_RETRY_IMMEDIATELY  # the broker looked some way ahead and found none that fits
    ILLEGAL_OFFSET = ResponseCode.PULL_OFFSET_MOVED


_EXPECTED = tuple(status.value for status in Pulled)


@dataclass(frozen=True, slots=True, kw_only=True)
class PullResult:
    """`messages` fit the filter by text, not only by hash. Pull on from `next_offset`."""

    status: Pulled
    messages: list[StoredMessage]
    next_offset: int
    min_offset: int
    max_offset: int


@dataclass(frozen=True, slots=True)
class _Question:
    queue: MessageQueue
    offset: int
    wanted: Filter
    most: int
    hold_s: float
    commit: int | None


class Puller:
    """Event loop only. One per consumer."""

    def __init__(self, session: Session, group: str) -> None:
        self._session = session
        self._group = group
        self._suggested: dict[MessageQueue, int] = {}
        self._away_until: dict[str, float] = {}  # by address: replicas that did not answer

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        wanted: Filter,
        *,
        most: int = 32,
        hold_s: float = 15.0,
        commit: int | None = None,
    ) -> PullResult:
        """Waits up to `hold_s` for something to come. `commit` goes along where the master is asked.

        A replica that does not answer is stood in for by another one at once, and left alone for a while.
        """
        route = await self._session.route(queue.topic)
        asked = _Question(queue, offset, wanted, most, hold_s, commit)
        wished = self._wished(route, queue)
        address = self._standing_in(route, queue, wished)
        try:
            result = await self._ask(route, address, asked)
        except (Unreachable, TimedOut):
            self._away_until[address] = self._session.clock.monotonic() + AWAY_S
            other = self._standing_in(route, queue, wished)
            if other == address:
                raise
            address, result = other, await self._ask(route, other, asked)
        if address != wished and result.status is Pulled.NO_MATCH and result.next_offset == offset:
            raise NoBroker(
                f"{wished} is away, and {address}, which could stand in, may not be read",
                hint="Set slaveReadEnable=true on the slave to read from it meanwhile",
                address=address,
            )
        return result

    def _wished(self, route: Route, queue: MessageQueue) -> str:
        """The suggested replica."""
        address = route.reader(queue.broker_name, self._suggested.get(queue, MASTER_ID))
        if address is None:
            self._session.look_again()
            raise NoBroker(f"broker {queue.broker_name!r} is not there", hint="Is it running (mqadmin clusterList)?")
        return address

    def _standing_in(self, route: Route, queue: MessageQueue, wished: str) -> str:
        """Another one, while that is away and one is there."""
        if not self._is_away(wished):
            return wished
        replicas = route.addresses[queue.broker_name]
        return next((replicas[each] for each in sorted(replicas) if not self._is_away(replicas[each])), wished)

    def _is_away(self, address: str) -> bool:
        until = self._away_until.get(address)
        return until is not None and self._session.clock.monotonic() < until

    async def _ask(self, route: Route, address: str, asked: _Question) -> PullResult:
        queue, offset, wanted, hold_s, commit = asked.queue, asked.offset, asked.wanted, asked.hold_s, asked.commit
        commits = commit is not None and commit >= 0 and address == route.master(queue.broker_name)
        header = PullMessage(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=asked.most,
            sys_flag=(_SUSPEND if hold_s > 0 else 0) | _SUBSCRIPTION | (_COMMIT if commits else 0),
            commit_offset=commit if commits and commit is not None else 0,
            suspend_timeout_millis=round(hold_s * 1000),
            subscription=wanted.expression,
            sub_version=0,
            expression_type=wanted.expression_type,
            max_msg_bytes=PULL_BYTES,
            bname=queue.broker_name,
        )
        answer = await self._session.call(
            address, RequestCode.PULL_MESSAGE, header, timeout_s=hold_s + _ANSWER_S, expected=_EXPECTED
        )
        facts = PullMessageAnswer.from_fields(answer.fields)
        self._suggested[queue] = facts.suggest_which_broker_id or MASTER_ID
        messages = decode_messages(answer.body) if answer.code == ResponseCode.SUCCESS else []
        return PullResult(
            status=Pulled(answer.code),
            messages=[_restored(each) for each in messages if wanted.matches(each)],
            next_offset=offset if facts.next_begin_offset is None else facts.next_begin_offset,
            min_offset=facts.min_offset or 0,
            max_offset=facts.max_offset or 0,
        )

    def forget(self, queue: MessageQueue) -> None:
        self._suggested.pop(queue, None)


def _restored(message: StoredMessage) -> StoredMessage:
    """A message that comes again stands in the group's retry topic; it belongs to its own."""
    if names.is_retry(message.topic) and Property.RETRY_TOPIC in message.properties:
        message.topic = message.properties[Property.RETRY_TOPIC]
    return message
