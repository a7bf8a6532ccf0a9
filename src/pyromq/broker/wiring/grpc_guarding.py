"""The broker's side of a kernel's guard of gRPC calls: what the gate says of who signed a call, and of what he may.

Every rule is the gate's (`access/gate.py`) and the calls' (`proxy/access.py`). What it says of a user is left with the
guard until something about him changes. Event loop only.
"""

from __future__ import annotations

from typing import Any

from ...access.gate import AccessGate, principal_of_user, source_of
from ...access.rights import Proof
from ...ambient import Clock
from ...errors import RequestRefused
from ...protocol.grpc import v2
from ...proxy.access import may_call
from ..quotas.quotas import Quotas
from .guarding import secrets_of

_COUNTED = ("SendMessage", "ReceiveMessage")  # by quotas of users


class CallVerdicts:
    """Those of all listeners. Implements `kernel.grpc_guard.CallGuardHost`. `module`: the native one for HTTP/2."""

    def __init__(self, gate: AccessGate, quotas: Quotas, clock: Clock, module: Any) -> None:
        self._gate = gate
        self._quotas = quotas
        self._counts_users = quotas.judge_users
        self._clock = clock
        self.kernel = module.CallGuard(self, gate.call_signature_seconds * 1000)
        gate.directory.watch(lambda name: self.kernel.revoke(name.encode()))
        quotas.watch(self._quotas_changed)

    def source_of(self, remote: str) -> str:
        return source_of(remote)

    def secrets_of(self, name: bytes) -> tuple[bytes, ...] | None:
        return secrets_of(self._gate, name)

    def allows(self, name: bytes, remote: str, call: str, group: str, topic: str, client_type: int) -> bool:
        if self._counts_users and call in _COUNTED:
            return False  # the feeds do not know whose calls these are: the RPC holds him to his quota
        try:
            user = self._gate.user(name.decode())
        except RequestRefused:
            return False
        principal = principal_of_user(user, source_of(remote), Proof.SIGNATURE)
        return may_call(self._gate, principal, _asking(call, group, topic, client_type))

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def _quotas_changed(self) -> None:
        before, self._counts_users = self._counts_users, self._quotas.judge_users
        if self._counts_users and not before:
            self._gate.directory.revoke_all()  # receives that wait are asked for again, too


def _asking(call: str, group: str, topic: str, client_type: int) -> Any:
    """Return a request that asks for the same as all those of this call about this group and topic."""
    its_group, its_topic = v2.Resource(name=group), v2.Resource(name=topic)
    if call == "SendMessage":
        return v2.SendMessageRequest(messages=[v2.Message(topic=its_topic)])
    if call == "ReceiveMessage":
        return v2.ReceiveMessageRequest(group=its_group, message_queue=v2.MessageQueue(topic=its_topic))
    if call == "AckMessage":
        return v2.AckMessageRequest(group=its_group, topic=its_topic)
    if call == "ChangeInvisibleDuration":
        return v2.ChangeInvisibleDurationRequest(group=its_group, topic=its_topic)
    if call == "Heartbeat":
        return v2.HeartbeatRequest(group=its_group, client_type=client_type)
    raise ValueError(f"a guard asks about {call}, of which this broker knows no needs")
