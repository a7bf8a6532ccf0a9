"""Administration of subscription groups (requests 200, 201, 207, 225, 352, 353)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from ... import logs
from ...errors import RequestRefused
from ...model import names
from ...model.codes import ResponseCode
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
from ..metadata.attributes import GROUP_ATTRIBUTES, alter
from .view import MOST_QUEUES, BrokerView, change, check, illegal

log = logs.get("pyromq.broker")


@dataclass(slots=True, eq=False, repr=False)
class GroupAdmin(BrokerView):
    """Event loop only. `saved` and `offsets_saved` return once the table is on disk, or raise RequestRefused;
    `forget` is called with each deleted group."""

    saved: Callable[[], Awaitable[None]]
    offsets_saved: Callable[[], Awaitable[None]]
    forget: Callable[[str], None]

    async def update(self, request: RequestOf[None, SubscriptionGroupConfig]) -> Reply:
        """Answer 200. Java answers a request without a body with success and does nothing; we say what is missing."""
        if not request.raw_body:
            raise RequestRefused("the body is empty: a SubscriptionGroupConfig is needed")
        after = self._checked(request.body)
        before = self.groups.find(after.group_name)
        self.groups.put(after)
        await self.saved()
        return Reply(noted=change(before, after))

    async def update_many(self, request: RequestOf[None, SubscriptionGroupList]) -> Reply:
        """Answer 225. All or none."""
        wanted = request.body.group_config_list
        checked = [self._checked(one) async for one in self.slices.each(wanted)]
        async for group in self.slices.each(checked):
            self.groups.put(group)
        await self.saved()
        return Reply(noted={"groups": [one.group_name for one in checked]})

    def _checked(self, wanted: SubscriptionGroupConfig) -> SubscriptionGroupConfig:
        check(names.group_fault(wanted.group_name))
        if wanted.retry_queue_nums < 0 or wanted.retry_max_times < -1:
            raise illegal(
                f"group {wanted.group_name}: retryQueueNums {wanted.retry_queue_nums} must not be negative, and "
                f"retryMaxTimes {wanted.retry_max_times} not below -1"
            )
        if wanted.retry_queue_nums > MOST_QUEUES:
            raise illegal(
                f"group {wanted.group_name}: retryQueueNums {wanted.retry_queue_nums} is more than {MOST_QUEUES}"
            )
        before = self.groups.find(wanted.group_name)
        attributes = alter(GROUP_ATTRIBUTES, None if before is None else before.attributes, wanted.attributes)
        return msgspec.structs.replace(wanted, attributes=attributes)

    async def delete(self, request: RequestOf[DeleteSubscriptionGroup, None]) -> Reply:
        """Delete a group. Its offsets, if they go too, leave the disk first: at no moment does a kill leave them alone.

        A new group of that name would begin where the deleted one was.
        """
        header = request.header
        if header.clean_offset:
            await self._drop_offsets(header.group_name)
        before = self.groups.find(header.group_name)
        if self.groups.delete(header.group_name):
            log.info("group deleted", group=header.group_name, peer=request.peer.address)
        self.forget(header.group_name)
        if header.clean_offset:
            await self._drop_offsets(header.group_name)  # what its members committed meanwhile
        await self.saved()
        return Reply(noted=change(before, None))

    async def _drop_offsets(self, group: str) -> None:
        self.offsets.drop_group(group)
        await self.offsets_saved()

    async def get_all(self, request: RequestOf[GetAllSubscriptionGroup, None]) -> Reply:
        """Answer 201: the whole table, or a page of it."""
        header = request.header
        wrapper = SubscriptionGroupWrapper(
            data_version=self.groups.version,
            forbidden_table={group: dict(topics) for group, topics in self.groups.forbidden.items()},
            subscription_group_table=self.groups.page(header.data_version, header.group_seq, header.max_group_num),
        )
        count = GetAllSubscriptionGroupAnswer(total_group_num=len(self.groups))
        return Reply(header=count, body=wrapper)

    def get(self, request: RequestOf[GroupName, None]) -> Reply:
        """Answer 352. For a missing group that a consumer's first request would make, with the settings that it would
        have then: Java's proxy asks so before it lets a new group in. Java makes the group by the question; we do not.
        """
        name = request.header.group
        group = self.groups.find(name)
        if group is None and self.groups.makes(name, self.live.config):
            group = SubscriptionGroupConfig(group_name=name)
        if group is None:
            raise RequestRefused(f"No group in this broker. group: {name}", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
        return Reply(body=group)

    async def forbid(self, request: RequestOf[UpdateGroupForbidden, None]) -> Reply:
        """Answer 353: whether a group may read a topic, after the change if one is wanted."""
        header = request.header
        if header.readable is not None:
            check(names.group_fault(header.group) or names.topic_fault(header.topic))
            self.groups.set_readable(header.group, header.topic, header.readable)
            await self.saved()
        readable = self.groups.may_read(header.group, header.topic)
        return Reply(body=GroupForbidden(group=header.group, topic=header.topic, readable=readable))
