"""The coordination store in etcd, by its v3 JSON gateway.

    async with EtcdCoordination(EtcdSettings(endpoints=("http://127.0.0.1:2379",)), clock) as coordination:
        await coordination.check()

Reads are linearizable, changes are transactions that compare `mod_revision`, leases are etcd's own. Its lock API is not
used: a lock of etcd is a lease, and a lease is no permission to write (Jepsen's report on 3.4.3).
"""

from __future__ import annotations

import math
import re
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Self

from .. import logs
from ..ambient import Clock
from ..errors import CallTimedOut, ConnectionLost
from ..model.wire_text import whole_number
from . import gateway_messages as messages
from .etcd_settings import EtcdSettings
from .gateway_calls import NOT_FOUND, UNAUTHENTICATED, GatewayCalls, GatewayRefused
from .store import (
    ChangeOutcome,
    CoordinationRefused,
    CoordinationUnreachable,
    Lease,
    Put,
    Snapshot,
    StoredKey,
    Verdict,
)

log = logs.get("pyromq.coordination")

# By minor version: the first release without the faults that lose or divide data (3.5.0 to 3.5.2, and 3.4.21).
FLOORS = {(3, 4): 22, (3, 5): 6}
_RETRY_S = 0.5  # between two attempts of a watch


@dataclass(frozen=True, slots=True)
class EtcdLease:
    """A lease of etcd by its number."""

    calls: GatewayCalls
    number: int
    ttl_s: float

    async def renew(self) -> bool:
        answer = await _ask(self.calls, "/v3/lease/keepalive", {"ID": str(self.number)}, messages.KeepAliveAnswer)
        return answer.result.TTL > 0

    async def release(self) -> None:
        try:
            await _ask(self.calls, "/v3/lease/revoke", {"ID": str(self.number)}, messages.Nothing)
        except GatewayRefused as refusal:
            if refusal.code != NOT_FOUND:  # it is over already
                raise


class EtcdCoordination:
    """Implements `Coordination`. Event loop only."""

    def __init__(self, settings: EtcdSettings, clock: Clock) -> None:
        self._calls = GatewayCalls(settings, clock)
        self._clock = clock

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._calls.close()

    async def check(self) -> str:
        """Return the oldest version among the members that answer, all of which serve us; for the start of a broker.

        Raises CoordinationRefused for one that is too old, wrong credentials or a gateway that is switched off, and
        CoordinationUnreachable if nobody answers."""
        found: dict[tuple[int, ...], str] = {}
        faults = []
        for address in self._calls.addresses:
            try:
                content = await self._calls.get(address, "/version")
                text = messages.decode(content, messages.VersionAnswer, address).etcdserver
            except (TimeoutError, ConnectionLost) as fault:
                faults.append(str(fault) or f"{address} did not answer in time")
                continue
            found[_checked_version(text, address)] = text
        if not found:
            raise CoordinationUnreachable(
                f"no member of etcd answered: {'; '.join(faults)}. Is it running there? Else correct etcdEndpoints"
            )
        await self.read("/pyromq/")  # credentials and the gateway
        return found[min(found)]

    async def read(self, prefix: str) -> Snapshot:
        answer = await _ask(self._calls, "/v3/kv/range", messages.range_request(prefix), messages.RangeAnswer)
        keys = {
            messages.decode_bytes(each.key).decode(): StoredKey(messages.decode_bytes(each.value), each.mod_revision)
            for each in answer.kvs
        }
        return Snapshot(keys, answer.header.revision)

    async def change(
        self, expect: Mapping[str, int], puts: Sequence[Put] = (), deletes: Collection[str] = ()
    ) -> ChangeOutcome:
        written = [(put.key, put.value, _number(put.lease)) for put in puts]
        request = messages.txn_request(expect, written, sorted(deletes))
        try:
            answer = await self._calls.ask("/v3/kv/txn", request, messages.TxnAnswer, may_repeat=False)
        except GatewayRefused as refusal:
            if refusal.code == NOT_FOUND:  # a lease is over; etcd looks for it before it changes anything
                return ChangeOutcome(Verdict.CONFLICT)
            if refusal.is_certain:
                raise _refused(refusal) from None
            log.warning("etcd did not say how a change ended", fault=str(refusal))
            return ChangeOutcome(Verdict.UNKNOWN)
        except (CallTimedOut, ConnectionLost, CoordinationUnreachable) as fault:
            log.warning("etcd did not say how a change ended", fault=str(fault))
            return ChangeOutcome(Verdict.UNKNOWN)
        return ChangeOutcome(Verdict.DONE if answer.succeeded else Verdict.CONFLICT, answer.header.revision)

    async def hold(self, ttl_s: float) -> Lease:
        asked = {"TTL": str(math.ceil(ttl_s))}
        answer = await _ask(self._calls, "/v3/lease/grant", asked, messages.GrantAnswer)
        return EtcdLease(self._calls, answer.ID, answer.TTL)

    async def watch(self, prefix: str, after: int) -> AsyncGenerator[int]:
        seen = after
        while True:
            lines = self._calls.stream("/v3/watch", messages.watch_request(prefix, seen + 1))
            try:
                async with aclosing(lines):
                    async for line in lines:
                        events = self._events(line)
                        if events is not None and events.compact_revision:
                            # Older changes are forgotten there: the watcher reads, and the watch goes on from here.
                            seen = max(seen, events.compact_revision)
                            yield seen
                            break
                        if events is not None and events.events:
                            seen = events.header.revision
                            yield seen
            except ConnectionLost as fault:
                log.info("a watch of etcd is begun anew", fault=str(fault))
                await self._clock.sleep(_RETRY_S)

    def _events(self, line: bytes) -> messages.WatchEvents | None:
        """Return what a line of a watch says; None for an empty one. Raises ConnectionLost where the watch is over."""
        if not line.strip():
            return None
        found = messages.decode(line, messages.WatchLine, "etcd").result
        if found is None:
            self._calls.forget_token()  # what refuses a watch is a token that is over, or a member that is ending
            raise ConnectionLost(f"etcd refused a watch: {line[:200].decode(errors='replace')}")
        if found.canceled and not found.compact_revision:
            self._calls.forget_token()
            raise ConnectionLost(f"etcd ended a watch: {found.cancel_reason or 'no reason'}")
        return found


def _number(lease: Lease | None) -> int:
    if lease is None:
        return 0
    if not isinstance(lease, EtcdLease):
        raise TypeError(f"a lease of another store: {lease!r}")
    return lease.number


async def _ask(calls: GatewayCalls, path: str, request: Mapping[str, object], answer: type[messages.S]) -> messages.S:
    """Ask what may be asked twice."""
    try:
        return await calls.ask(path, request, answer, may_repeat=True)
    except GatewayRefused as refusal:
        if refusal.is_certain:
            raise _refused(refusal) from None
        raise


def _refused(refusal: GatewayRefused) -> CoordinationRefused:
    hint = "check the user and the password, and what its role may read and write below /pyromq/"
    is_access = refusal.code == UNAUTHENTICATED or re.search(r"permission|auth|user", str(refusal)) is not None
    return CoordinationRefused(f"{refusal}{': ' + hint if is_access else ''}")


def _checked_version(text: str, address: str) -> tuple[int, ...]:
    """Return the version as numbers. Raises CoordinationRefused for one that may lose or divide data."""
    parts = [whole_number(part, 0, 9999) for part in text.partition("-")[0].split(".")]
    if len(parts) != 3 or None in parts:
        raise CoordinationRefused(f"{address} says that its version is {text[:40]!r}: that is no etcd known here")
    major, minor, patch = (part or 0 for part in parts)
    if (major, minor) < (3, 4) or patch < FLOORS.get((major, minor), 0):
        raise CoordinationRefused(
            f"etcd at {address} is {text}, in which acked writes may be lost: use 3.4.22, 3.5.6 or newer"
        )
    return major, minor, patch
