"""The broker's side of quotas in a kernel: who draws from which buckets, and what is said beyond one.

Implements `kernel.quotas.QuotaHost`. The buckets are those of the gate of the handlers: whoever serves a request, it is
counted once. What a kernel cannot count (connections, stored bytes) is looked at here when an allowance is given, and
an allowance that depends on it holds for a second. Event loop only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import cast

from ...ambient import Clock
from ...kernel import state
from ...kernel.quotas import OPAQUE, USED, WAIT, RefusalText
from ...kernel.seam import FeedConnection
from ...kernel.state import Allowance, Allowances, Bucket, time_source
from ...model.message import Property
from ...protocol.command import Command, Encoding, encode_header
from ...protocol.requests import RequestCode
from ...transport.dispatch import Reply
from ...transport.peer import FramePeer
from .gate import QuotaGate
from .held import HeldRefusals
from .limits import READING, SENDING, Limit
from .quotas import Quotas
from .refusal import BeyondQuota, said
from .scopes import RequestScope, host_of
from .use import QuotaUse

_CHECKED = {Limit.CONNECTIONS, Limit.STORED_BYTES}
_CHECKED_S = 1.0
_HALVES = (Property.TRAN_MSG.encode(),)  # what of them there are is read from the log: Python's
_OPAQUE = 1_999_999_999  # stands for the request's own in a template
_OPAQUE_MARK = b'(?<="opaque":)%d' % _OPAQUE  # of a JSON header: within its texts each quote is escaped
_PRIVATE = range(0xE000, 0xF900)  # characters for marks: more than names have
_REMARK_AT = 13  # of a binary header


class QuotaVerdicts:
    """`kernel` is what the feeds of all listeners are held to."""

    def __init__(self, quotas: Quotas, gate: QuotaGate, clock: Clock) -> None:
        self._quotas = quotas
        self._gate = gate
        self._clock = clock
        self._held = HeldRefusals(clock)
        self.kernel: Allowances = state.Allowances(self, time_source(clock))
        quotas.watch(self._changed)
        self._changed()

    def _changed(self) -> None:
        self.kernel.is_on = self._quotas.judge_traffic

    # --- what a kernel asks ---------------------------------------------------------------------------------------

    def allowance(self, address: str, user: str, topic: str, group: str) -> Allowance | None:
        scope = RequestScope(user, host_of(address), address, topic, group)
        uses, until = list(self._gate.uses(scope)), math.inf
        sends: list[Bucket] | None = _buckets(uses, SENDING)
        if any(not _CHECKED.isdisjoint(use.limits) for use in uses):
            until = self._clock.monotonic() + _CHECKED_S
            try:
                self._gate.check_connections(uses, scope)
            except BeyondQuota:
                return None
            try:
                self._gate.check_waiting(uses, scope)
            except BeyondQuota:
                sends = None
        aside = _HALVES if any(Limit.HALF_MESSAGES in use.limits for use in uses) else ()
        return state.Allowance(self._quotas.changes, until, sends, _buckets(uses, READING), aside)

    def text_of(self, of: object) -> RefusalText:
        use, limit = cast(tuple[QuotaUse, Limit], of)
        used_mark, wait_mark = _absent_from(use.owner.name)
        refusal = said(use, limit, used_mark, wait_mark if use.limits[limit] > 0 else None)
        reply = Reply(refusal.code, remark=str(refusal), fields=refusal.fields)

        def header(encoding: Encoding) -> bytes:
            request = Command(code=RequestCode.SEND_MESSAGE_V2, opaque=_OPAQUE, encoding=encoding)
            return encode_header(reply.to_command(request))

        marks = {used_mark.encode(): USED, wait_mark.encode(): WAIT}
        json, json_slots = _cut(header(Encoding.JSON), marks, _OPAQUE_MARK)
        remark, remark_slots = _cut(str(refusal).encode(), marks)
        field = next(iter(refusal.fields), "").encode()
        return RefusalText(json, json_slots, header(Encoding.ROCKETMQ)[:_REMARK_AT], remark, remark_slots, field)

    def refuse(self, connection: FeedConnection, answers: bytes) -> None:
        self._held.add(cast(FramePeer, connection), answers)


def _buckets(uses: Iterable[QuotaUse], which: Iterable[Limit]) -> list[Bucket]:
    """Return these buckets in the order in which the gate looks at them."""
    return [use.buckets[limit] for use in uses for limit in Limit if limit in which and limit in use.buckets]


def _absent_from(name: str) -> tuple[str, str]:
    """Return two marks that are not in a name, which a client may have chosen."""
    free = (chr(each) for each in _PRIVATE if chr(each) not in name)
    return next(free), next(free)


def _cut(text: bytes, marks: dict[bytes, int], opaque: bytes = b"") -> tuple[list[bytes], list[int]]:
    """Return the pieces around the values, and which value follows each. `opaque`: a pattern of that value."""
    pieces, slots, at = [], [], 0
    for found in re.finditer(b"|".join([*marks, opaque] if opaque else marks), text):
        pieces.append(text[at : found.start()])
        slots.append(marks.get(found.group(), OPAQUE))
        at = found.end()
    return [*pieces, text[at:]], slots
