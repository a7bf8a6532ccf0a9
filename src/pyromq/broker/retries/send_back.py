"""Request 36: a consumer gives a message back. It waits and comes again on %RETRY%, or it ends in the dead letters.

The record is read from the log, not from the client, so it keeps its body, keys and origin. It waits through the delay
levels; this capability is handed the park and knows nothing else of timing. Without a policy of its own a group follows
the delay levels: 3 for the first retry, then one more each time. A list (CUSTOMIZED with `next`) or a back-off
(EXPONENTIAL) in the group's configuration takes their place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ... import logs
from ...config import Live
from ...errors import RequestRefused
from ...model import names
from ...model.client_info import Version
from ...model.codes import ResponseCode
from ...model.foreign_text import bounded_line
from ...model.ids import offset_message_id
from ...model.message import MOST_REASON_BYTES, WRAPPED_BATCH, Property
from ...model.topic import Perm, TopicFlag
from ...model.wire_text import INT_MAX
from ...protocol.access import Action
from ...protocol.bodies.groups import GroupRetryPolicy, SubscriptionGroupConfig
from ...protocol.bodies.topics import TopicConfig
from ...protocol.headers.send import ConsumerSendMsgBack
from ...protocol.properties import decode_properties, find_property
from ...protocol.record import Record
from ...transport.dispatch import Reply, Request, RequestOf
from ..config import BrokerConfig
from ..intake.intake import LogAccess, Outcome
from ..intake.parking import copy_record, fit_properties
from ..intake.put_answers import answer, reply_to_put
from ..metadata.groups import Groups
from ..metadata.topics import DLQ_QUEUES, Topics
from ..reading.record_rights import check_record
from ..stats.events import Events
from .dead_letters import DIED

log = logs.get("pyromq.broker")

WRITE = Perm.WRITE
FIRST_LEVEL = 3
_FIRST_TOPIC = Property.RETRY_TOPIC.encode()
MOST_DOUBLINGS = 32  # as Java: beyond it the longest time is reached in any case
_WAY = (  # what tells of ways that are behind the message, and goes where there is no room for it
    Property.OWN_REASON,
    Property.TIMER_ROLL_TIMES,
    Property.TIMER_OUT_MS,
    Property.REAL_TOPIC,
    Property.REAL_QID,
    Property.ORIGIN_MESSAGE_ID,
)


class Delay(Protocol):
    """`timing.level_park.LevelPark`."""

    def at_level(self, record: Record, level: int) -> Record: ...

    def until(self, record: Record, level: int, due_ms: int, now_ms: int) -> Record: ...


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SendBack:
    """Event loop only. `pick` chooses one of n queues."""

    live: Live[BrokerConfig]
    topics: Topics
    groups: Groups
    access: LogAccess
    delay: Delay
    pick: Callable[[int], int]
    events: Events = field(default_factory=Events)

    async def __call__(self, request: RequestOf[ConsumerSendMsgBack, None]) -> Reply | None:
        header = request.header
        config = self.live.config
        group = self._group(header, config)
        if group.retry_queue_nums <= 0:
            return Reply()  # the group does without redelivery, and Java says so with success
        retry = self._retry_topic(header, group)
        failed = await self.access.store.ask(lambda: self._failed(header))
        check_record(request.rights, failed, Action.SUB)  # else anybody could have any message sent to his own group
        most = group.retry_max_times
        if request.command.version >= Version.V3_4_9 and header.max_reconsume_times is not None:
            most = header.max_reconsume_times
        if header.delay_level < 0 or failed.reconsume_times >= most:
            record = self._dead(header, failed)
        else:
            record = self._retry_record(header, failed, group, retry)
        self._put(request, record, config)
        return None

    # --- checks ---------------------------------------------------------------------------------------------------

    def _group(self, header: ConsumerSendMsgBack, config: BrokerConfig) -> SubscriptionGroupConfig:
        group = self.groups.ensure(header.group, config)
        if group is None:
            raise RequestRefused(
                f"subscription group not exist, {header.group}: create it (mqadmin updateSubGroup -g {header.group}), "
                f"or allow autoCreateSubscriptionGroup",
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            )
        if not config.broker_permission & WRITE:
            raise RequestRefused(
                f"the broker[{config.broker_name}] sending message is forbidden: "
                f"brokerPermission is {config.broker_permission}",
                ResponseCode.NO_PERMISSION,
            )
        return group

    def _retry_topic(self, header: ConsumerSendMsgBack, group: SubscriptionGroupConfig) -> TopicConfig:
        flag = TopicFlag.UNIT_SUB if header.unit_mode else 0
        topic = self.topics.ensure(names.retry_topic(header.group), group.retry_queue_nums, sys_flag=flag)
        if not topic.perm & WRITE:
            raise RequestRefused(
                f"the topic[{topic.topic_name}] sending message is forbidden: its permission is {topic.perm}",
                ResponseCode.NO_PERMISSION,
            )
        return topic

    def _failed(self, header: ConsumerSendMsgBack) -> Record:
        record = self.access.store.reader.record_at(header.offset)
        if record is None:
            raise RequestRefused(
                f"look message by offset failed, {header.offset}: no record starts there, the log holds "
                f"{self.access.store.commit_log.start} to {self.access.store.readable.value}"
            )
        if record.sys_flag & WRAPPED_BATCH:
            raise RequestRefused(
                f"the record at {header.offset} is a batch kept as one: which of its messages failed cannot be said by "
                f"an offset. Send the message itself to {names.retry_topic(header.group)}, as clients do after this"
            )
        return record

    # --- what is stored -------------------------------------------------------------------------------------------

    def _retry_record(
        self, header: ConsumerSendMsgBack, failed: Record, group: SubscriptionGroupConfig, retry: TopicConfig
    ) -> Record:
        before = failed.reconsume_times
        level = header.delay_level or FIRST_LEVEL + before
        pairs = self._pairs(failed) | {Property.DELAY: str(level)}
        record = self._record(failed, retry.topic_name, self.pick(max(1, retry.write_queue_nums)), pairs)
        own_ms = policy_delay_ms(group.group_retry_policy, before) if header.delay_level == 0 else None
        if own_ms is None:
            return self.delay.at_level(record, level)
        now_ms = self.access.clock.now_ms()
        return self.delay.until(record, level, now_ms + own_ms, now_ms)

    def _dead(self, header: ConsumerSendMsgBack, failed: Record) -> Record:
        topic = self.topics.ensure(names.dlq_topic(header.group), DLQ_QUEUES)
        pairs = self._pairs(failed) | {Property.DELAY: "0"}
        if reason := bounded_line(header.pyro_reason or "", MOST_REASON_BYTES):
            pairs[Property.OWN_REASON] = reason
        log.warning(
            "message goes to the dead letters",
            group=header.group,
            topic=pairs[Property.RETRY_TOPIC],
            key=pairs.get(Property.UNIQ_KEY),
            attempts=failed.reconsume_times + 1,
            reason=reason,
        )
        return self._record(failed, topic.topic_name, self.pick(DLQ_QUEUES), pairs)

    def _pairs(self, failed: Record) -> dict[str, str]:
        """Return the message's properties. Its first topic and first id stay with it through all retries."""
        pairs = decode_properties(failed.properties)
        for own in (DIED, Property.OWN_REASON):  # it has not died yet, whatever its sender says
            pairs.pop(own, None)
        pairs.setdefault(Property.RETRY_TOPIC, failed.topic)
        pairs.setdefault(Property.ORIGIN_MESSAGE_ID, offset_message_id(failed.store_host, failed.physical_offset))
        pairs[Property.WAIT] = "false"
        return pairs

    def _record(self, failed: Record, topic: str, queue_id: int, pairs: Mapping[str, str]) -> Record:
        record = copy_record(failed, fit_properties(pairs, "retry", _WAY), topic, queue_id, self.access.store_host)
        record.reconsume_times = min(failed.reconsume_times + 1, INT_MAX)  # a sender may have set it to anything
        return record

    def _put(self, request: Request, record: Record, config: BrokerConfig) -> None:
        def done(outcome: Outcome) -> None:
            if outcome.refusal is None and not outcome.late:
                self.access.count(record.topic, record.queue_id, 1, outcome.places[-1].size)
                if record.topic.startswith(names.DLQ_PREFIX):
                    first = find_property(record.properties, _FIRST_TOPIC) or b""
                    self.events.dead[record.topic.removeprefix(names.DLQ_PREFIX), first.decode()] += 1
            answer(request, reply_to_put(outcome, config))

        # The consumer commits the old message once this is answered: it waits for the disk where sends do.
        self.access.intake.put(record, done, config.put_wait_s)


def policy_delay_ms(policy: GroupRetryPolicy, failed_before: int) -> int | None:
    """Return milliseconds by the group's own policy, None if it has none. The last time of a list goes on for ever."""
    exponential = policy.exponential_retry_policy
    if policy.type == "EXPONENTIAL" and exponential is not None:
        grown: int = exponential.initial * max(1, exponential.multiplier) ** min(max(failed_before, 0), MOST_DOUBLINGS)
        return max(0, min(grown, exponential.max))
    custom = policy.customized_retry_policy
    if policy.type == "CUSTOMIZED" and custom is not None and custom.next:
        return max(0, custom.next[min(max(failed_before, 0), len(custom.next) - 1)])
    return None
