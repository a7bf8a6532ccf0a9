"""Single messages: found by key, id or place; read out of a queue; their life, and dead letters."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from .. import logs
from ..client.connect.answers import Answer
from ..model.codes import ResponseCode
from ..model.message import StoredMessage
from ..protocol.bodies.own import members
from ..protocol.headers.admin import DeadLettersRequest, MessageLifeRequest
from ..protocol.headers.pull import PullMessage, QueryMessage, ViewMessage
from ..protocol.headers.send import ResumeCheckHalfMessage
from ..protocol.messages import ReadMessages, read_messages
from ..protocol.pulls import PULL_CODES, PullAnswer, Pulled, PullFlag
from ..protocol.requests import RequestCode
from .calls import Calls

log = logs.get("pyromq.admin")

TOOLS_GROUP = "TOOLS_CONSUMER"  # a group of the system: reading as it leaves no trace
PAGE = 32  # what brokers give at most, unless they are asked for less
GIVEN_UP = "given up"  # the state, in its life, of a message whose transaction nobody decided
FOR_EVER_MS = (1 << 63) - 1
_NOTHING = (ResponseCode.QUERY_NOT_FOUND, ResponseCode.NO_MESSAGE, ResponseCode.TOPIC_NOT_EXIST)


async def by_key(
    calls: Calls,
    address: str,
    topic: str,
    key: str,
    *,
    most: int = 64,
    begin_ms: int = 0,
    end_ms: int = FOR_EVER_MS,
    is_id: bool = False,
    index_type: str | None = None,
    last_key: str | None = None,
) -> list[StoredMessage]:
    """Return the messages that the index has under this key, or unique id. Keys share hashes: the caller compares."""
    header = QueryMessage(
        topic=topic,
        key=key,
        max_num=most,
        begin_timestamp=begin_ms,
        end_timestamp=end_ms,
        index_type=index_type,
        last_key=last_key,
        unique_key_query=True if is_id else None,
    )
    answer = await calls.ask(address, RequestCode.QUERY_MESSAGE, header, known=_NOTHING)
    return _messages(answer).messages if answer.code == ResponseCode.SUCCESS else []


async def at_position(calls: Calls, address: str, position: int, topic: str | None = None) -> StoredMessage | None:
    """Return the message at a place of the commit log (an offset id names broker and place), None if there is none."""
    header = ViewMessage(topic=topic, offset=position)
    known = (ResponseCode.SYSTEM_ERROR, *_NOTHING)  # Java's own answer to a wrong place is 1
    answer = await calls.ask(address, RequestCode.VIEW_MESSAGE_BY_ID, header, known=known)
    found = _messages(answer).messages if answer.code == ResponseCode.SUCCESS else []
    return found[0] if found else None


@dataclass(frozen=True, slots=True)
class Page:
    """A stretch of a queue. `next_offset` is where to go on; the queue has ended if it is not below `end`."""

    messages: list[StoredMessage]
    next_offset: int
    first: int
    end: int


async def read_queue(
    calls: Calls,
    address: str,
    topic: str,
    queue_id: int,
    offset: int,
    *,
    most: int = PAGE,
    tags: str = "*",
    group: str = TOOLS_GROUP,
) -> Page:
    """Pull a page, without waiting and without a commit."""
    header = PullMessage(
        consumer_group=group,
        topic=topic,
        queue_id=queue_id,
        queue_offset=offset,
        max_msg_nums=most,
        sys_flag=PullFlag.SUBSCRIPTION,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription=tags,
        sub_version=0,
        expression_type="TAG",
    )
    answer = await calls.ask(address, RequestCode.PULL_MESSAGE, header, known=PULL_CODES)
    pulled = PullAnswer.of(answer.code, answer.header, offset)
    next_offset, found = pulled.next_offset, ReadMessages([], [])
    if pulled.status is Pulled.FOUND:
        found = _messages(answer)
        if found.broken:  # what is behind it comes with the next page; alone it is passed over
            next_offset = min(next_offset, max(found.behind, offset + 1))
    return Page(found.messages, next_offset, pulled.min_offset, pulled.max_offset)


async def pages(
    calls: Calls, address: str, topic: str, queue_id: int, first: int, end: int, *, tags: str = "*"
) -> AsyncIterator[Page]:
    """Yield the queue's messages from `first` up to `end`, page by page. A damaged record is passed over."""
    at = first
    while at < end:
        page = await read_queue(calls, address, topic, queue_id, at, most=min(PAGE, end - at), tags=tags)
        at = max(at + 1, min(page.next_offset, end))
        yield Page([each for each in page.messages if each.queue_offset < end], at, page.first, page.end)


def _messages(answer: Answer[Any, bytes]) -> ReadMessages:
    """Return the messages; those that cannot be read have their bodies as stored, and are logged."""
    found = read_messages(answer.body)
    for each in found.unreadable:
        log.warning(
            "a message cannot be read, its body is shown as it is stored",
            id=each.message_id,
            position=each.physical_offset,
            fault=each.fault,
        )
    if found.broken:
        log.warning("an answer breaks off", read=len(found.messages), fault=found.broken)
    return found


async def life(calls: Calls, address: str, topic: str, message_id: str) -> dict[str, Any] | None:
    """Ask one of our brokers where a message has been. None if it does not know it; Refused by Apache's."""
    header = MessageLifeRequest(topic=topic, id=message_id)
    found = (await calls.ask(address, RequestCode.MESSAGE_LIFE, header, known=_NOTHING)).body_or_none
    return None if found is None else members(found)


async def check_again(calls: Calls, address: str, offset_id: str) -> None:
    """Let the broker ask anew how a transaction ended that it has given up. Refused for any other message."""
    await calls.ask(address, RequestCode.RESUME_CHECK_HALF_MESSAGE, ResumeCheckHalfMessage(msg_id=offset_id))


async def dead_letters(calls: Calls, address: str, group: str | None = None, most: int = 100) -> dict[str, Any] | None:
    """Ask one of our brokers for the groups that have some, or for those of one (None: it has none). Not Apache's."""
    header = DeadLettersRequest(group=group, max_num=most)
    found = (await calls.ask(address, RequestCode.DEAD_LETTERS, header, known=_NOTHING)).body_or_none
    return None if found is None else members(found)
