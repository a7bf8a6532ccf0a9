"""Quotas by request: set (30010), listed with their use (30011), deleted (30012). A change is answered once on disk."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ... import logs
from ...ambient import Clock
from ...errors import ConfigError, RequestRefused
from ...model.codes import ResponseCode
from ...protocol.bodies.own import QuotaChange, QuotaLine, QuotaList
from ...protocol.headers.admin import QuotaName
from ...transport.dispatch import Reply, Request, RequestOf
from .limits import EVERYBODY, Limit, Quota, QuotaSubject, limits_of, owner_of
from .quotas import Quotas

log = logs.get("pyromq.broker")


@dataclass(slots=True, eq=False, repr=False)
class QuotaAdmin:
    """Event loop only. `saved` returns once the table is on disk, or raises RequestRefused."""

    quotas: Quotas
    clock: Clock
    saved: Callable[[], Awaitable[None]]

    async def put(self, request: RequestOf[None, QuotaChange]) -> Reply:
        body = request.body
        try:
            owner = owner_of(body.kind, body.name)
            quota = Quota(owner, limits_of(owner, body.limits))
        except ConfigError as fault:
            raise RequestRefused(str(fault), ResponseCode.INVALID_PARAMETER) from None
        before = self.quotas.find(owner)
        self.quotas.put(quota)
        log.info("quota set", of=owner, peer=request.peer.address, **{key.value: n for key, n in quota.limits.items()})
        await self.saved()
        return Reply(noted={"before": _named(before), "after": _named(quota.limits)})

    async def delete(self, request: RequestOf[QuotaName, None]) -> Reply:
        header = request.header
        try:
            owner = owner_of(header.kind, header.name)
        except ConfigError as fault:
            raise RequestRefused(str(fault), ResponseCode.INVALID_PARAMETER) from None
        before = self.quotas.find(owner)
        if not self.quotas.delete(owner):
            where = "it stands in the setting quotas" if before is not None else "there is none"
            raise RequestRefused(f"no quota of {owner} in this broker's table: {where}", ResponseCode.QUERY_NOT_FOUND)
        log.info("quota deleted", of=owner, peer=request.peer.address)
        await self.saved()
        return Reply(noted={"before": _named(before), "after": _named(self.quotas.find(owner))})

    def list(self, request: Request) -> Reply:
        lines = [self._line(quota, in_table=in_table) for quota, in_table in self.quotas.all()]
        return Reply(body=QuotaList(quotas=lines))

    def _line(self, quota: Quota, *, in_table: bool) -> QuotaLine:
        owner = quota.owner
        source = "table" if in_table else "settings"
        line = QuotaLine(kind=owner.kind.value, name=owner.name, limits=_named(quota.limits) or {}, source=source)
        if owner.name != EVERYBODY:
            line.used = self._used(owner)
        return line

    def _used(self, owner: QuotaSubject) -> dict[str, int]:
        """Return what of a second's worth is taken now, and how many connections there are."""
        use, now = self.quotas.use(owner.kind, owner.name), self.clock.monotonic()
        if use is None:
            return {}
        used = {limit.value: round(bucket.used(now)) for limit, bucket in use.buckets.items()}
        if Limit.CONNECTIONS in use.limits:
            used[Limit.CONNECTIONS.value] = use.count_connections(now)
        return used


def _named(limits: object) -> dict[str, int] | None:
    return {limit.value: value for limit, value in limits.items()} if isinstance(limits, dict) else None
