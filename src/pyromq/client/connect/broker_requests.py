"""What brokers ask of a client: members changed (40), offsets reset (220) or wanted (221), state (307), a trial (309),
the end of a transaction (39); and the replies that they bring (326).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ... import logs
from ...errors import RequestRefused
from ...model.message import Property, StoredMessage
from ...protocol.bodies.connections import (
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
    ConsumeStatus,
    ProcessQueueInfo,
)
from ...protocol.bodies.keyed import ByQueue, MessageQueue
from ...protocol.bodies.offsets import GetConsumerStatusBody, ResetOffsetBody
from ...protocol.headers.clients import ConsumeMessageDirectly, GetConsumerRunningInfo
from ...protocol.headers.header import ConsumerGroupName
from ...protocol.headers.offsets import GetConsumerStatus, ResetOffset
from ...protocol.headers.send import CheckTransactionState, PushReplyMessage
from ...protocol.messages import read_messages
from ...protocol.requests import RequestCode
from ...transport.dispatch import Handler, Reply, Request, RequestOf, bind
from ..consume.consume_service import AssignedQueue
from ..consume.pull_consumer import PullConsumer
from ..consume.push_consumer import PushConsumer
from ..handle.stacks import stack_text
from ..pop.simple_consumer import SimpleConsumer
from ..produce.producer import Producer
from ..produce.requests import AwaitedReplies

log = logs.get("pyromq.client")


@dataclass(slots=True, eq=False, repr=False)
class BrokerRequests:
    """Event loop only. The client adds the consumers and producers that it makes."""

    consumers: list[PushConsumer | PullConsumer | SimpleConsumer] = field(default_factory=list)
    producers: list[Producer] = field(default_factory=list)
    replies: AwaitedReplies = field(default_factory=AwaitedReplies)

    def handlers(self) -> dict[int, Handler]:
        pairs = (
            bind(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, self.members_changed),
            bind(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, self.reset),
            bind(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, self.status),
            bind(RequestCode.GET_CONSUMER_RUNNING_INFO, self.running_info),
            bind(RequestCode.CONSUME_MESSAGE_DIRECTLY, self.consume_directly),
            bind(RequestCode.CHECK_TRANSACTION_STATE, self.check_transaction),
            bind(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, self.reply),
        )
        return dict(pairs)

    def _open(self, group: str) -> PushConsumer | PullConsumer | SimpleConsumer | None:
        return next((each for each in self.consumers if each.group == group and each.is_open), None)

    def _pushed(self, group: str) -> PushConsumer:
        if not isinstance(consumer := self._open(group), PushConsumer):
            raise RequestRefused(f"this client has no consumer of group {group}")
        return consumer

    def members_changed(self, request: RequestOf[ConsumerGroupName, None]) -> Reply:
        if (consumer := self._open(request.header.consumer_group)) is not None:  # it may have stopped a moment ago
            consumer.members_changed()
        return Reply()

    def reset(self, request: RequestOf[ResetOffset, ResetOffsetBody]) -> Reply:
        self._pushed(request.header.group).reset(request.body.offset_table)
        return Reply()

    def status(self, request: RequestOf[GetConsumerStatus, None]) -> Reply:
        offsets = {
            queue: assigned.process.commit_offset()
            for queue, assigned in self._pushed(request.header.group).assigned.items()
            if queue.topic == request.header.topic
        }
        table = ByQueue({queue: offset for queue, offset in offsets.items() if offset is not None})
        return Reply(body=GetConsumerStatusBody(message_queue_table=table))

    def running_info(self, request: RequestOf[GetConsumerRunningInfo, None]) -> Reply:
        consumer = self._pushed(request.header.consumer_group)
        failed = ConsumeStatus(consume_failed_msgs=consumer.runner.failed)
        return Reply(
            body=ConsumerRunningInfo(
                jstack=stack_text() if request.header.jstack_enable else None,
                mq_table=ByQueue({queue: _info(assigned) for queue, assigned in consumer.assigned.items()}),
                properties=consumer.facts(),
                subscription_set=consumer.describe().subscription_data_set,
                status_table=dict.fromkeys(sorted({queue.topic for queue in consumer.assigned}), failed),
            )
        )

    async def consume_directly(self, request: RequestOf[ConsumeMessageDirectly, bytes]) -> Reply:
        """Give this one message to the handler now; neither its offset nor a retry follows from it."""
        header = request.header
        consumer = self._pushed(header.consumer_group)
        message = _only_message(request)
        queue = MessageQueue(broker_name=header.broker_name or "", queue_id=message.queue_id, topic=message.topic)
        began = consumer.clock.now_ms()
        fault = await consumer.try_now(message, queue)
        result = ConsumeMessageDirectlyResult(
            order=bool(consumer.options.orderly),
            consume_result="CR_SUCCESS" if fault is None else "CR_THROW_EXCEPTION",
            remark=None if fault is None else repr(fault),
            spent_time_mills=consumer.clock.now_ms() - began,
        )
        return Reply(body=result)

    async def check_transaction(self, request: RequestOf[CheckTransactionState, bytes]) -> Reply:
        """Answer by a request of ours (37): the broker's is one-way."""
        half = _only_message(request)
        group = half.properties.get(Property.PGROUP, "")
        producer = next((each for each in reversed(self.producers) if each.group == group), None)
        if producer is None:
            raise RequestRefused(f"this client has no producer of group {group}")
        queue = MessageQueue(broker_name="", queue_id=half.queue_id, topic=half.topic)
        await producer.transactions.check(request.peer, request.header, producer.received(half, queue))
        return Reply()

    def reply(self, request: RequestOf[PushReplyMessage, bytes]) -> Reply:
        self.replies.deliver(request.header, request.body)
        return Reply()


def _only_message(request: Request) -> StoredMessage:
    """Return the record that a broker's request carries. RequestRefused, if it cannot be read: the connection stays."""
    found = read_messages(request.raw_body)
    why = found.broken or ("" if len(found.messages) == 1 else f"{len(found.messages)} messages came in place of one")
    if not why and found.unreadable:
        (message,) = found.unreadable
        why = f"message {message.message_id} at {message.physical_offset}: {message.fault}"
    if not why:
        return found.messages[0]
    code = request.command.code
    log.warning("a broker's request cannot be read", code=code, address=request.peer.address, fault=why)
    raise RequestRefused(f"the message of request {code} cannot be read: {why}")


def _info(assigned: AssignedQueue) -> ProcessQueueInfo:
    process = assigned.process
    return ProcessQueueInfo(
        commit_offset=process.commit_offset() or 0,
        cached_msg_count=len(process),
        cached_msg_min_offset=max(0, process.first),
        cached_msg_max_offset=max(0, process.last),
        cached_msg_size_in_mib=process.bytes >> 20,
        droped=process.is_dropped,
        last_pull_timestamp=assigned.pulled_ms,
        last_consume_timestamp=assigned.handled_ms,
        locked=assigned.locked_until > float("-inf"),
    )
