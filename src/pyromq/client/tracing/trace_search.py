"""Finding traces: every broker of the trace topic is asked by message id or key, and the answers become stories."""

from __future__ import annotations

from ...model.codes import ResponseCode
from ...model.message_trace import MessageTrace, Traced, stories
from ...model.route import MASTER_ID
from ...protocol.requests import RequestCode
from ...protocol.trace import answered_events, trace_query
from ..connect.session import Session

_ANSWERS = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)


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
        answer = await session.ask(address, RequestCode.QUERY_MESSAGE, query, expected=_ANSWERS)
        if answer.code == ResponseCode.SUCCESS:
            events += answered_events(answer.body)
    return events
