"""What brokers ask of a client: members changed (40), offsets reset (220) or wanted (221), state (307), a trial (309),
the end of a transaction (39); and the replies that they bring (326).
"""

from __future__ import annotations

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
from ..produce.producer import Producer
from ..produce.requests import AwaitedReplies
from .stacks import stacks

log = logs.get("pyromq.client")


class BrokerRequests:
    """Event loop only. Consumers are added while they run."""

    def __init__(self) -> None:
        self._consumers: dict[str, PushConsumer] = {}
        self._pull_consumers: dict[str, PullConsumer] = {}
        self._producers: dict[str, Producer] = {}
        self.replies = AwaitedReplies()

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

    def add(self, consumer: PushConsumer) -> None:
        self._consumers[consumer.group] = consumer

    def add_pull(self, consumer: PullConsumer) -> None:
        self._pull_consumers[consumer.group] = consumer

    def add_producer(self, producer: Producer) -> None:
        self._producers[producer.group] = producer

    def _find(self, group: str) -> PushConsumer:
        consumer = self._consumers.get(group)
        if consumer is None or not consumer.is_open:
            raise RequestRefused(f"this client has no consumer of group {group}")
        return consumer

    def members_changed(self, request: RequestOf[ConsumerGroupName, None]) -> Reply:
        group = request.header.consumer_group
        consumer = self._consumers.get(group) or self._pull_consumers.get(group)
        if consumer is not None:  # it may have stopped a moment ago
            consumer.members_changed()
        return Reply()

    def reset(self, request: RequestOf[ResetOffset, ResetOffsetBody]) -> Reply:
        consumer = self._find(request.header.group)
        consumer.reset(request.body.offset_table)
        return Reply()

    def status(self, request: RequestOf[GetConsumerStatus, None]) -> Reply:
        header = request.header
        consumer = self._find(header.group)
        table: ByQueue[int] = ByQueue()
        for queue, assigned in consumer.assigned.items():
            offset = assigned.process.commit_offset()
            if queue.topic == header.topic and offset is not None:
                table[queue] = offset
        return Reply(body=GetConsumerStatusBody(message_queue_table=table))

    def running_info(self, request: RequestOf[GetConsumerRunningInfo, None]) -> Reply:
        header = request.header
        consumer = self._find(header.consumer_group)
        queues: ByQueue[ProcessQueueInfo] = ByQueue()
        queues.update({queue: _info(assigned) for queue, assigned in consumer.assigned.items()})
        described = consumer.describe()
        return Reply(
            body=ConsumerRunningInfo(
                jstack=stacks() if header.jstack_enable else None,
                mq_table=queues,
                properties=consumer.facts(),
                subscription_set=described.subscription_data_set,
                status_table=_statuses(consumer, queues),
            )
        )

    async def consume_directly(self, request: RequestOf[ConsumeMessageDirectly, bytes]) -> Reply:
        """Give this one message to the handler now; neither its offset nor a retry follows from it."""
        header = request.header
        consumer = self._find(header.consumer_group)
        message = _only_message(request)
        queue = MessageQueue(broker_name=header.broker_name or "", queue_id=message.queue_id, topic=message.topic)
        began = consumer.now_ms()
        (fault,) = await consumer.runner([consumer.received(message, queue)])
        result = ConsumeMessageDirectlyResult(
            order=consumer.options.orderly,
            consume_result="CR_SUCCESS" if fault is None else "CR_THROW_EXCEPTION",
            remark=None if fault is None else repr(fault),
            spent_time_mills=consumer.now_ms() - began,
        )
        return Reply(body=result)

    async def check_transaction(self, request: RequestOf[CheckTransactionState, bytes]) -> Reply:
        """Answer by a request of ours (37): the broker's is one-way."""
        half = _only_message(request)
        group = half.properties.get(Property.PGROUP, "")
        producer = self._producers.get(group)
        if producer is None:
            raise RequestRefused(f"this client has no producer of group {group}")
        queue = MessageQueue(broker_name="", queue_id=half.queue_id, topic=half.topic)
        header = request.header
        await producer.transactions.check(request.peer, header, producer.received(half, queue))
        return Reply()

    def reply(self, request: RequestOf[PushReplyMessage, bytes]) -> Reply:
        self.replies.deliver(request.header, request.body)
        return Reply()


def _only_message(request: Request) -> StoredMessage:
    """Return the record that a broker's request carries.

    RequestRefused says why it cannot be read: the connection stays.
    """
    found = read_messages(request.raw_body)
    if found.broken or len(found.messages) != 1:
        raise _refused(request, found.broken or f"{len(found.messages)} messages came in place of one")
    if found.unreadable:
        (message,) = found.unreadable
        raise _refused(request, f"message {message.message_id} at {message.physical_offset}: {message.fault}")
    return found.messages[0]


def _refused(request: Request, why: str) -> RequestRefused:
    code = request.command.code
    log.warning("a broker's request cannot be read", code=code, address=request.peer.address, fault=why)
    return RequestRefused(f"the message of request {code} cannot be read: {why}")


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


def _statuses(consumer: PushConsumer, queues: ByQueue[ProcessQueueInfo]) -> dict[str, ConsumeStatus]:
    failed = consumer.runner.failed
    return {topic: ConsumeStatus(consume_failed_msgs=failed) for topic in sorted({queue.topic for queue in queues})}
