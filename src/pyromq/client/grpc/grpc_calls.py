"""Calls of `apache.rocketmq.v2.MessagingService` by one member, and its refusals as errors of the SDK."""

from __future__ import annotations

import hmac
import re
from datetime import UTC, datetime
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from ...ambient import Clock
from ...errors import ConnectionLost
from ...model.codes import ResponseCode
from ...model.foreign_text import shell_word
from ...protocol.bodies.own import ALIKE
from ...protocol.grpc import v2
from ...protocol.grpc.status import GrpcStatus
from ...transport.http2.calls import GrpcError
from ...transport.http2.client import Http2Client
from ...transport.http2.client_connection import ClientCall
from ..config import ClientConfig
from ..connect.answers import bad_answer
from ..connect.heartbeats import CONFLICT_HINT
from ..errors import (
    Error,
    NoBroker,
    NotSupported,
    ReceiptExpired,
    Refused,
    SubscriptionConflict,
    TimedOut,
    TopicNotFound,
    Unreachable,
    unreachable,
)

SERVICE = "/apache.rocketmq.v2.MessagingService/"
VERSION = "5.1.2"  # of the protocol's clients; proxies compare it with 5.0.3
# Answers that mean the same as a broker's: sends are repeated after these.
_AS_CODES = {
    v2.Code.TOO_MANY_REQUESTS: ResponseCode.SYSTEM_BUSY,
    v2.Code.INTERNAL_ERROR: ResponseCode.SYSTEM_ERROR,
    v2.Code.INTERNAL_SERVER_ERROR: ResponseCode.SYSTEM_ERROR,
    v2.Code.HA_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
    v2.Code.CONSUMER_GROUP_NOT_FOUND: ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    v2.Code.FORBIDDEN: ResponseCode.NO_PERMISSION,
}
_AWAY = "cannot find broker"  # of a receipt whose time may not be over at all
# Java's classes, before what its servers and ours say: of no use to anybody who uses this SDK. `remark` has them.
_CLASS = re.compile(r"^(?:[a-z]\w*\.){2,}[A-Z]\w*: ")
_NO_ROUTE = "for the topic: "
_FAQ = "\nFor more information"  # Java's list of questions
_NO_ENDPOINT = (
    "Is a gRPC endpoint running there? `endpoints` is the gRPC port of a broker or proxy (8081), not a name server; "
    "one that takes TLS alone wants tls=pyromq.ClientTls()"
)
_HINTS: dict[int, str] = {
    v2.Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE: (
        "Send it to a topic of its own type (pyromq topic create NAME --type ...): delay and deliver_at_ms make a "
        "DELAY message, order_key a FIFO one, transactions TRANSACTION, priority PRIORITY, else it is NORMAL"
    ),
    v2.Code.ILLEGAL_DELIVERY_TIME: (
        "The limit is in milliseconds: maxDelayTimeMills of the endpoint, and timerMaxDelaySec of its brokers"
    ),
}
_TIMEOUTS = (v2.Code.REQUEST_TIMEOUT, v2.Code.PROXY_TIMEOUT)

M = TypeVar("M", bound=Message)


class GrpcCalls:
    """Event loop only. One per member of a client; `http` is shared by all of them."""

    def __init__(self, client_id: str, config: ClientConfig, clock: Clock, http: Http2Client) -> None:
        self._client_id = client_id
        self._config = config
        self._clock = clock
        self._http = http

    async def ask(self, address: str, method: str, request: Message, answer: type[M], timeout_s: float) -> M:
        """Return the answer, whatever its status says. Unreachable, TimedOut, NotSupported, BadAnswer."""
        packed, metadata = request.SerializeToString(), self.metadata().items()
        try:
            got = await self._http.call(address, SERVICE + method, packed, metadata, timeout_s=timeout_s)
            return answer.FromString(got)
        except (GrpcError, ConnectionLost) as fault:
            raise grpc_fault(address, method, fault) from None
        except DecodeError as fault:
            raise bad_answer(address, str(fault)) from None

    async def begin(self, address: str, method: str, timeout_s: float | None = None) -> ClientCall:
        try:
            return await self._http.open(address, SERVICE + method, self.metadata().items(), timeout_s=timeout_s)
        except (GrpcError, ConnectionLost) as fault:
            raise grpc_fault(address, method, fault) from None

    def metadata(self) -> dict[str, str]:
        moment = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
        found = {
            "x-mq-client-id": self._client_id,
            "x-mq-language": "PYTHON",
            "x-mq-client-version": VERSION,
            "x-mq-protocol": "v2",
            "x-mq-date-time": moment,
        }
        if self._config.access_key:
            signature = hmac.new(self._config.secret_key.encode(), moment.encode(), "sha1").hexdigest()
            found["authorization"] = (
                f"MQv2-HMAC-SHA1 Credential={self._config.access_key}, SignedHeaders=x-mq-date-time, "
                f"Signature={signature.upper()}"
            )
            if self._config.security_token:
                found["x-mq-session-token"] = self._config.security_token
        return found


def check_status(address: str, status: v2.Status) -> None:
    """Raise what an answer other than OK says."""
    if status.code != v2.Code.OK:
        raise status_fault(address, status)


def status_fault(address: str, status: v2.Status) -> Error:
    code = status.code
    try:
        name = v2.Code(code).name
    except ValueError:
        name = "an unknown code"
    said = _CLASS.sub("", status.message.strip())
    text = f"{address} answered {code} ({name}): {said}".rstrip(".: ")
    if code == v2.Code.TOPIC_NOT_FOUND:
        topic = said.partition(_NO_ROUTE)[2].partition("\n")[0].strip()
        text = text.partition(_FAQ)[0]
        create = f"Create it: pyromq topic create {shell_word(topic) if topic else 'NAME'} --type normal"
        return TopicNotFound(text, hint=create, address=address, code=code)
    if code == v2.Code.INVALID_RECEIPT_HANDLE and _AWAY in status.message:
        return NoBroker(text, hint="It may be away for a while: try again", address=address, code=code)
    if code == v2.Code.INVALID_RECEIPT_HANDLE:
        return ReceiptExpired(text, hint="Give it more time: invisible_s, or `later` while you work on it", code=code)
    if code in _TIMEOUTS:
        return TimedOut(text, address=address, code=code, may_be_stored=True)
    if ALIKE in status.message:
        return SubscriptionConflict(text, hint=CONFLICT_HINT, address=address, code=code)
    as_broker = _AS_CODES.get(v2.Code(code), code) if name[0] != "a" else code
    fault = Refused(text, hint=_HINTS.get(code, ""), address=address, code=as_broker)
    fault.remark = status.message
    return fault


def grpc_fault(address: str, method: str, fault: GrpcError | ConnectionLost) -> Error:
    """Return the SDK's error for a call that ended with a status of gRPC itself, or with its connection."""
    if isinstance(fault, ConnectionLost):
        return unreachable(fault, address, _NO_ENDPOINT)
    text = f"{method} at {address}: {fault.text or fault.status.name}"
    if fault.status is GrpcStatus.DEADLINE_EXCEEDED:
        return TimedOut(text, hint="Is the server overloaded?", address=address, may_be_stored=True)
    if fault.status in (GrpcStatus.UNAVAILABLE, GrpcStatus.CANCELLED):
        return Unreachable(text, hint=_NO_ENDPOINT, address=address, may_be_stored=True)
    if fault.status is GrpcStatus.UNIMPLEMENTED:
        return NotSupported(text, hint="This endpoint does not serve it", address=address)
    return Refused(text, address=address)
