"""What a pop brought: each record with the receipt of its message. Pure."""

from __future__ import annotations

from typing import NamedTuple

from ...model.message import Property
from ...model.receipt import NORMAL, BadReceipt, Receipt, decode_receipt
from ...model.wire_text import INT_MAX, whole_number
from ...protocol.command import Command
from ...protocol.headers.pop import PopMessageAnswer
from ...protocol.properties import find_property
from ...protocol.record import Record, decode_record, framed_bytes

_CHECK_POINT = Property.POP_CK.encode()
_TAGS = Property.TAGS.encode()


class Popped(NamedTuple):
    """One message. `receipt` has its place in the log too."""

    record: Record
    receipt: Receipt

    @property
    def tag(self) -> str:
        return (find_property(self.record.properties, _TAGS) or b"").decode("utf-8", "replace")


def records_of(body: bytes | memoryview) -> list[Record]:
    """Return the records of an answer. RecordError (a ProtocolError) says what is wrong with them."""
    raw = bytes(body)
    found: list[Record] = []
    at = 0
    while at < len(raw):
        end = at + framed_bytes(raw, at)
        found.append(decode_record(raw[at:end], verify=False))
        at = end
    return found


def popped(answer: Command, broker: str) -> list[Popped]:
    """Return the messages of a pop that found some."""
    header = PopMessageAnswer.from_fields(answer.fields)
    starts = {(mark, queue): offset for mark, queue, offset in _entries(header.start_offset_info)}
    counts = {(mark, place): number for mark, place, number in _entries(header.order_count_info)}
    found: list[Popped] = []
    for record in records_of(answer.body):
        receipt = own_receipt(record) or _made_receipt(header, starts, record, broker)
        if counts:
            place = f"qo{record.queue_id}%{record.queue_offset}"
            times = counts.get((NORMAL, place), counts.get((NORMAL, str(record.queue_id)), "0"))
            record.reconsume_times = whole_number(times, high=INT_MAX) or record.reconsume_times
        found.append(Popped(record, receipt._replace(position=record.physical_offset)))
    return found


def _entries(text: str | None) -> list[tuple[str, str, str]]:
    parts = (part.split(" ") for part in (text or "").split(";") if part)
    return [(one[0], one[1], one[2]) for one in parts if len(one) == 3]


def own_receipt(record: Record) -> Receipt | None:
    """Return the receipt that the broker wrote into a record: it does so where it comes from a retry topic."""
    text = find_property(record.properties, _CHECK_POINT)
    if text is None:
        return None
    try:
        return decode_receipt(text.decode("utf-8", "replace"))
    except BadReceipt:
        return None


def _made_receipt(header: PopMessageAnswer, starts: dict[tuple[str, str], str], record: Record, broker: str) -> Receipt:
    start = whole_number(starts.get((NORMAL, str(record.queue_id)), ""))
    return Receipt(
        start=record.queue_offset if start is None else start,
        pop_time=header.pop_time,
        invisible_ms=header.invisible_time,
        revive_queue=header.revive_qid,
        retry=NORMAL,
        broker=broker,
        queue_id=record.queue_id,
        offset=record.queue_offset,
    )
