"""Filter expressions of subscriptions and receives: what brokers are asked for, and which tags really match. Pure."""

from __future__ import annotations

from ...model.java_hash import java_hash
from ...protocol.bodies.heartbeat import SubscriptionData
from ...protocol.grpc import v2
from ...protocol.grpc.v2 import Code, FilterType
from ..statuses import Denied

TAG, SQL92 = "TAG", "SQL92"
_ALL = "*"


def expression_of(wanted: v2.FilterExpression) -> tuple[str, str]:
    """Return type and text. Denied (40010) for an SQL expression that is empty, or tags that are none."""
    text = wanted.expression
    if wanted.type == FilterType.SQL:
        if not text:
            raise Denied(Code.ILLEGAL_FILTER_EXPRESSION, f"Expression can't be null! {SQL92}")
        return SQL92, text
    if text and text != _ALL and not any(part.strip() for part in text.split("||")):
        raise Denied(Code.ILLEGAL_FILTER_EXPRESSION, "subString split error")
    return TAG, text or _ALL


def wanted_tags(kind: str, text: str) -> frozenset[str]:
    """Return the tags to compare by their text; none where every message fits."""
    if kind != TAG or text == _ALL:
        return frozenset()
    return frozenset(part.strip() for part in text.split("||")) - {""}


def subscription_data(topic: str, wanted: v2.FilterExpression, version: int) -> SubscriptionData:
    """Return a subscription as heartbeats have it. Denied (40010) in the words of Java's telemetry."""
    try:
        kind, text = expression_of(wanted)
    except Denied:
        raise Denied(Code.ILLEGAL_FILTER_EXPRESSION, "expression format is not correct") from None
    tags = sorted(wanted_tags(kind, text))
    return SubscriptionData(
        topic=topic,
        sub_string=text,
        expression_type=kind,
        tags_set=tags,
        code_set=[java_hash(tag) for tag in tags],
        sub_version=version,
    )
