"""All quotas of a broker: those of the settings, those of the table `pyromq/quotas.json`, and what is used of each.

Event loop only. Nothing is asked while there is no quota (`is_empty`). Requests that a kernel serves draw from the same
buckets (`verdicts.py`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping

from ...ambient import Clock
from ...kernel import state
from ...kernel.state import ChangeFlag
from ...store.tables.json_tables import JsonTable
from ..metadata.table_content import section
from .limits import (
    BUCKETS,
    BYTES,
    EVERYBODY,
    NAME_CHARS,
    RATES,
    Limit,
    Quota,
    QuotaKind,
    QuotaSubject,
    limits_of,
    owner_of,
)
from .use import CountedIn, QuotaUse

TABLE = "pyromq/quotas.json"
QUOTAS, MAKERS = "quotas", "makers"
MOST_USES = 100_000  # owners of quotas whose use is kept
_FORGOTTEN = 1000  # of them at a time, where there are more
_LOOKED_S = 1.0  # after which is looked again who can go
# Of sends and reads that a kernel serves.
_OF_TRAFFIC = RATES | {Limit.STORED_BYTES, Limit.CONNECTIONS, Limit.HALF_MESSAGES}


class Quotas:
    """`watch` hears of each change."""

    def __init__(self, clock: Clock, table: JsonTable, changed: Callable[[], None], settings: list[Quota]) -> None:
        """`changed` is called whenever the table has something new to write."""
        self._clock = clock
        self._table = table
        self._changed = changed
        self._of_settings = {each.owner: each.limits for each in settings}
        self._of_table: dict[QuotaSubject, Mapping[Limit, int]] = {}
        self._uses: OrderedDict[QuotaSubject, QuotaUse] = OrderedDict()
        self._common: dict[QuotaKind, QuotaUse] = {}  # of those for whom there is no place, by kind
        self._counted: CountedIn = {}
        self._forgets_at = float("-inf")  # when to look again who can go
        self._watchers: list[Callable[[], None]] = []
        self.changes: ChangeFlag = state.ChangeFlag()  # what is drawn from was told before this is set
        content = table.load()
        for name, limits in section(content, QUOTAS).items():
            owner = owner_of(*name.split(":", 1))
            self._of_table[owner] = limits_of(owner, limits)
        self._makers: dict[str, list[str]] = dict(section(content, MAKERS))  # "topic:orders" -> its maker's owners
        self._quotas: dict[QuotaSubject, Mapping[Limit, int]] = {}
        self._join()

    def watch(self, changed: Callable[[], None]) -> None:
        self._watchers.append(changed)

    # --- which there are ----------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        return not self._quotas

    def all(self) -> list[tuple[Quota, bool]]:
        """Return every quota, and whether it stands in the table."""
        return [(Quota(owner, limits), owner in self._of_table) for owner, limits in self._quotas.items()]

    def find(self, owner: QuotaSubject) -> Mapping[Limit, int] | None:
        return self._quotas.get(owner)

    def put(self, quota: Quota) -> None:
        self._of_table[quota.owner] = quota.limits
        self._table.put(QUOTAS, str(quota.owner), {limit.value: value for limit, value in quota.limits.items()})
        self._join()

    def delete(self, owner: QuotaSubject) -> bool:
        """Remove a quota from the table. One of the settings counts again then."""
        if self._of_table.pop(owner, None) is None:
            return False
        self._table.drop(QUOTAS, str(owner))
        self._join()
        return True

    def _join(self) -> None:
        self._quotas = {**self._of_settings, **self._of_table}
        self._uses.clear()
        self._common.clear()
        self._counted.clear()
        self._void()
        of_traffic = [owner for owner, limits in self._quotas.items() if not _OF_TRAFFIC.isdisjoint(limits)]
        self.judge_traffic = bool(of_traffic)
        self.judge_users = any(owner.kind is QuotaKind.USER for owner in of_traffic)
        self.counts_callers = any(owner.kind in (QuotaKind.USER, QuotaKind.ADDRESS) for owner in self._quotas)
        self.limit_loop_time = any(Limit.LOOP_TIME in limits for limits in self._quotas.values())
        self._changed()
        for watcher in self._watchers:
            watcher()

    def _void(self) -> None:
        """Have kernels ask again who draws from what."""
        self.changes.is_set = True
        self.changes = state.ChangeFlag()

    # --- what is used -----------------------------------------------------------------------------------------------

    def use(self, kind: QuotaKind, name: str) -> QuotaUse | None:
        """Return what somebody has used; None: he has no quota.

        Names that are too long to be right are one if they begin alike: clients choose them, and they are kept.
        """
        name = name[:NAME_CHARS]
        limits = self._quotas.get(QuotaSubject(kind, name)) or self._quotas.get(QuotaSubject(kind, EVERYBODY))
        if limits is None or not name:
            return None
        owner = QuotaSubject(kind, name)
        found = self._uses.get(owner)
        if found is not None:
            self._uses.move_to_end(owner)
            return found
        now = self._clock.monotonic()
        if len(self._uses) >= MOST_USES and now >= self._forgets_at:
            self._forget_some(now)
        if len(self._uses) >= MOST_USES and owner not in self._quotas:
            return self._common_use(owner, limits, now)
        found = self._uses[owner] = self._new_use(owner, limits, now)
        return found

    def _new_use(self, owner: QuotaSubject, limits: Mapping[Limit, int], now: float) -> QuotaUse:
        made = QuotaUse(owner, limits, {}, counted=self._counted)
        for limit in limits.keys() & BUCKETS:
            made.buckets[limit] = state.Bucket(limits[limit], now, limit in BYTES, (made, limit))
        return made

    def _common_use(self, owner: QuotaSubject, limits: Mapping[Limit, int], now: float) -> QuotaUse:
        """Return the use of one for whom there is no place: rates and connections are one for all such of a kind."""
        common = self._common.get(owner.kind)
        if common is None:
            all_such = QuotaSubject(owner.kind, EVERYBODY)
            common = self._common[owner.kind] = self._new_use(all_such, limits, now)
        return QuotaUse(owner, limits, common.buckets, connections=common.connections, counted=self._counted)

    def _forget_some(self, now: float) -> None:
        """Forget owners who have used nothing of late: they begin anew with full buckets, which they have. Where few
        can go, look again in a moment only."""
        before = len(self._uses)
        looked_at = min(_FORGOTTEN, before)
        for _ in range(looked_at):
            owner, use = self._uses.popitem(last=False)
            if not use.is_unused(now):
                self._uses[owner] = use
        forgotten = before - len(self._uses)
        if forgotten:
            self._void()
        if forgotten < looked_at // 2:
            self._forgets_at = now + _LOOKED_S

    def lost(self, address: str) -> None:
        """Forget a connection that has ended."""
        for connections in self._counted.pop(address, {}).values():
            connections.pop(address, None)

    # --- who has made what --------------------------------------------------------------------------------------------

    def note_maker(self, kind: QuotaKind, name: str, makers: list[QuotaSubject]) -> None:
        """Note who has made a topic or a group: it counts for them."""
        thing = str(QuotaSubject(kind, name))
        told = [str(maker) for maker in makers]
        if self._makers.get(thing) != told:
            self._makers[thing] = told
            self._table.put(MAKERS, thing, told)
            self._changed()

    def made_by(self, kind: QuotaKind, maker: QuotaSubject) -> list[str]:
        """Return the names of what somebody has made, deleted ones too."""
        prefix, who = f"{kind.value}:", str(maker)
        return [
            thing.removeprefix(prefix)
            for thing, makers in self._makers.items()
            if thing.startswith(prefix) and who in makers
        ]
