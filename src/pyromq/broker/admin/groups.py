"""Administration of subscription groups (requests 200, 201, 207, 225, 352, 353)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from ... import logs
from ...errors import RequestRefused
from ...model import names
from ...model.codes import ResponseCode
from ...protocol.bodies.body import DataVersion, decode_body
from ...protocol.bodies.groups import (
    GroupForbidden,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    SubscriptionGroupWrapper,
)
from ...protocol.headers.admin import (
    DeleteSubscriptionGroup,
    GetAllSubscriptionGroup,
    GetAllSubscriptionGroupAnswer,
    UpdateGroupForbidden,
)
from ...protocol.headers.header import GroupName
from ...transport.dispatch import Reply, RequestOf
from ...transport.turns.slices import Slices
from ..metadata.attributes import GROUP_ATTRIBUTES, alter
from ..metadata.groups import Groups
from ..metadata.offsets import Offsets
from .topics import MOST_QUEUES

log = logs.get("pyromq.broker")


class GroupAdmin:
    """Event loop only. `saved` returns once the table is on disk; `forget` is told of deleted groups."""

    def __init__(
        self,
        groups: Groups,
        offsets: Offsets,
        saved: Callable[[], Awaitable[None]],
        forget: Callable[[str], None],
        slices: Slices,
    ) -> None:
        self._groups = groups
        self._offsets = offsets
        self._saved = saved
        self._forget = forget
        self._slices = slices

    async def update(self, request: RequestOf[None, SubscriptionGroupConfig]) -> Reply:
        """Answer 200. Java answers a request without a body with success and does nothing; we say what is missing."""
        if not request.raw_body:
            raise RequestRefused("the body is empty: a SubscriptionGroupConfig is needed")
        self._groups.put(self._checked(request.body))
        await self._saved()
        return Reply()

    async def update_many(self, request: RequestOf[None, SubscriptionGroupList]) -> Reply:
        """Answer 225. All or none."""
        wanted = request.body.group_config_list
        checked = [self._checked(one) async for one in self._slices.each(wanted)]
        async for group in self._slices.each(checked):
            self._groups.put(group)
        await self._saved()
        return Reply()

    def _checked(self, wanted: SubscriptionGroupConfig) -> SubscriptionGroupConfig:
        fault = names.group_fault(wanted.group_name)
        if fault is not None:
            raise RequestRefused(fault, ResponseCode.INVALID_PARAMETER)
        if wanted.retry_queue_nums < 0 or wanted.retry_max_times < -1:
            raise RequestRefused(
                f"group {wanted.group_name}: retryQueueNums {wanted.retry_queue_nums} must not be negative, and "
                f"retryMaxTimes {wanted.retry_max_times} not below -1",
                ResponseCode.INVALID_PARAMETER,
            )
        if wanted.retry_queue_nums > MOST_QUEUES:
            raise RequestRefused(
                f"group {wanted.group_name}: retryQueueNums {wanted.retry_queue_nums} is more than {MOST_QUEUES}",
                ResponseCode.INVALID_PARAMETER,
            )
        before = self._groups.find(wanted.group_name)
        attributes = alter(GROUP_ATTRIBUTES, None if before is None else before.attributes, wanted.attributes)
        return msgspec.structs.replace(wanted, attributes=attributes)

    async def delete(self, request: RequestOf[DeleteSubscriptionGroup, None]) -> Reply:
        header = request.header
        if self._groups.delete(header.group_name):
            log.info("group deleted", group=header.group_name, peer=request.peer.address)
        if header.clean_offset:
            self._offsets.drop_group(header.group_name)
        self._forget(header.group_name)
        await self._saved()
        return Reply()

    async def get_all(self, request: RequestOf[GetAllSubscriptionGroup, None]) -> Reply:
        """Answer 201: the whole table, or a page of it."""
        header = request.header
        groups = dict(self._groups.all())
        if header.max_group_num is not None and header.max_group_num > 0:
            start = header.group_seq or 0 if self._is_current(header.data_version) else 0
            groups = self._groups.page(start, header.max_group_num)
        wrapper = SubscriptionGroupWrapper(
            data_version=self._groups.version,
            forbidden_table={group: dict(topics) for group, topics in self._groups.forbidden.items()},
            subscription_group_table=groups,
        )
        count = GetAllSubscriptionGroupAnswer(total_group_num=len(self._groups))
        return Reply(header=count, body=wrapper)

    def _is_current(self, version: str | None) -> bool:
        return bool(version) and decode_body(DataVersion, (version or "").encode()) == self._groups.version

    def get(self, request: RequestOf[GroupName, None]) -> Reply:
        """Answer 352. Java makes a missing group by the question; we say that it is missing."""
        name = request.header.group
        group = self._groups.find(name)
        if group is None:
            raise RequestRefused(f"No group in this broker. group: {name}", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
        return Reply(body=group)

    async def forbid(self, request: RequestOf[UpdateGroupForbidden, None]) -> Reply:
        """Answer 353: whether a group may read a topic, after the change if one is wanted."""
        header = request.header
        if header.readable is not None:
            fault = names.group_fault(header.group) or names.topic_fault(header.topic)
            if fault is not None:
                raise RequestRefused(fault, ResponseCode.INVALID_PARAMETER)
            self._groups.set_readable(header.group, header.topic, header.readable)
            await self._saved()
        readable = self._groups.may_read(header.group, header.topic)
        return Reply(body=GroupForbidden(group=header.group, topic=header.topic, readable=readable))
