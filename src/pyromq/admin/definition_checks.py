"""What a document of topics and groups may hold. Pure; `definitions.py` says what it means."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any

from ..errors import ConfigError
from ..model.names import group_fault, topic_fault
from ..model.topic import PERMISSIONS

PLACES = ("brokers", "on")  # of an entry, besides its settings
COUNTED = ("writeQueues", "readQueues")
_FAULTS = {"topics": topic_fault, "groups": group_fault}


def check(document: Any, patterns: Mapping[str, Mapping[str, Any]], brokers: set[str]) -> None:
    """Raise ConfigError for what is wrong. `patterns` has, by kind, an entry with every setting."""
    _known("the document", _table("the document", document), patterns)
    for kind, pattern in patterns.items():
        for name, entry in _table(kind, document.get(kind, {})).items():
            if (fault := _FAULTS[kind](name)) is not None:
                raise ConfigError(f"{kind}.{name}: {fault}")
            _check_entry(f"{kind}.{name}", _table(f"{kind}.{name}", entry), pattern, brokers)


def _check_entry(where: str, entry: dict[str, Any], pattern: Mapping[str, Any], brokers: set[str]) -> None:
    _known(where, entry, (*pattern, *PLACES))
    named = entry.get("brokers", [])
    if not isinstance(named, list):
        raise ConfigError(f"{where}.brokers: a list of names is needed, not {named!r}")
    on = _table(f"{where}.on", entry.get("on", {}))
    for name in (*named, *on):
        _known(f"{where}: broker", {str(name): None}, brokers)
    _check_values(where, {key: value for key, value in entry.items() if key not in PLACES}, pattern)
    for broker, settings in on.items():
        _known(f"{where}.on.{broker}", _table(f"{where}.on.{broker}", settings), pattern)
        _check_values(f"{where}.on.{broker}", settings, pattern)


def _check_values(where: str, settings: Mapping[str, Any], pattern: Mapping[str, Any]) -> None:
    for key, value in settings.items():
        if type(value) is not type(pattern[key]):
            raise ConfigError(f"{where}.{key}: {value!r} is not of the kind of {pattern[key]!r}")
        if key == "permission" and value not in PERMISSIONS:
            raise ConfigError(f"{where}.{key}: {value!r} is none of {', '.join(PERMISSIONS)}")
        if key in COUNTED and value < 1:
            raise ConfigError(f"{where}.{key}: at least one queue is needed, not {value}")
        if key == "attributes" and not all(isinstance(one, str) for one in value.values()):
            raise ConfigError(f"{where}.{key}: the values of attributes are texts")


def _table(where: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: a table is needed, not {value!r}")
    return value


def _known(where: str, found: Mapping[str, Any], known: Collection[str]) -> None:
    for name in found:
        if name not in known:
            near = get_close_matches(name, list(known), 1)
            hint = f"closest: {near[0]!r}" if near else f"known are {', '.join(sorted(known))}"
            raise ConfigError(f"{where}: {name!r} is unknown; {hint}")
