"""Plans between the page that shows them and the click that applies them: each for who made it, for ten minutes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .plan import ActionPlan

KEPT_S = 600.0
MOST_OF_ONE = 20  # plans of one session or program; then its oldest goes
MOST = 2_000


@dataclass(frozen=True, slots=True, eq=False)
class KeptPlan:
    """`given`: the values of the path's parameters. `wanted`: the form."""

    id: str
    owner: object
    until: float
    action: str
    cluster: str
    given: tuple[str, ...]
    wanted: Any
    plan: ActionPlan


@dataclass(slots=True, eq=False, repr=False)
class KeptPlans:
    """Event loop only."""

    word: Callable[[], str]
    monotonic: Callable[[], float]
    _by_id: dict[str, KeptPlan] = field(default_factory=dict)

    def keep(
        self, owner: object, action: str, cluster: str, given: tuple[str, ...], wanted: Any, plan: ActionPlan
    ) -> KeptPlan:
        """Keep a plan, under an id that nobody guesses."""
        now = self.monotonic()
        self._by_id = {key: one for key, one in self._by_id.items() if one.until > now}
        own = [key for key, one in self._by_id.items() if one.owner == owner]
        for key in own[: max(0, len(own) - MOST_OF_ONE + 1)] or list(self._by_id)[: len(self._by_id) >= MOST]:
            del self._by_id[key]
        kept = KeptPlan(self.word()[:32], owner, now + KEPT_S, action, cluster, given, wanted, plan)
        self._by_id[kept.id] = kept
        return kept

    def find(self, owner: object, key: str, action: str, cluster: str) -> KeptPlan | None:
        """Return one's own plan of an action in a cluster; None: there is none of this id, or its time is over."""
        kept = self._by_id.get(key)
        if kept is None or kept.owner != owner or kept.until <= self.monotonic():
            return None
        return kept if (kept.action, kept.cluster) == (action, cluster) else None

    def drop(self, kept: KeptPlan) -> None:
        """Forget a plan: it is applied once."""
        self._by_id.pop(kept.id, None)
