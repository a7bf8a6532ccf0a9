"""Gathers the trace events of a client, writes them in the background into the trace topic, and finds them again.

The format is Java's. Switched on by `connect(trace=True)`; `traced_work.py` makes the events. Writing never delays or
fails the user's own work: what cannot be kept or written is dropped, counted and logged now and then.
"""

from __future__ import annotations

from collections import deque

from ... import logs
from ...errors import ProtocolError
from ...model.codes import ResponseCode
from ...model.ids import host_text, parse_offset_message_id
from ...model.message_trace import MessageTrace, Traced, stories
from ...model.topic import MASTER_ID
from ...protocol.requests import RequestCode
from ...protocol.trace import answered_events, encode_trace, trace_keys, trace_query
from ..connect.background import Bell, Tasks
from ..connect.session import Session
from ..errors import Error
from ..produce.outgoing import Packing, message_properties, pack
from ..produce.sending import Sender, SendPolicy, SendResult

log = logs.get("pyromq.client")

GROUP = "pyromq_trace"
KEPT_EVENTS = 10_000  # beyond it new ones are dropped
MESSAGE_EVENTS = 100
MESSAGE_BYTES = 100_000  # Java's clients write up to 128,000
KEYS_BYTES = 24_000  # all properties of a message have 32,767
EVENT_BYTES = 200  # of an event without its keys and names, about
WRITE_S = 0.5  # events wait for company so long
STOP_S = 3.0
_FOUND_OR_NOT = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)


class Tracer:
    """Event loop only. Started with the client, stopped after its producers and consumers."""

    def __init__(self, session: Session, topic: str) -> None:
        self.session = session
        self.clock = session.clock
        self.topic = topic
        self._sender = Sender(session, GROUP, SendPolicy(retries=1))
        self._events: deque[Traced] = deque()
        self._few = logs.Limited(log, session.clock)
        self._filled = Bell(session.clock)
        self._tasks = Tasks(lambda fault: log.error("traces are no longer written", fault=repr(fault)))
        self._is_stopping = False
        self.written = 0
        self.lost = 0

    def start(self) -> None:
        self._tasks.start(self._write_on())

    async def stop(self) -> None:
        """Write the traces that are left, if that is quick."""
        self._is_stopping = True
        self._filled.ring()
        try:
            async with self.clock.timeout(STOP_S):
                await self._tasks.finished()
        except TimeoutError:
            log.warning("traces were not written before the end", topic=self.topic, events=len(self._events))
            await self._tasks.cancel()

    def note(self, event: Traced) -> None:
        if len(self._events) >= KEPT_EVENTS:
            self._lose(1, "events come faster than they can be written")
            return
        self._events.append(event)
        if len(self._events) == MESSAGE_EVENTS:
            self._filled.ring()

    def store_host(self, result: SendResult) -> str:
        """Return the master's address; for a topic just made, whose route is unknown, the one in the offset id."""
        known = self.session.known_master(result.queue)
        if known is not None or not result.offset_message_id:
            return known or ""
        try:
            return host_text(parse_offset_message_id(result.offset_message_id).host)
        except ValueError:
            return ""  # a broker with ids of its own

    def _lose(self, events: int, why: str) -> None:
        self.lost += events
        self._few.warning("traces are lost", topic=self.topic, why=why, lost_in_all=self.lost)

    async def _write_on(self) -> None:
        while not self._is_stopping:
            await self._filled.wait(WRITE_S)
            while self._events:
                await self._write(self._next_portion())

    async def _write(self, events: list[Traced]) -> None:
        """Write the traces. One that cannot be written (somebody else chose its keys) takes no other along."""
        try:
            properties = message_properties(self.session.ids.next(), keys=trace_keys(events))
            message = pack(self.topic, encode_trace(events), properties, Packing())
        except (Error, ValueError) as fault:
            if len(events) == 1:
                self._lose(1, str(fault))
                return
            for event in events:
                await self._write([event])
            return
        try:
            await self._sender.send(message)
        except (Error, ProtocolError) as fault:
            self._lose(len(events), str(fault))
        else:
            self.written += len(events)

    def _next_portion(self) -> list[Traced]:
        portion = [self._events.popleft()]
        size, keys = _sizes(portion[0])
        while self._events and len(portion) < MESSAGE_EVENTS:
            more_size, more_keys = _sizes(self._events[0])
            size, keys = size + more_size, keys + more_keys
            if size > MESSAGE_BYTES or keys > KEYS_BYTES:
                break
            portion.append(self._events.popleft())
        return portion


def _sizes(event: Traced) -> tuple[int, int]:
    """Return upper bounds for the sizes of the event's body and keys, in bytes."""
    keys = 4 * len(event.keys) + len(event.message_id) + 2
    return EVENT_BYTES + keys + 4 * (len(event.group) + len(event.region)), keys


# --- finding --------------------------------------------------------------------------------------------------------


async def find_traces(session: Session, trace_topic: str, word: str) -> list[MessageTrace]:
    """Return the traces of the message with this id, or of the messages with this key. Every broker must answer."""
    found = []
    for one in stories(await _events(session, trace_topic, word), word):
        if one.message_id != word:  # not every event of a message names its keys
            one = stories(await _events(session, trace_topic, one.message_id), one.message_id)[0]
        found.append(one)
    return found


async def _events(session: Session, trace_topic: str, word: str) -> list[Traced]:
    query = trace_query(trace_topic, word)
    events: list[Traced] = []
    for replicas in (await session.route(trace_topic)).addresses.values():
        address = replicas.get(MASTER_ID) or next(iter(replicas.values()))
        answer = await session.ask(address, RequestCode.QUERY_MESSAGE, query, expected=_FOUND_OR_NOT)
        if answer.code == ResponseCode.SUCCESS:
            events += answered_events(answer.body)
    return events
