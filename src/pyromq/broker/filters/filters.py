"""How a subscription picks messages: by tags on queue entries, by an SQL92 expression on records.

Heartbeats, pulls and administration ask it. Reading is not done here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from ... import logs
from ...errors import RequestRefused
from ...model import names
from ...model.codes import ResponseCode
from ...model.filters.generated import define
from ...model.filters.parser import MAX_TESTS
from ...model.filters.sql92 import SQL92, EvaluationFault, FilterFault, Sql92, compile_sql
from ...model.java_hash import java_hash
from ...model.message import Property
from ...protocol.bodies.heartbeat import SubscriptionData
from ...protocol.properties import decode_properties, find_property
from ...protocol.record import properties_at, property_bytes
from ..config import BrokerConfig

log = logs.get("pyromq.broker")

TAG = "TAG"
MOST_PROPERTIES = 8  # that are looked up one by one; for more it is quicker to decode all


def is_by_tags(expression_type: str | None) -> bool:
    return (expression_type or TAG) == TAG


def check_enabled(expression_type: str | None, enabled: bool) -> None:
    """Refuse what is not by tags where the broker is not to evaluate it, in Java's words."""
    if not enabled and not is_by_tags(expression_type):
        raise RequestRefused(
            f"The broker does not support consumer to filter message by {expression_type}: it has "
            f"enablePropertyFilter=false; subscribe by {TAG}, or set it to true"
        )


def check_expression(topic: str, tags: int, text: str, config: BrokerConfig) -> None:
    """Refuse more tags or a longer text than a subscription may have, before anything is made of it."""
    if len(text) > config.max_expression_bytes:
        raise RequestRefused(
            f"the subscription to topic {topic} is {len(text)} characters long, the limit (maxExpressionBytes) is "
            f"{config.max_expression_bytes}",
            ResponseCode.SUBSCRIPTION_PARSE_FAILED,
        )
    if tags > config.max_tags_per_subscription or text.count("||") >= config.max_tags_per_subscription:
        raise RequestRefused(
            f"the subscription to topic {topic} has {max(tags, text.count('||') + 1)} tags, the limit "
            f"(maxTagsPerSubscription) is {config.max_tags_per_subscription}",
            ResponseCode.SUBSCRIPTION_PARSE_FAILED,
        )


# --- tags -----------------------------------------------------------------------------------------------------------


def tag_codes(tags: Iterable[str]) -> frozenset[int] | None:
    """Return the hashes of the tags; None if every message is wanted. The client compares the texts themselves."""
    wanted = {tag.strip() for tag in tags} - {""}
    return None if not wanted or "*" in wanted else frozenset(java_hash(tag) for tag in wanted)


def codes_of(subscription: SubscriptionData) -> frozenset[int] | None:
    """Return the tag hashes, which clients send as such, as tags, or as text. None too where it is not by tags."""
    if not is_by_tags(subscription.expression_type):
        return None
    if subscription.code_set:
        return frozenset(subscription.code_set)
    return tag_codes(subscription.tags_set or subscription.sub_string.split("||"))


# --- expressions ----------------------------------------------------------------------------------------------------


# An expression and the way to its properties in a record as one generated loop. Only the properties that the expression
# names are looked at, by their bytes and where they lie. What is odd about one (no value, no end, its name ends
# another) is left to `find_property`.
Loop: TypeAlias = Callable[[Iterable[bytes], Callable[[EvaluationFault], object]], Iterator[bytes]]

_LOOP = """\
def accepted(records, failed):
    for raw in records:
        at = properties_at(raw)
{lookups}
        try:
            if {condition} is True:
                yield raw
        except EvaluationFault as fault:
            failed(fault)
"""
_LOOKUP = """\
        name = raw.rfind({head!r}, at)
        if name < 0:
            p{number} = None
        elif (name == at or raw[name - 1] == 2) and (end := raw.find(2, name + {width})) > name + {width}:
            p{number} = raw[name + {width} : end]
        else:
            p{number} = find_property(raw[at:], {name!r})
"""


def record_loop(expression: Sql92) -> Loop | None:
    """Return a generator of the records that match, which calls `failed` for a fault; None: decode instead."""
    if expression.of_bytes is None or len(expression.names) > MOST_PROPERTIES:
        return None
    lookups = "".join(_lookup(number, name.encode()) for number, name in enumerate(expression.names))
    source = _LOOP.format(lookups=lookups, condition=expression.of_bytes)
    parts = {"properties_at": properties_at, "find_property": find_property, "EvaluationFault": EvaluationFault}
    return define(source, "accepted", **parts)  # type: ignore[no-any-return]


def _lookup(number: int, name: bytes) -> str:
    return _LOOKUP.format(number=number, name=name, head=name + b"\x01", width=len(name) + 1)


class RecordFilter:
    """A compiled expression over records. A message that it cannot be asked of does not match; the first is logged."""

    __slots__ = ("_expression", "_loop", "failed", "tests")

    def __init__(self, expression: Sql92) -> None:
        self._expression = expression
        self.tests = expression.tests
        self._loop = record_loop(expression)
        self.failed = 0

    def accepted(self, records: Iterable[bytes]) -> Iterator[bytes]:
        """Return an iterator over the records that match; each is tested when it is its turn."""
        if self._loop is not None:
            return self._loop(records, self._failed)
        return (raw for raw in records if self.accepts_properties(decode_properties(property_bytes(raw))))

    def accepts_properties(self, properties: Mapping[str, str]) -> bool:
        try:
            return self._expression.matches(properties)
        except EvaluationFault as fault:
            return self._failed(fault)

    def _failed(self, fault: EvaluationFault) -> bool:
        self.failed += 1
        if self.failed == 1:
            log.warning(
                "a filter cannot be asked of a message, which therefore does not match; said once",
                expression=self._expression.text,
                why=str(fault),
            )
        return False


class RetryFilter:
    """For a retry topic that is itself subscribed to by an expression (filterSupportRetry): each message passes the
    filter of the topic that it came from."""

    __slots__ = ("_find", "failed", "tests")

    def __init__(self, find: Callable[[str], RecordFilter | None]) -> None:
        self.tests = MAX_TESTS  # of what it finds, at most
        self._find = find
        self.failed = 0

    def accepted(self, records: Iterable[bytes]) -> Iterator[bytes]:
        return filter(self._accepts, records)

    def _accepts(self, record: bytes) -> bool:
        raw = property_bytes(record)
        origin = find_property(raw, Property.RETRY_TOPIC.encode())
        record_filter = self._find("" if origin is None else origin.decode("utf-8", "replace"))
        return record_filter is None or record_filter.accepts_properties(decode_properties(raw))


AnyFilter: TypeAlias = RecordFilter | RetryFilter


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a pull takes. None in both: everything."""

    tag_codes: frozenset[int] | None = None
    record_filter: AnyFilter | None = None


EVERYTHING = Wanted()


def filter_for(expression_type: str | None, text: str) -> RecordFilter:
    """Return the compiled expression, one for all who ask. Raises FilterFault."""
    if expression_type != SQL92:
        raise FilterFault(f"{expression_type} expressions are not known: there are {TAG} and {SQL92}")
    found = _filter_or_fault(text)
    if isinstance(found, str):
        raise FilterFault(found)
    return found


@lru_cache(256)
def _filter_or_fault(text: str) -> RecordFilter | str:
    """Return the compiled expression, or its fault: finding that may take as long as compiling, so it is kept too."""
    try:
        return RecordFilter(compile_sql(text))
    except FilterFault as fault:
        return str(fault)


def parsed(expression_type: str | None, text: str) -> RecordFilter:
    """Return the compiled expression; raise RequestRefused for a faulty one, with the code that clients know."""
    try:
        return filter_for(expression_type, text)
    except FilterFault as fault:
        raise RequestRefused(f"Invalid MessageSelector. {fault}", ResponseCode.SUBSCRIPTION_PARSE_FAILED) from None


def for_topic(
    topic: str, record_filter: RecordFilter, support_retry: bool, find: Callable[[str], RecordFilter | None]
) -> Wanted:
    is_retry = support_retry and topic.startswith(names.RETRY_PREFIX)
    return Wanted(record_filter=RetryFilter(find) if is_retry else record_filter)
