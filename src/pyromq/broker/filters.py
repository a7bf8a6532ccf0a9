"""How a subscription picks messages: by tags today. Pure; heartbeats, pulls and administration ask it."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import RequestRefused
from ..model.java_hash import java_hash
from ..protocol.bodies.heartbeat import SubscriptionData

TAG = "TAG"


def check_kind(expression_type: str | None) -> None:
    """Refuses what is not by tags, in Java's words for a broker with enablePropertyFilter=false."""
    if (expression_type or TAG) != TAG:
        raise RequestRefused(
            f"The broker does not support consumer to filter message by {expression_type}: subscribe by {TAG}"
        )


def tag_codes(tags: Iterable[str]) -> frozenset[int] | None:
    """Hashes of the tags; None if every message is wanted. The client compares the texts themselves."""
    wanted = {tag.strip() for tag in tags} - {""}
    return None if not wanted or "*" in wanted else frozenset(java_hash(tag) for tag in wanted)


def codes_of(subscription: SubscriptionData) -> frozenset[int] | None:
    """Some clients send hashes, some tags, some the text alone."""
    if subscription.code_set:
        return frozenset(subscription.code_set)
    return tag_codes(subscription.tags_set or subscription.sub_string.split("||"))
