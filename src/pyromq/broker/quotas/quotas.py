"""All quotas of a broker: those of the settings, those of the table `pyromq/quotas.json`, and what is used of each.

Event loop only. Nothing is scope, and no kernel held up, while there is no quota (`is_empty`). What a quota is about is
taken from the kernels: they get no verdict on it, so that each request comes to `gate.py`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping

from ...ambient import Clock
from ...store.tables.json_tables import JsonTable
from ..metadata.table_content import section
from .bucket import Bucket
from .limits import EVERYBODY, RATES, READING, SENDING, Limit, Quota, QuotaKind, QuotaSubject, limits_of, owner_of
from .use import QuotaUse

TABLE = "pyromq/quotas.json"
QUOTAS, MAKERS = "quotas", "makers"
MOST_USES = 100_000  # owners of quotas whose use is kept
_ANY_SEND = SENDING | {Limit.TIMERS, Limit.STORED_BYTES, Limit.CONNECTIONS}
_ANY_READ = READING | {Limit.CONNECTIONS}


class Quotas:
    """`watch` hears of each change: verdicts of kernels must be given anew."""

    def __init__(self, clock: Clock, table: JsonTable, changed: Callable[[], None], settings: list[Quota]) -> None:
        """`changed` is called whenever the table has something new to write."""
        self._clock = clock
        self._table = table
        self._changed = changed
        self._of_settings = {each.owner: each.limits for each in settings}
        self._of_table: dict[QuotaSubject, Mapping[Limit, int]] = {}
        self._uses: OrderedDict[QuotaSubject, QuotaUse] = OrderedDict()
        self._watchers: list[Callable[[], None]] = []
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
        general = {QuotaKind.USER, QuotaKind.ADDRESS}
        limits = [(owner.kind, limit) for owner, each in self._quotas.items() for limit in each]
        self._all_sends = any(kind in general | {QuotaKind.GROUP} and limit in _ANY_SEND for kind, limit in limits)
        self._all_reads = any(kind in general and limit in _ANY_READ for kind, limit in limits)
        self._changed()
        for watcher in self._watchers:
            watcher()

    # --- what kernels may not take ------------------------------------------------------------------------------------

    def judges_sends(self, topic: str) -> bool:
        """Return whether sends to a topic must come here: then a kernel gets no verdict on them."""
        return self._all_sends or self._concerns(QuotaKind.TOPIC, topic, _ANY_SEND)

    def judges_reads(self, topic: str, group: str) -> bool:
        """Return whether pulls and pops of a topic by a group must come here."""
        return (
            self._all_reads
            or self._concerns(QuotaKind.TOPIC, topic, _ANY_READ)
            or self._concerns(QuotaKind.GROUP, group, _ANY_READ)
        )

    def _concerns(self, kind: QuotaKind, name: str, which: frozenset[Limit]) -> bool:
        limits = self._quotas.get(QuotaSubject(kind, name)) or self._quotas.get(QuotaSubject(kind, EVERYBODY))
        return limits is not None and not which.isdisjoint(limits)

    # --- what is used -----------------------------------------------------------------------------------------------

    def use(self, kind: QuotaKind, name: str) -> QuotaUse | None:
        """Return what somebody has used; None: he has no quota."""
        limits = self._quotas.get(QuotaSubject(kind, name)) or self._quotas.get(QuotaSubject(kind, EVERYBODY))
        if limits is None or not name:
            return None
        owner = QuotaSubject(kind, name)
        found = self._uses.get(owner)
        if found is None:
            now = self._clock.monotonic()
            buckets = {limit: Bucket.full(value, now) for limit, value in limits.items() if limit in RATES}
            found = self._uses[owner] = QuotaUse(owner, limits, buckets)
            if len(self._uses) > MOST_USES:
                self._uses.popitem(last=False)
        else:
            self._uses.move_to_end(owner)
        return found

    def lost(self, address: str) -> None:
        """Forget a connection that has ended."""
        for use in self._uses.values() if self._quotas else ():
            use.connections.pop(address, None)

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
