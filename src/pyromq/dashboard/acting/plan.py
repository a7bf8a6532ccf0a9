"""What an action would do, before anything is done: rows, warnings, and what it rests on. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...errors import PyroError


@dataclass(frozen=True, slots=True)
class Sentence:
    """A text of the pages with what stands in its braces: English as it is, translated where it is shown."""

    text: str
    values: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.text.format(**self.values) if self.values else self.text


def sentence(text: str, **values: object) -> Sentence:
    """Return a text that catalogues know, with its values. The text stands there as one literal."""
    return Sentence(text, values)


class NotPossible(PyroError):
    """What is wanted cannot be done, as seen before any broker was asked to."""

    def __init__(self, why: Sentence) -> None:
        super().__init__(str(why))
        self.why = why


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionPlan:
    """`does`: the action as a sentence. `rows`: what changes, by the keys of the route's columns. `rests_on`: facts by
    a name in words; where one is another when the plan is applied, nothing is done. `confirm`: what has to be typed
    before what cannot be undone. `before` and `after`: for the audit log, so without bodies and secrets. `work`: what
    `apply` needs besides."""

    does: Sentence
    rows: Sequence[Mapping[str, Any]]
    warnings: Sequence[Sentence] = ()
    rests_on: Mapping[str, Any] = field(default_factory=dict)
    confirm: str = ""
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)
    work: Any = None

    def moved(self, now: ActionPlan) -> list[str]:
        """Return what a plan made now rests on and this one does not, each as `name: then → now`."""
        names = {**self.rests_on, **now.rests_on}
        pairs = ((name, self.rests_on.get(name), now.rests_on.get(name)) for name in names)
        return [f"{name}: {_shown(was)} → {_shown(is_now)}" for name, was, is_now in pairs if was != is_now]


def _shown(value: Any) -> str:
    if value is None or value == []:
        return "–"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
