"""Topics and groups as a document: taken from a cluster, and what would have to change for a cluster to be like it.

    {"topics": {"orders": {"writeQueues": 4, "readQueues": 4, "permission": "rw", "order": false, "attributes": {}}},
     "groups": {"billing": {"retries": 16}}}

An entry is for all masters. `brokers` names those that have it, if others have not; `on` has, by broker, what is
different there. A setting that is left out stays as it is. What the document does not name is left alone: nothing is
ever deleted. Settings that only Java's tools set have Java's names: `groupRetryPolicy`, `topicFilterType`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Generic, TypeVar

import msgspec

from ..errors import ConfigError
from ..model.names import group_fault, topic_fault
from ..model.topic import PERMISSIONS, permission
from ..protocol.bodies.groups import GroupRetryPolicy, SimpleSubscriptionData, SubscriptionGroupConfig
from ..protocol.bodies.topics import TopicConfig
from . import groups, topics
from .calls import Calls
from .cluster import BrokerPlace

T = TypeVar("T", TopicConfig, SubscriptionGroupConfig)

Document = dict[str, dict[str, dict[str, Any]]]
Definitions = tuple[dict[str, TopicConfig], dict[str, SubscriptionGroupConfig]]

_COUNTS = {"writeQueues": "write_queue_nums", "readQueues": "read_queue_nums"}
_OF_TOPICS = _COUNTS | {"order": "order", "topicFilterType": "topic_filter_type", "topicSysFlag": "topic_sys_flag"}
_USUAL = {
    "consumes": "consume_enable",
    "broadcast": "consume_broadcast_enable",
    "orderly": "consume_message_orderly",
    "retries": "retry_max_times",
    "retryQueues": "retry_queue_nums",
    "timeoutMinutes": "consume_timeout_minute",
}
_OF_GROUPS = _USUAL | {
    "consumeFromMinEnable": "consume_from_min_enable",
    "notifyConsumerIdsChangedEnable": "notify_consumer_ids_changed_enable",
    "brokerId": "broker_id",
    "whichBrokerWhenConsumeSlowly": "which_broker_when_consume_slowly",
    "groupSysFlag": "group_sys_flag",
    "groupRetryPolicy": "group_retry_policy",
    "subscriptionDataSet": "subscription_data_set",
}
_TABLES: dict[str, Any] = {"groupRetryPolicy": GroupRetryPolicy, "subscriptionDataSet": list[SimpleSubscriptionData]}
_RETRY_POLICIES = ("CUSTOMIZED", "EXPONENTIAL")

PLACES = ("brokers", "on")  # of an entry, besides its settings
_FAULTS = {"topics": topic_fault, "groups": group_fault}


def topic_settings(config: TopicConfig) -> dict[str, Any]:
    return {
        "writeQueues": config.write_queue_nums,
        "readQueues": config.read_queue_nums,
        "permission": permission(config.perm),
        "order": config.order,
        "attributes": dict(sorted(config.attributes.items())),
        "topicFilterType": config.topic_filter_type,
        "topicSysFlag": config.topic_sys_flag,
    }


def group_settings(config: SubscriptionGroupConfig) -> dict[str, Any]:
    found = {name: getattr(config, field) for name, field in _OF_GROUPS.items()}
    tables = {name: msgspec.to_builtins(found[name] or []) for name in _TABLES}
    return found | tables | {"attributes": dict(sorted(config.attributes.items()))}


def shown_settings(config: SubscriptionGroupConfig) -> dict[str, Any]:
    """Return a group's settings for people: the usual ones, and of the others those that are not as in a new group."""
    usual = group_settings(SubscriptionGroupConfig())
    return {
        name: value if name in _USUAL else shown(value)
        for name, value in group_settings(config).items()
        if name in _USUAL or value != usual[name]
    }


# --- from a cluster ---------------------------------------------------------------------------------------------------


async def of_broker(calls: Calls, place: BrokerPlace) -> Definitions:
    return await topics.configs(calls, place.address), await groups.configs(calls, place.address)


def document(of: Mapping[BrokerPlace, Definitions]) -> Document:
    """Return what brokers have, without the system's own and without the retry and dead-letter topics of groups."""
    places = list(of)
    own = {word for place in places for word in (place.name, place.cluster)}
    found: dict[str, dict[str, dict[str, dict[str, Any]]]] = {"topics": {}, "groups": {}}
    for place, (its_topics, its_groups) in of.items():
        for name, config in its_topics.items():
            if not topics.is_internal(name) and name not in own:
                found["topics"].setdefault(name, {})[place.name] = topic_settings(config)
        for name, group in its_groups.items():
            if not groups.is_internal(name):
                found["groups"].setdefault(name, {})[place.name] = group_settings(group)
    everywhere = [place.name for place in places]
    return {
        kind: {name: _entry(by_broker, everywhere) for name, by_broker in sorted(entries.items())}
        for kind, entries in found.items()
    }


def _entry(by_broker: Mapping[str, dict[str, Any]], everywhere: list[str]) -> dict[str, Any]:
    common, *rest = by_broker.items()
    entry = dict(common[1])
    if len(by_broker) < len(everywhere):
        entry["brokers"] = sorted(by_broker)
    different = {
        broker: {key: value for key, value in settings.items() if value != entry[key]} for broker, settings in rest
    }
    on = {broker: settings for broker, settings in different.items() if settings}
    return entry | ({"on": on} if on else {})


# --- to a cluster -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DefinitionChange(Generic[T]):
    """One topic or group on one broker. `now` None: it is made. `before` is how it stands at the broker."""

    kind: str
    name: str
    place: BrokerPlace
    now: dict[str, Any] | None
    then: dict[str, Any]
    config: T
    before: T | None

    def rows(self) -> list[dict[str, Any]]:
        where = {self.kind: self.name, "broker": self.place.name}
        if self.now is None:
            return [where | {"setting": "(is made)", "now": None, "then": shown(self.then)}]
        return [
            where | {"setting": key, "now": shown(self.now[key]), "then": shown(value)}
            for key, value in self.then.items()
            if value != self.now[key]
        ]

    @property
    def changed_attributes(self) -> dict[str, str]:
        """Return the changed attributes with a sign before each key, as brokers take them of a group."""
        now, then = (self.now or {}).get("attributes", {}), self.then["attributes"]
        added = {f"+{key}": value for key, value in then.items() if now.get(key) != value}
        return added | {f"-{key}": "" for key in now if key not in then}

    @property
    def attributes(self) -> str | None:
        """Return the changed attributes as `+key=value,-key`, as brokers take them of a topic."""
        changed = self.changed_attributes.items()
        return ",".join(f"{key}={value}" if key[0] == "+" else key for key, value in changed) or None


async def changes(
    calls: Calls, places: Sequence[BrokerPlace], document: Any
) -> tuple[list[DefinitionChange[TopicConfig]], list[DefinitionChange[SubscriptionGroupConfig]]]:
    """Return the changes of topics and of groups. ConfigError if the document cannot be read."""
    patterns = {"topics": topic_settings(TopicConfig()), "groups": group_settings(SubscriptionGroupConfig())}
    _check(document, patterns, {place.name for place in places})
    of_topics: list[DefinitionChange[TopicConfig]] = []
    of_groups: list[DefinitionChange[SubscriptionGroupConfig]] = []
    for place in places:
        present = await topics.configs(calls, place.address) if document.get("topics") else {}
        for name, entry in document.get("topics", {}).items():
            fresh = TopicConfig(topic_name=name, write_queue_nums=8, read_queue_nums=8)
            of_topics += _change(name, entry, place, present.get(name), fresh)
        members = await groups.configs(calls, place.address) if document.get("groups") else {}
        for name, entry in document.get("groups", {}).items():
            of_groups += _change(name, entry, place, members.get(name), SubscriptionGroupConfig(group_name=name))
    return of_topics, of_groups


def _change(
    name: str, entry: Mapping[str, Any], place: BrokerPlace, now: T | None, fresh: T
) -> list[DefinitionChange[T]]:
    if place.name not in entry.get("brokers", [place.name]):
        return []
    wanted = {key: value for key, value in entry.items() if key not in PLACES} | entry.get("on", {}).get(place.name, {})
    is_now = None if now is None else _settings(now)
    tables = {key: msgspec.to_builtins(msgspec.convert(wanted[key], _TABLES[key])) for key in _TABLES if key in wanted}
    then = (is_now or _settings(fresh)) | wanted | tables
    if is_now == then:
        return []
    config = now or fresh
    kind = "topic" if isinstance(config, TopicConfig) else "group"
    changed = msgspec.structs.replace(config, **_fields(config, then))
    return [DefinitionChange(kind, name, place, is_now, then, changed, now)]


def _settings(config: TopicConfig | SubscriptionGroupConfig) -> dict[str, Any]:
    return topic_settings(config) if isinstance(config, TopicConfig) else group_settings(config)


def _fields(config: TopicConfig | SubscriptionGroupConfig, then: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(config, SubscriptionGroupConfig):
        tables = {name: msgspec.convert(then[name], kind) or None for name, kind in _TABLES.items()}
        return {field: tables.get(name, then[name]) for name, field in _OF_GROUPS.items()}
    bits = (config.perm & ~6) | PERMISSIONS[then["permission"]]
    return {field: then[name] for name, field in _OF_TOPICS.items()} | {"perm": bits}


def shown(value: Any) -> Any:
    """Return a setting's value for people: tables and lists as text."""
    if isinstance(value, list):
        return "; ".join(str(shown(one)) for one in value) or None
    if not isinstance(value, dict):
        return value
    return ", ".join(f"{key}={one}" for key, one in value.items()) or None


# --- what a document may hold -----------------------------------------------------------------------------------------


def _check(document: Any, patterns: Mapping[str, Mapping[str, Any]], brokers: set[str]) -> None:
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
        if key in _COUNTS and value < 1:
            raise ConfigError(f"{where}.{key}: at least one queue is needed, not {value}")
        if key == "attributes" and not all(isinstance(one, str) for one in value.values()):
            raise ConfigError(f"{where}.{key}: the values of attributes are texts")
        if key in _TABLES:
            _check_table(f"{where}.{key}", value, _TABLES[key])


def _check_table(where: str, value: Any, kind: Any) -> None:
    try:
        found = msgspec.convert(value, kind)
    except msgspec.ValidationError as fault:
        raise ConfigError(f"{where}: {fault}") from None
    if not _is_kept(value, msgspec.to_builtins(found)):
        raise ConfigError(f"{where}: {value!r} is read as {msgspec.to_builtins(found)!r}: a name in it is unknown")
    if isinstance(found, GroupRetryPolicy) and found.type not in _RETRY_POLICIES:
        raise ConfigError(f"{where}.type: {found.type!r} is none of {', '.join(_RETRY_POLICIES)}")


def _is_kept(value: Any, found: Any) -> bool:
    """Return whether everything in the value is in what was read of it."""
    if isinstance(value, dict):
        return all(key in found and _is_kept(one, found[key]) for key, one in value.items())
    return all(map(_is_kept, value, found)) if isinstance(value, list) else bool(value == found)


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
