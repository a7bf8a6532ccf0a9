"""Failed attempts of one consumer, or of one producer's checks: what counts as outcome, and their lines in the log.

The consume services call it for each message that a handler could not deal with, before they act on it. An error of a
new kind (type and place) gets its whole traceback; after it one short line in five seconds, which counts the others.
"""

from __future__ import annotations

from ... import logs
from ...ambient import Clock
from ...protocol.messages import UnreadableMessage
from ..consume.options import UndecodableWay
from ..core.retry import Reject, RetryLater, reason_of
from ..received import Received
from . import places

log = logs.get("pyromq.client")

MOST_KINDS = 1024
DEAD, DROPPED = "dead letter", "dropped"  # what becomes of a message that nobody handles again


class Failures:
    """Event loop only. One per consumer."""

    def __init__(
        self, group: str, clock: Clock, undecodable_way: UndecodableWay, event: str = "handler failed"
    ) -> None:
        self._group = group
        self._event = event
        self._way = undecodable_way
        self._few = logs.Limited(log, clock)
        self._kinds: set[str] = set()

    def outcome(self, received: Received, fault: Exception) -> Exception | None:
        """Return what counts: a body that cannot be decoded is rejected or skipped, unless it is to be retried."""
        if fault is not received.undecodable or self._way == "retry":
            return fault
        if self._way == "skip":
            self.log(received, fault, "skipped")
            return None
        rejection = Reject(f"the body cannot be decoded: {reason_of(fault)}")
        rejection.__cause__ = fault
        return rejection

    def log(self, received: Received, fault: Exception, then: str) -> None:
        """Log the failure; `then` says what becomes of the message. Records that nobody can read are named before."""
        if isinstance(received.message, UnreadableMessage):
            return
        place, cause = places.of_fault(fault), received.undecodable
        is_undecodable = cause is not None and (fault is cause or fault.__cause__ is cause)
        fields: dict[str, object] = {"group": self._group, "topic": received.topic, "id": received.id}
        fields |= {"attempt": received.attempt, "then": then} | ({"at": place} if place else {})
        fields["fault"] = reason_of(fault) if isinstance(fault, Reject) else repr(fault)
        if isinstance(fault, RetryLater) and then not in (DEAD, DROPPED):
            log.debug("the handler wants the message later", **fields)
            return
        is_short = isinstance(fault, Reject) or is_undecodable or fault.__traceback__ is None
        is_short |= isinstance(fault, TimeoutError) and not place  # of a thread: the text has the place
        words = str(fault) if is_short and not is_undecodable else ""
        kind = f"{type(fault).__name__} {place} {words}"
        if not is_short and self._is_new(kind):
            log.traceback(self._event, fault, places.without_sdk(fault.__traceback__), **fields)
        elif self._few.lets_through(kind, fields):
            log.warning("message rejected" if isinstance(fault, Reject) else self._event, **fields)
        else:
            log.debug(self._event, **fields)

    def _is_new(self, kind: str) -> bool:
        if kind in self._kinds:
            return False
        if len(self._kinds) >= MOST_KINDS:
            self._kinds.clear()
        self._kinds.add(kind)
        return True
