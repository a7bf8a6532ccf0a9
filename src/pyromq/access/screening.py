"""Lists, cut down to what the one who asks may see: the answers of requests whose row needs rights on all of a kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ..protocol.access import NameIn, Resource
from ..protocol.bodies.groups import SubscriptionGroupWrapper
from ..protocol.bodies.topics import TopicConfigAndMappingSerializeWrapper, TopicList
from ..protocol.requests import ROWS
from .directory import refused

May = Callable[[Resource, str], bool]


def is_screened(code: int) -> bool:
    """Tell whether answers to a request are cut down."""
    return code in ROWS and any(need.name_in is NameIn.ALL for need in ROWS[code].needs)


def screened(body: Any, may: May) -> Any:
    """Return an answer's body without what one may not see. RequestRefused for a body that cannot be cut down."""
    if not body and isinstance(body, bytes):
        return body
    if isinstance(body, TopicList):
        return msgspec.structs.replace(body, topic_list=[t for t in body.topic_list if may(Resource.TOPIC, t)])
    if isinstance(body, TopicConfigAndMappingSerializeWrapper):
        return msgspec.structs.replace(
            body,
            topic_config_table=_seen(body.topic_config_table, Resource.TOPIC, may),
            topic_queue_mapping_detail_map=_seen(body.topic_queue_mapping_detail_map, Resource.TOPIC, may),
            topic_queue_mapping_info_map=_seen(body.topic_queue_mapping_info_map, Resource.TOPIC, may),
        )
    if isinstance(body, SubscriptionGroupWrapper):
        return msgspec.structs.replace(
            body,
            subscription_group_table=_seen(body.subscription_group_table, Resource.GROUP, may),
            forbidden_table=_seen(body.forbidden_table, Resource.GROUP, may),
        )
    raise refused(f"an answer of {type(body).__name__} is shown to super users alone")


def _seen(table: Any, kind: Resource, may: May) -> Any:
    return None if table is None else {name: value for name, value in table.items() if may(kind, name)}
