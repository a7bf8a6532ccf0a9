"""What becomes of a RocketMQ key that is no setting of ours: accepted without effect, or refused unless harmless.

Each daemon has one `JavaKeys` table beside its dataclass. A key in none of them is unknown, which is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IgnoredKeys:
    """Keys that may be ignored because no promise hangs on them. Written `key=default` with blanks between."""

    reason: str
    keys: str


@dataclass(frozen=True, slots=True)
class RefusedKeys:
    """Keys whose promise we cannot keep yet. Written `key=harmless` with blanks between; other values do not start.

    Several harmless values are separated by `|`; an empty one is `key=`. A harmless value may be left standing.
    """

    reason: str
    remedy: str
    keys: str


@dataclass(frozen=True, slots=True)
class PlannedKeys:
    """Keys that a feature not finished yet will turn into settings. Until then they have no effect, and both `config
    check` and a start say so."""

    feature: str
    keys: str


class JavaKeys:
    """The table of one daemon. Each key stands in it once."""

    def __init__(self, *groups: IgnoredKeys | RefusedKeys | PlannedKeys) -> None:
        self._groups: dict[str, IgnoredKeys | RefusedKeys | PlannedKeys] = {}
        self._values: dict[str, str] = {}
        for group in groups:
            for word in group.keys.split():
                key, _, value = word.partition("=")
                if key in self._groups:
                    raise ValueError(f"{key} stands in the table twice")
                self._groups[key] = group
                self._values[key] = value

    def __contains__(self, key: str) -> bool:
        return key in self._groups

    def names(self) -> Iterable[str]:
        return self._groups.keys()

    def group(self, key: str) -> IgnoredKeys | RefusedKeys | PlannedKeys:
        return self._groups[key]

    def is_harmless(self, key: str, value: str) -> bool:
        """Return whether this value of a refused key asks for nothing that we lack, whatever its case, as in Java."""
        return value.strip().lower() in self._values[key].lower().split("|")

    def harmless(self, key: str) -> str:
        return self._values[key].split("|")[0]

    def shown(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return keys without a field, with the value given or Java's default: for the `get config` requests."""
        return {
            key: given.get(key, self.harmless(key))
            for key, group in self._groups.items()
            if not isinstance(group, PlannedKeys)
        }
