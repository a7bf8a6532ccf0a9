"""Status of every answer: from a refusal of ours, a broker's code, or a failure. Here alone an exception becomes one.

Application errors are the Status inside an answer whose gRPC status is OK; texts and codes are those of Java's proxy,
without its stack traces.
"""

from __future__ import annotations

from .. import logs
from ..errors import CallTimedOut, PyroError, RequestRefused
from ..model.codes import ResponseCode
from ..protocol.command import Command
from ..protocol.grpc import v2
from ..protocol.grpc.v2 import Code

log = logs.get("pyromq.proxy")

# Java's proxy puts the name of its class before what its own services refuse; clients and their users search for it.
_OWN = "org.apache.rocketmq.proxy.common.ProxyException: "
_FAQ = "\nFor more information, please visit the url, https://rocketmq.apache.org/docs/bestPractice/06FAQ"

_NO_QUEUE = "queueId["  # in the remark of ours and of Apache's broker, whose code says no more than "parameter"

_BY_BROKER = {
    ResponseCode.SUCCESS: Code.OK,
    ResponseCode.SYSTEM_BUSY: Code.TOO_MANY_REQUESTS,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: Code.NOT_IMPLEMENTED,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: Code.CONSUMER_GROUP_NOT_FOUND,
    ResponseCode.TOPIC_NOT_EXIST: Code.TOPIC_NOT_FOUND,
    2017: Code.LITE_TOPIC_QUOTA_EXCEEDED,
    2018: Code.LITE_SUBSCRIPTION_QUOTA_EXCEEDED,
}


class Denied(PyroError):
    """An answer other than OK: its code, and the text that the client sees."""

    def __init__(self, code: Code, text: str = "") -> None:
        super().__init__(text or code.name)
        self.code = code


def refused(code: Code, text: str) -> Denied:
    """Return what Java's services refuse, in its words."""
    return Denied(code, _OWN + text)


def no_route(topic: str) -> Denied:
    return Denied(
        Code.TOPIC_NOT_FOUND, f"CODE: 17  DESC: No topic route info in name server for the topic: {topic}{_FAQ}"
    )


def away(broker: str, why: str) -> Denied:
    """Return the answer for a broker that is not there now, with a code after which clients try again."""
    return Denied(Code.INTERNAL_SERVER_ERROR, f"broker {broker} is away, try again in a moment: {why}")


def from_broker(code: int, remark: str | None) -> Denied:
    """Return a broker's refusal: most of its codes have no other than 50001 here."""
    return Denied(_BY_BROKER.get(code, Code.INTERNAL_SERVER_ERROR), remark or f"{code:d}")


def is_misplaced(answer: Command) -> bool:
    """Return whether a broker has not the topic, or not the queue, that it was asked for: the route was an old one."""
    if answer.code == ResponseCode.INVALID_PARAMETER:
        return _NO_QUEUE in (answer.remark or "")
    return answer.code == ResponseCode.TOPIC_NOT_EXIST


def status(code: Code = Code.OK, text: str = "") -> v2.Status:
    """Return a status; one without a text carries the code's name."""
    return v2.Status(code=code, message=text or code.name)


OK = status()


def status_of(fault: Exception, what: str) -> v2.Status:
    """Return the status of whatever ended a call; `what` names the call in the log."""
    if isinstance(fault, Denied):
        return status(fault.code, str(fault))
    if isinstance(fault, RequestRefused):
        refusal = from_broker(fault.code, str(fault))
        return status(refusal.code, str(refusal))
    if isinstance(fault, CallTimedOut | TimeoutError):
        return status(Code.PROXY_TIMEOUT, str(fault) or "the broker does not answer in time")
    if isinstance(fault, PyroError):
        return status(Code.INTERNAL_SERVER_ERROR, str(fault))
    log.traceback("call failed", fault, fault.__traceback__, call=what)
    return status(Code.INTERNAL_SERVER_ERROR, "internal error, see the server's log")
