"""Alerts from pending to firing to resolved, as Prometheus' own: told once, and once more when it is over. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from .evaluate import Figures, Labels, found
from .rules import AlertRule


class AlertState(Enum):
    PENDING = "pending"  # the condition holds, not for long enough yet
    FIRING = "firing"
    RESOLVED = "resolved"  # it fired and holds no more
    DROPPED = "dropped"  # it was pending and holds no more


@dataclass(slots=True)
class Alert:
    """One rule for one series."""

    rule: AlertRule
    labels: dict[str, str]
    since_s: float
    value: float
    state: AlertState = AlertState.PENDING

    @property
    def summary(self) -> str:
        return self.rule.text(self.rule.summary, self.labels)

    @property
    def cure(self) -> str:
        return self.rule.text(self.rule.cure, self.labels)


@dataclass(frozen=True, slots=True)
class StateChange:
    alert: Alert
    state: AlertState

    @property
    def needs_telling(self) -> bool:
        return self.state in (AlertState.FIRING, AlertState.RESOLVED)


class AlertStates:
    """What is pending and firing. Times are seconds of any clock that does not go back."""

    def __init__(self, rules: Sequence[AlertRule]) -> None:
        self._rules = rules
        self._active: dict[tuple[str, Labels], Alert] = {}

    def active(self) -> list[Alert]:
        """Return what is pending or firing, the longest first."""
        return sorted(self._active.values(), key=lambda alert: alert.since_s)

    def judge(self, figures: Figures, now_s: float) -> Iterator[StateChange]:
        """Judge every rule and yield what changed. To be run to its end."""
        for rule in self._rules:
            holding = found(rule.condition, figures)
            for labels, value in holding.items():
                yield from self._holds(rule, labels, value, now_s)
            for name, labels in [key for key in self._active if key[0] == rule.name and key[1] not in holding]:
                alert = self._active.pop((name, labels))
                was_firing = alert.state is AlertState.FIRING
                alert.state = AlertState.RESOLVED if was_firing else AlertState.DROPPED
                yield StateChange(alert, alert.state)

    def _holds(self, rule: AlertRule, labels: Labels, value: float, now_s: float) -> Iterator[StateChange]:
        alert = self._active.get((rule.name, labels))
        if alert is None:
            alert = self._active[rule.name, labels] = Alert(rule, dict(labels), now_s, value)
            if rule.wait_s:
                yield StateChange(alert, AlertState.PENDING)
        alert.value = value
        if alert.state is AlertState.PENDING and now_s - alert.since_s >= rule.wait_s:
            alert.state = AlertState.FIRING
            yield StateChange(alert, AlertState.FIRING)
