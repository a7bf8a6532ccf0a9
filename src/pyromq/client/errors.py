"""What goes wrong for users of the SDK. Each error says what happened, where, and what to do.

Each is an `Error` with `code` (the broker's answer, or None), `address` (of whom, or "") and `hint` (what to do).
`may_be_stored` of a failed send says whether a broker may have the message all the same.
`Reject` and `RetryLater` (core/retry.py) are no errors of ours: handlers raise them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..errors import CallFailed, ConnectionLost, PyroError
from ..model.codes import ResponseCode
from ..model.wire_text import whole_number

if TYPE_CHECKING:
    from ..protocol.bodies.keyed import MessageQueue
    from ..protocol.messages import UnreadableMessage


class Error(PyroError):
    """Root of what the SDK raises."""

    def __init__(
        self, text: str, *, hint: str = "", address: str = "", code: int | None = None, may_be_stored: bool = False
    ) -> None:
        super().__init__(f"{text}. {hint}" if hint else text)
        self.hint = hint
        self.address = address
        self.code = code
        self.may_be_stored = may_be_stored


class NoNameServer(Error, CallFailed):
    """No name server answered: nothing is known about brokers."""

    is_explained = False  # the hint is not whether one runs: the way connections ended told more


class TopicNotFound(Error):
    """The name servers know no such topic; names close to it are in the text."""


class NoBroker(Error, CallFailed):
    """The topic is known, but no broker that serves it can be used. A message was not stored."""


class Unreachable(Error, CallFailed):
    """A program could not be reached, or the connection ended before its answer; a message may be stored then."""

    is_explained = False  # as of NoNameServer


class TimedOut(Error, CallFailed):
    """No answer came in time; a message may have been stored all the same."""


class Refused(Error):
    """A broker answered with an error code."""

    remark = ""  # its own words
    retry_after_ms = ""  # its field of this name

    @property
    def retry_after_s(self) -> float | None:
        """Return after how long the broker will take it, as it says of what is beyond a quota; None: it says nothing.

        Over gRPC it stands in its words alone."""
        said = _AGAIN.search(self.remark)
        ms = whole_number(self.retry_after_ms or (said[1] if said else None), low=0)
        return None if ms is None else ms / 1000


class SubscriptionConflict(Refused):
    """A broker has refused a consumer, since another member of its group subscribes to something else.

    The text names both clients, with their addresses, and both subscriptions.
    """


class BadAnswer(Error):
    """A peer answered what cannot be read. Whether it acted is not known."""


class BadMessage(Error):
    """The message cannot be sent as it is; nothing was sent."""


class Unreadable(Error):
    """A record that nobody can read stands next in a queue; `seek(fault.queue, fault.next_offset)` goes on behind it.

    `position` is its byte place in the commit log of its broker, -1 where that is not known.
    """

    def __init__(
        self, text: str, *, hint: str, queue: MessageQueue, message: UnreadableMessage, next_offset: int
    ) -> None:
        super().__init__(text, hint=hint)
        self.queue = queue
        self.offset = message.queue_offset
        self.next_offset = next_offset
        self.position = message.physical_offset
        self.id = message.message_id
        self.cause = message.fault


class ReceiptExpired(Error):
    """The invisible time of a popped message was over: it comes again, and an acknowledgement would not count."""


class NotSupported(Error):
    """This client, or this broker, cannot do that yet."""


class Closed(Error):
    """The client, producer or consumer is not started, or stopped."""


_AGAIN = re.compile(r"\btry again in ([0-9]{1,18}) ms")
_HINTS: dict[int, str] = {
    ResponseCode.SYSTEM_BUSY: "The broker has more work than it can take: send less, or add brokers",
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: "This broker does not serve such requests: a newer one may",
    ResponseCode.SERVICE_NOT_AVAILABLE: "The broker stops, starts, or its disk is full: see its log",
    ResponseCode.NO_PERMISSION: "Check the permissions of topic and broker (mqadmin topicRoute, updateTopicPerm)",
    ResponseCode.TOPIC_NOT_EXIST: "Who has the right Create on the topic makes it: pyromq topic create TOPIC",
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: "Create the group: mqadmin updateSubGroup",
}
# By what servers with users say of it: docs/access.md.
_ACCESS_HINTS = {
    "permission to access": "An administrator may allow it: pyromq acl create USER RESOURCE --allow ACTION",
    "username cannot be null": "Say who you are: PYROMQ_ACCESS_KEY and PYROMQ_SECRET_KEY, access_key and secret_key of "
    "connect(), or a profile with keys",
    "check signature failed": "Is that the user's secret, as it is now?",
    "is not found": "Administrators see the users: pyromq user list",
    "is disabled": "Administrators see the users: pyromq user list",
}


def unreachable(fault: ConnectionLost, address: str, hint: str) -> Unreachable:
    """Return the error of a lost connection; `hint` counts where the fault has none of its own."""
    error = Unreachable(str(fault), hint=fault.hint or hint, address=address, may_be_stored=fault.was_sent)
    error.is_explained = bool(fault.hint)
    return error


def refused(code: int, remark: str | None, address: str, hint: str | None = None) -> Refused:
    """Return the error of an answer other than success. The hint is the code's, unless the caller knows better."""
    try:
        name = ResponseCode(code).name
    except ValueError:
        name = "an unknown code"
    text = f"{address} answered {code} ({name}): {(remark or 'no remark').strip()}"
    if hint is None:
        hint = _hint_of(code, remark or "")
    error = Refused(text.rstrip("."), hint=hint, address=address, code=code)
    error.remark = remark or ""
    return error


def _hint_of(code: int, remark: str) -> str:
    if code == ResponseCode.NO_PERMISSION:
        for said, hint in _ACCESS_HINTS.items():
            if said in remark:
                return hint
    if code == ResponseCode.SYSTEM_BUSY and (remark.startswith("[QUOTA]") or _AGAIN.search(remark)):
        return "That is a quota: send less, or have it raised (pyromq quota list, pyromq quota set)"
    return _HINTS.get(code, "")
