"""What clients say of themselves: heartbeats, farewells, membership, queue locks (requests 34, 35, 38, 41, 42, 46).

A few lines each over `consumers`, `producers` and `order_locks`; this is where notices become frames.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from ... import logs
from ...access.sharing.behalf import sender_of
from ...ambient import Clock
from ...config import Live
from ...errors import RequestRefused
from ...model import names
from ...model.codes import ResponseCode
from ...model.filters.sql92 import SQL92, FilterFault
from ...model.group import ConsumeType
from ...model.topic import Perm, TopicFlag
from ...protocol.bodies.groups import SubscriptionGroupConfig
from ...protocol.bodies.heartbeat import (
    CheckClientRequestBody,
    ConsumerData,
    GetConsumerListByGroupResponseBody,
    HeartbeatData,
    LockBatchRequestBody,
    LockBatchResponseBody,
)
from ...protocol.bodies.keyed import MessageQueue
from ...protocol.bodies.own import ALIKE, RefusedGroups
from ...protocol.command import ONEWAY_FLAG, Command
from ...protocol.headers.clients import HeartbeatAnswer, UnregisterClient
from ...protocol.headers.header import ConsumerGroupName
from ...protocol.requests import RequestCode
from ...transport.dispatch import Answer, Reply, Request, RequestOf
from ...transport.peer import Peer
from ...transport.turns.slices import Slices
from ..config import BrokerConfig
from ..filters.filters import check_enabled, check_expression, filter_for, is_by_tags, parsed
from ..metadata.groups import Groups
from ..metadata.topics import Topics
from .consumers import Consumers, Notice
from .filter_data import ConsumerFilters
from .heartbeat_checks import check_content, check_labels, check_size, check_tables, expressions
from .order_locks import OrderLocks
from .producers import Producers
from .subscriptions import Conflict

log = logs.get("pyromq.broker")

_SAID_AGAIN_S = 10.0  # a client whose heartbeat is refused may try each second
_AT_ONCE = 600  # subscriptions of a heartbeat that are registered before others are served: one or two milliseconds
_GROUP_WORK = 30  # that a group costs besides, counted in subscriptions
_COMPILED_AT_ONCE = 4_096  # characters of expressions: one or two milliseconds


@dataclass(eq=False, repr=False)
class ClientHandlers:
    """Event loop only. `keep_locks` returns once new owners of queues are on disk. `memory_bytes`: of this process."""

    live: Live[BrokerConfig]
    clock: Clock
    topics: Topics
    groups: Groups
    consumers: Consumers
    producers: Producers
    locks: OrderLocks
    filters: ConsumerFilters
    keep_locks: Callable[[], Awaitable[None]]
    memory_bytes: int = 0

    def __post_init__(self) -> None:
        self._slices = Slices(self.clock)
        self._few = logs.Limited(log, self.clock, _SAID_AGAIN_S)

    # --- 34 -------------------------------------------------------------------------------------------------------

    def heartbeat(self, request: Request) -> Answer:
        beat = self._checked_beat(request)
        texts = expressions(beat)
        work = sum(_GROUP_WORK + len(data.subscription_data_set) for data in beat.consumer_data_set)
        if work > _AT_ONCE or sum(map(len, texts)) > _COMPILED_AT_ONCE:
            return self._in_turns(request, beat, texts)
        heard = [self._consumer(request.peer, beat, one) for one in beat.consumer_data_set]
        return self._answer(request, beat, heard)

    def _checked_beat(self, request: RequestOf[None, HeartbeatData]) -> HeartbeatData:
        """Return the heartbeat, checked. A refusal is logged here too: most clients keep the answer to themselves."""
        config, client = self.live.config, "not read"
        try:
            check_size(request.raw_body, config)
            beat = request.body
            client = beat.client_id
            check_content(beat, config)
            check_tables(request.peer, beat, self.consumers, self.producers, self.groups, config, self.memory_bytes)
        except RequestRefused as fault:
            self._few.warning("heartbeat refused", client=client, peer=request.peer.address, why=str(fault))
            raise
        return beat

    async def _in_turns(self, request: Request, beat: HeartbeatData, texts: Iterable[str]) -> Reply | None:
        """Serve a heartbeat with many groups or long expressions in slices. None: the client has gone meanwhile."""
        peer = request.peer
        async for text in self._slices.each(texts):
            with suppress(FilterFault):  # whoever registers it tells
                filter_for(SQL92, text)
        heard = []
        async for one in self._slices.each(beat.consumer_data_set):
            if not peer.is_open:
                return None
            heard.append(self._consumer(peer, beat, one))
        return self._answer(request, beat, heard) if peer.is_open else None

    def _answer(self, request: Request, beat: HeartbeatData, heard: list[bool | Conflict]) -> Reply:
        peer = request.peer
        self._leave_unnamed(peer, beat)
        if self.live.config.enable_register_producer:
            now, now_ms = self.clock.monotonic(), self.clock.now_ms()
            who = (request.rights, sender_of(request.command, request.principal))
            for producer in beat.producer_data_set:
                self.producers.register(peer, beat.client_id, producer.group_name, now, now_ms, *who)
        refused = {one.group: str(one) for one in heard if isinstance(one, Conflict)}
        if refused:  # the other groups of this client are registered all the same
            return Reply(
                ResponseCode.SYSTEM_ERROR,
                f"refused, since {ALIKE}: {'; '.join(refused.values())}",
                body=RefusedGroups(refused_groups=refused),
            )
        # To a full heartbeat Java answers "changed" too, which makes the client send another full one next time.
        changed = any(heard) if beat.heartbeat_fingerprint else True
        return Reply(header=HeartbeatAnswer(is_support_heart_beat_v2=True, is_sub_change=changed))

    def _leave_unnamed(self, peer: Peer, beat: HeartbeatData) -> None:
        named = {one.group_name for one in beat.consumer_data_set}
        removed = self.consumers.leave_unnamed(peer, beat.client_id, named, self._silent_since())
        self._end_filters(removed)
        for name, notice in removed.items():
            log.info("a client has left a group: its heartbeat does not name it", group=name, client=beat.client_id)
            self._notify_of(notice, self.groups.find(name))

    def _consumer(self, peer: Peer, beat: HeartbeatData, data: ConsumerData) -> bool | Conflict:
        """Return True if the client must say again what it subscribes to; how it differs, if that is why it is no
        member."""
        config = self.live.config
        if config.reject_pull_consumer_enable and data.consume_type is ConsumeType.ACTIVELY:
            return False
        group = self.groups.ensure(data.group_name, config)
        if group is None:
            return False  # as Java: the heartbeat of an unknown group is passed over, its pulls are refused
        short = bool(beat.heartbeat_fingerprint) and beat.without_sub
        if config.refuse_conflicting_subscriptions and not names.is_system_group(data.group_name):
            if short and not self.consumers.has_member(data.group_name, peer):
                return True  # it may differ: it is a member once it has said what it subscribes to
            conflict = None if short else self.consumers.conflict_with_others(peer, beat.client_id, data)
            if conflict is not None:
                self._notify_of(self.consumers.refuse(peer, conflict), group)
                return conflict
        self._retry_topic(data, group.retry_queue_nums)
        now, fingerprint = self.clock.monotonic(), beat.heartbeat_fingerprint
        registered = self.consumers.register(peer, beat.client_id, data, now, fingerprint=fingerprint, short=short)
        if not short:
            self.filters.register(data.group_name, data.subscription_data_set)
        self._notify_of(registered.notice, group)
        return registered.wants_subscriptions

    def _retry_topic(self, data: ConsumerData, queues: int) -> None:
        flag = TopicFlag.UNIT_SUB if data.unit_mode else 0
        topic = self.topics.ensure(names.retry_topic(data.group_name), queues, Perm.READ_WRITE, flag)
        subscribed = (self.topics.find(one.topic) for one in data.subscription_data_set)
        order = any(found is not None and found.order for found in subscribed)
        if topic.order != order and data.subscription_data_set:
            self.topics.put(msgspec.structs.replace(topic, order=order))

    # --- 35, 38, 46 -----------------------------------------------------------------------------------------------

    def unregister(self, request: RequestOf[UnregisterClient, None]) -> Reply:
        header = request.header
        if header.producer_group is not None:
            self.producers.unregister(request.peer, header.producer_group)
        if header.consumer_group is not None:
            notice = self.consumers.unregister(request.peer, header.consumer_group)
            self._end_filters([header.consumer_group])
            self._notify_of(notice, self.groups.find(header.consumer_group))
        return Reply()

    def list_members(self, request: RequestOf[ConsumerGroupName, None]) -> Reply:
        name = request.header.consumer_group
        group = self.consumers.find(name)
        if group is None:
            raise RequestRefused(f"no consumer for this group, {name}")
        return Reply(body=GetConsumerListByGroupResponseBody(consumer_id_list=group.client_ids))

    def check_config(self, request: RequestOf[None, CheckClientRequestBody]) -> Reply:
        """Answer 46: whether a subscription that is not by tags can be served."""
        config = self.live.config
        check_size(request.raw_body, config)
        wanted = request.body.subscription_data
        check_expression(wanted.topic, len(wanted.tags_set), wanted.sub_string, config)
        check_enabled(wanted.expression_type, config.enable_property_filter)
        if not is_by_tags(wanted.expression_type):
            parsed(wanted.expression_type, wanted.sub_string)
        return Reply()

    # --- 41, 42 ---------------------------------------------------------------------------------------------------

    async def lock(self, request: Request) -> Reply:
        wanted = self._wanted_locks(request)
        is_known = wanted.consumer_group in self.groups
        existing = [queue for queue in wanted.mq_set if is_known and self._has_queue(queue)]
        granted = self.locks.lock(wanted.consumer_group, wanted.client_id, existing, self.clock.monotonic())
        await self.keep_locks()
        return Reply(body=LockBatchResponseBody(lock_ok_mq_set=granted))

    async def unlock(self, request: Request) -> Reply:
        wanted = self._wanted_locks(request)
        self.locks.unlock(wanted.consumer_group, wanted.client_id, wanted.mq_set)
        await self.keep_locks()
        return Reply()

    def _wanted_locks(self, request: RequestOf[None, LockBatchRequestBody]) -> LockBatchRequestBody:
        check_size(request.raw_body, self.live.config)
        wanted = request.body
        check_labels(wanted.client_id, wanted.consumer_group)
        return wanted

    def _has_queue(self, queue: MessageQueue) -> bool:
        """Return whether the queue is here. One that is not is locked for nobody: the table must have an end."""
        topic = self.topics.find(queue.topic)
        return (
            topic is not None
            and queue.broker_name == self.live.config.broker_name
            and 0 <= queue.queue_id < max(topic.read_queue_nums, topic.write_queue_nums)
        )

    # --- connections ----------------------------------------------------------------------------------------------

    def lost(self, peer: Peer) -> None:
        """Forget the clients of a connection that has ended, for whatever reason."""
        self.producers.lose(peer)
        groups = self.consumers.groups_of(peer)
        self.notify(self.consumers.lose(peer))
        self._end_filters(groups)

    def _end_filters(self, groups: Iterable[str]) -> None:
        for name in groups:
            if self.consumers.find(name) is None:
                self.filters.unregister(name)

    def housekeep(self) -> None:
        """Close connections whose clients fell silent (their end makes `lost` happen), forget expired locks."""
        now, silent = self.clock.monotonic(), self._silent_since()
        for peer in {*self.consumers.silent_since(silent), *self.producers.silent_since(silent)}:
            log.warning("client fell silent", peer=peer.address)
            self.lost(peer)
            peer.close("no heartbeat")
        self.locks.sweep(now)

    def _silent_since(self) -> float:
        return self.clock.monotonic() - self.live.config.channel_expired_timeout / 1000

    def _notify_of(self, notice: Notice | None, group: SubscriptionGroupConfig | None) -> None:
        if notice is not None and (group is None or group.notify_consumer_ids_changed_enable):
            self.notify([notice])

    def notify(self, notices: Iterable[Notice]) -> None:
        """Tell members that their group has changed, so that they share the queues anew at once."""
        if not self.live.config.notify_consumer_ids_changed_enable:
            return
        for notice in notices:
            fields = ConsumerGroupName(consumer_group=notice.group).to_fields()
            for peer in notice.peers:
                peer.send(Command(code=RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, flag=ONEWAY_FLAG, fields=dict(fields)))
