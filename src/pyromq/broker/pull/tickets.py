"""A pull on its way: what it asked for, within which limits, and its response code. `handler.py` works on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from ...model.codes import ResponseCode
from ...model.topic import MASTER_ID
from ...protocol.frame import decode_frames
from ...protocol.headers.pull import PullMessage, PullMessageAnswer
from ...store.log.reader import GetStatus, Selection
from ...transport.dispatch import Reply, Request, RequestOf
from ...transport.peer import FramePeer
from ..config import BrokerConfig
from ..reading.filtered_read import Search
from .checks import Allowed


@dataclass(slots=True)
class Ticket:
    """A pull in work: what is needed to search, also again, and to answer."""

    request: Request
    header: PullMessage
    allowed: Allowed
    dismissals: int  # of all pulls until this one was judged
    begun: float = 0.0  # when the search that is under way began

    @property
    def size(self) -> int:
        """Return the size of the request, about: all its fields are kept, also those that nobody reads."""
        fields = self.request.command.fields
        return sum(map(len, fields)) + sum(map(len, fields.values()))


@dataclass(slots=True)
class KernelTicket:
    """A pull that a kernel took and found nothing for. It is decoded only if the kernel cannot answer it after all."""

    connection: FramePeer
    frame: bytes
    allowed: Allowed
    answer_from: Callable[[int], bytes | None]  # an offset -> the kernel's answer, if it has one
    on_answer: Callable[[Reply], None] | None = None  # hears of one that the kernel did not make

    @property
    def size(self) -> int:
        return len(self.frame)

    def decoded(self, dismissals: int) -> Ticket:
        request: Request = RequestOf(decode_frames(self.frame)[0][0], self.connection, on_answer=self.on_answer)
        return Ticket(request, request.header, self.allowed, dismissals)


AnyTicket: TypeAlias = Ticket | KernelTicket


def limits_of(header: PullMessage, config: BrokerConfig) -> tuple[int, int]:
    """Return the most messages and bytes of one pull; the first message is given whatever its size."""
    if header.consumer_group in config.large_pull_groups:
        count, size = config.large_pull_count, config.large_pull_bytes
    else:
        count = config.max_transfer_count_on_message_in_memory
        size = config.max_transfer_bytes_on_message_in_memory
    wanted = header.max_msg_bytes
    return max(1, min(header.max_msg_nums, count)), size if wanted is None or wanted <= 0 else min(wanted, size)


def search_of(ticket: Ticket, offset: int, config: BrokerConfig) -> Search:
    count, size = limits_of(ticket.header, config)
    return Search(ticket.header.topic, ticket.header.queue_id, offset, count, size)


def code_of(status: GetStatus, offset: int) -> ResponseCode:
    if status in (GetStatus.NO_MATCHED_LOGIC_QUEUE, GetStatus.NO_MESSAGE_IN_QUEUE):
        return ResponseCode.PULL_NOT_FOUND if offset == 0 else ResponseCode.PULL_OFFSET_MOVED
    return {
        GetStatus.FOUND: ResponseCode.SUCCESS,
        GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
        GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    }.get(status, ResponseCode.PULL_OFFSET_MOVED)


def reply_to(
    ticket: Ticket, code: int, remark: str, selection: Selection, body: bytes = b"", suggested: int = MASTER_ID
) -> Reply:
    header = PullMessageAnswer(
        suggest_which_broker_id=suggested,
        next_begin_offset=selection.next_offset,
        min_offset=selection.min_offset,
        max_offset=selection.max_offset,
        topic_sys_flag=ticket.allowed.topic.topic_sys_flag,
        group_sys_flag=ticket.allowed.group.group_sys_flag,
    )
    return Reply(code, remark=remark, header=header, body=body)
