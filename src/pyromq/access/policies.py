"""What a user's policies decide, as RocketMQ 5.5.0 does. Pure.

The entries of the Custom policy that match resource, action and address count; only if none does, those of the Default
one. Of these the one with the narrowest pattern decides (`Pattern.rank`). Where two are equally narrow Deny wins,
as from 5.4.0 on; with `aclConflict=allow` Allow does, as in 5.3. Without an entry nothing is allowed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from ..protocol.access import Action, Resource
from .patterns import Network, Pattern, Shape, is_within

ALL = "All"  # every action, in an entry


class Decision(Enum):
    ALLOW = "Allow"
    DENY = "Deny"


class PolicyKind(Enum):
    CUSTOM = "Custom"
    DEFAULT = "Default"


class AclConflict(Enum):
    """Who wins between two entries that are equally narrow."""

    ALLOW = "allow"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class PolicyEntry:
    """`actions` as they are shown, in the order in which they came; `sources` too."""

    pattern: Pattern
    actions: tuple[str, ...]
    decision: Decision
    sources: tuple[str, ...] = ()
    networks: tuple[Network, ...] = ()  # of `sources`
    covered: frozenset[Action] = frozenset()  # by `actions`

    def covers(self, actions: Iterable[Action], source: str) -> bool:
        """Tell whether it says something about one of these actions from that address."""
        if self.covered.isdisjoint(actions):
            return False
        return not self.sources or is_within(source, self.networks)


@dataclass(frozen=True, slots=True)
class Policy:
    """Entries of one kind, at most one for each pattern unless a request brought more at once."""

    kind: PolicyKind
    entries: tuple[PolicyEntry, ...]
    _literal: dict[tuple[Resource | None, str], list[PolicyEntry]] = field(init=False, repr=False, compare=False)
    _wide: list[PolicyEntry] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        literal: dict[tuple[Resource | None, str], list[PolicyEntry]] = {}
        wide: list[PolicyEntry] = []
        for entry in self.entries:
            if entry.pattern.shape is Shape.LITERAL and entry.pattern.kind is not None:
                literal.setdefault((entry.pattern.kind, entry.pattern.name), []).append(entry)
            else:
                wide.append(entry)
        object.__setattr__(self, "_literal", literal)
        object.__setattr__(self, "_wide", wide)

    def matching(self, kind: Resource, name: str, actions: Iterable[Action], source: str) -> list[PolicyEntry]:
        candidates = [*self._literal.get((kind, name), ()), *(e for e in self._wide if e.pattern.matches(kind, name))]
        return [entry for entry in candidates if entry.covers(actions, source)]

    def changed(self, entries: Iterable[PolicyEntry]) -> Policy:
        """Return this policy with new entries, each in the place of the one with its pattern."""
        kept = list(self.entries)
        for new in entries:
            at = next((at for at, old in enumerate(kept) if old.pattern == new.pattern), None)
            if at is None:
                kept.append(new)
            else:
                kept[at] = new
        return Policy(self.kind, tuple(kept))

    def without(self, pattern: Pattern) -> Policy:
        """Return this policy without its first entry of that pattern."""
        at = next((at for at, entry in enumerate(self.entries) if entry.pattern == pattern), len(self.entries))
        return Policy(self.kind, self.entries[:at] + self.entries[at + 1 :])


Policies = tuple[Policy, ...]


def of_kind(policies: Policies, kind: PolicyKind) -> Policy | None:
    return next((policy for policy in policies if policy.kind is kind), None)


def deciding(
    policies: Policies, kind: Resource, name: str, actions: tuple[Action, ...], source: str, conflict: AclConflict
) -> PolicyEntry | None:
    """Return the entry that decides whether one of `actions` is allowed; None: none does, so nothing is allowed."""
    for each in PolicyKind:
        policy = of_kind(policies, each)
        found = [] if policy is None else policy.matching(kind, name, actions, source)
        if found:
            last = Decision.DENY if conflict is AclConflict.ALLOW else Decision.ALLOW
            return min(found, key=lambda entry: (entry.pattern.rank, entry.decision is last))
    return None
