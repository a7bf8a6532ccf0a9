"""What one user may do, by the policies of the moment; and lists cut down to what he may see: the answers of requests
whose row needs rights on all of a kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ..protocol.access import Action, NameIn, Resource
from ..protocol.bodies.groups import SubscriptionGroupWrapper
from ..protocol.bodies.topics import TopicConfigAndMappingSerializeWrapper, TopicList
from ..protocol.requests import ROWS
from .directory import Directory, refused
from .needs import Want, resolved
from .rights import Principal

May = Callable[[Resource, str], bool]


class UserRights:
    """What one user may do. Implements `rights.Rights`, by the policies of the moment."""

    __slots__ = ("_directory", "_principal")

    def __init__(self, directory: Directory, principal: Principal) -> None:
        self._directory = directory
        self._principal = principal

    def fault(self, want: Want) -> str | None:
        who, (kind, name, actions) = self._principal, want
        if name is None:
            allowed = self._directory.may_any(who.name, kind, actions)
            return None if allowed else f"{_subject(who)} has no permission to access {kind.value}:* from {who.source}"
        if not who.is_known:
            return f"nobody has permission to access {kind.value}:{name} from {who.source} without saying who he is."
        return self._directory.fault(who.name, kind, name, actions, who.source)

    def may(self, kind: Resource, name: str, *actions: Action) -> bool:
        return self.fault(resolved(kind, name, actions)) is None

    def check(self, kind: Resource, name: str, *actions: Action) -> None:
        fault = self.fault(resolved(kind, name, actions))
        if fault is not None:
            raise refused(fault)

    def shown(self, code: int, body: Any) -> Any:
        if not is_screened(code):
            return body
        actions = {need.resource: need.actions for need in ROWS[code].needs}
        return screened(body, lambda kind, name: self.may(kind, name, *actions[kind]))


class SuperRights(UserRights):
    """What a super user may do: everything, for as long as he is one."""

    __slots__ = ()

    def shown(self, code: int, body: Any) -> Any:
        return body


class LetInRights(UserRights):
    """What somebody may do whose address is on a white list: everything, for as long as it is."""

    __slots__ = ("_is_let_in",)

    def __init__(self, directory: Directory, principal: Principal, is_let_in: Callable[[Principal], bool]) -> None:
        super().__init__(directory, principal)
        self._is_let_in = is_let_in

    def fault(self, want: Want) -> str | None:
        return None if self._is_let_in(self._principal) else super().fault(want)

    def shown(self, code: int, body: Any) -> Any:
        return body if self._is_let_in(self._principal) else super().shown(code, body)


def _subject(who: Principal) -> str:
    return f"User:{who.name}" if who.is_known else "nobody"


# --- lists -----------------------------------------------------------------------------------------------------------


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
