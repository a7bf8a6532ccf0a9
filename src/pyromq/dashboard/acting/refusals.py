"""What brokers answer instead of doing: in words, with code, broker, cure, and who lacks which right. Pure."""

from __future__ import annotations

import re

import msgspec

from ...client.errors import Error, Refused
from ...errors import CallFailed, Malformed, PyroError, RequestRefused
from ...model.codes import ResponseCode

FAULTS = (Error, CallFailed, Malformed, RequestRefused)  # of a question to a server
_DENIED = re.compile(r"User:(?P<user>.+?) has no permission to access (?P<resource>\S+?) from ")


class Denial(msgspec.Struct, frozen=True, kw_only=True):
    """A right that a user of the cluster lacks."""

    user: str
    resource: str
    action: str


class Refusal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`code` is RocketMQ's, `broker` the address that answered."""

    text: str
    code: int | None = None
    broker: str = ""
    hint: str = ""
    denied: Denial | None = None

    @property
    def is_denial(self) -> bool:
        return self.code == ResponseCode.NO_PERMISSION


def refusal_of(fault: PyroError, action: str = "") -> Refusal:
    """Return what a fault says. `action`: the right that was needed, by its name in policies."""
    if not isinstance(fault, Error):
        return Refusal(text=str(fault))
    remark = fault.remark if isinstance(fault, Refused) else ""
    lacks = _DENIED.search(remark) if fault.code == ResponseCode.NO_PERMISSION else None
    denied = Denial(user=lacks["user"], resource=lacks["resource"], action=action) if lacks else None
    text = str(fault).removesuffix(f". {fault.hint}") if fault.hint else str(fault)
    return Refusal(text=text, code=fault.code, broker=fault.address, hint=fault.hint, denied=denied)
