"""The exception tree. Everything that PyroMQ raises on purpose is a PyroError.

PyroError
├── ConfigError            a setting that cannot be used: names key, value and remedy; the daemon does not start
├── ProtocolError          the peer broke the wire format: one log line, the connection is closed
├── RequestRefused         a well-formed request that we will not serve: reply with `code`, keep the connection
│   └── Malformed              the frame is whole, but its fields or its body cannot be read: says which, where and why
└── CallFailed             our own request to a peer did not succeed
    ├── CallTimedOut           no answer in time
    ├── ConnectionLost         the connection could not be made, or ended before the answer
    ├── RequestTooLarge        it is larger than a frame may be: nothing was sent
    └── CallRefused            the peer answered with a code other than the ones we can use; carries it

`transport/dispatch.py` is the only place that turns an exception into a response code.
"""

from __future__ import annotations

SYSTEM_ERROR = 1  # model.codes.ResponseCode.SYSTEM_ERROR; spelled here because errors import nothing


class PyroError(Exception):
    """Root of all errors raised on purpose."""


class ConfigError(PyroError):
    """A setting that cannot be used. The text names the key, the value and what to do."""


class ProtocolError(PyroError):
    """The peer broke the wire format: log it, close the connection."""


class RequestRefused(PyroError):
    """A well-formed request we will not serve: reply with `code`, keep the connection.

    `fields` go along where clients read them from refusals too.
    """

    def __init__(self, remark: str, code: int = SYSTEM_ERROR, fields: dict[str, str] | None = None) -> None:
        super().__init__(remark)
        self.code = code
        self.fields = fields or {}


class Malformed(RequestRefused):
    """A whole frame whose fields or body cannot be read. Servers reply with it, clients report the peer."""


class CallFailed(PyroError):
    """Our own request to a peer did not succeed."""

    was_sent = False  # True: it was written, so that the peer may have acted on it


class CallTimedOut(CallFailed):
    """No answer within the time allowed. Whether the peer acted on it is unknown."""


class ConnectionLost(CallFailed):
    """The connection could not be made, or ended before the answer came.

    `hint`: what to do, where the way it ended tells. Empty: nothing is known but that nobody answers.
    """

    def __init__(self, text: str, *, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint


class RequestTooLarge(CallFailed):
    """Larger than a frame may be. Nothing was sent, and the connection stays."""


class CallRefused(CallFailed):
    """The peer answered, but not with success."""

    def __init__(self, code: int, remark: str | None, address: str = "") -> None:
        super().__init__(f"{address or 'peer'} answered code {code}: {remark or 'no remark'}")
        self.code = code
        self.remark = remark
