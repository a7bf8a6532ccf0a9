"""The state of an elected set as the coordination store has it: one key, changed by comparing its version only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import msgspec

from ...errors import ProtocolError


@dataclass(frozen=True, slots=True)
class SetState:
    """Who is master of which epoch, and the in-sync set: all that was ever acknowledged is in each member's log.

    `minimum`: the set is never made smaller than this. `written_by`, `written_ms` and
    `elected_ms`, which stays while the master does, are for people."""

    epoch: int
    master: int
    in_sync: frozenset[int]
    minimum: int
    set_epoch: int = 1  # grows with each change of the set
    written_by: int = 0
    written_ms: int = 0
    elected_ms: int = 0  # 0: written before there was this field

    def __post_init__(self) -> None:
        if self.epoch < 1 or self.set_epoch < 1 or self.minimum < 1 or self.master not in self.in_sync:
            raise ProtocolError(
                f"epoch {self.epoch}, master {self.master}, in-sync set {sorted(self.in_sync)}, minimum {self.minimum} "
                "cannot be the state of an elected set: the master is in the set, and the numbers begin at 1"
            )

    def with_set(self, in_sync: Iterable[int], now_ms: int) -> SetState:
        """Return the state with another in-sync set, written by the master."""
        members = frozenset(in_sync)
        return replace(self, in_sync=members, set_epoch=self.set_epoch + 1, written_by=self.master, written_ms=now_ms)

    def encode(self) -> bytes:
        """Return JSON that a person can read with etcdctl."""
        fields = {
            "epoch": self.epoch,
            "master": self.master,
            "inSync": sorted(self.in_sync),
            "minimum": self.minimum,
            "setEpoch": self.set_epoch,
            "writtenBy": self.written_by,
            "writtenMs": self.written_ms,
            "electedMs": self.elected_ms,
        }
        return msgspec.json.encode(fields)


class _Stored(msgspec.Struct, rename="camel"):
    epoch: int
    master: int
    in_sync: list[int]
    minimum: int
    set_epoch: int
    written_by: int = 0
    written_ms: int = 0
    elected_ms: int = 0


def decode_state(content: bytes) -> SetState:
    """Return the state. Raises ProtocolError, which says what is wrong with it."""
    try:
        found = msgspec.json.decode(content, type=_Stored)
    except msgspec.DecodeError as fault:
        raise ProtocolError(f"the state of the elected set cannot be read: {fault}") from None
    return SetState(
        epoch=found.epoch,
        master=found.master,
        in_sync=frozenset(found.in_sync),
        minimum=found.minimum,
        set_epoch=found.set_epoch,
        written_by=found.written_by,
        written_ms=found.written_ms,
        elected_ms=found.elected_ms,
    )
