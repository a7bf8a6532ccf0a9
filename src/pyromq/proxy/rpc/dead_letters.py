"""ForwardMessageToDeadLetterQueue: a message that its consumer gives up."""

from __future__ import annotations

from ...model.codes import ResponseCode
from ...model.pop_names import popped_topic
from ...model.receipt import Receipt
from ...protocol.grpc import v2
from ...protocol.grpc.v2 import Code
from ...protocol.headers.send import ConsumerSendMsgBack
from ...protocol.requests import RequestCode
from ..calls import Caller
from ..messages.names import check_group
from ..receipts import ack_header
from ..services import Services
from ..statuses import from_broker, refused, status

_AT_ONCE = -1  # the delay level of a dead letter


async def forward_to_dead_letter_queue(
    services: Services, caller: Caller, request: v2.ForwardMessageToDeadLetterQueueRequest
) -> v2.ForwardMessageToDeadLetterQueueResponse:
    topic, group = request.topic.name, request.group.name
    services.check_topic(topic)
    check_group(group)
    receipt = await services.renewals.newest(caller.client_id, group, request.receipt_handle)
    if receipt.position < 0:
        raise refused(Code.INVALID_RECEIPT_HANDLE, "commit log offset is empty")
    header = dead_letter_header(group, topic, receipt, request.message_id)
    answer = await services.ask(caller, receipt.broker, RequestCode.CONSUMER_SEND_MSG_BACK, header)
    if answer.code != ResponseCode.SUCCESS:
        raise from_broker(answer.code, answer.remark)
    services.spawn(_ack(services, caller, group, topic, receipt, request.lite_topic))
    return v2.ForwardMessageToDeadLetterQueueResponse(status=status(Code.OK, f"{answer.code:d}"))


async def _ack(services: Services, caller: Caller, group: str, topic: str, receipt: Receipt, lite_topic: str) -> None:
    header = ack_header(group, topic, receipt, lite_topic)
    await services.ask(caller, receipt.broker, RequestCode.ACK_MESSAGE, header)


def dead_letter_header(
    group: str, topic: str, receipt: Receipt, message_id: str, reason: str | None = None
) -> ConsumerSendMsgBack:
    return ConsumerSendMsgBack(
        offset=receipt.position,
        group=group,
        delay_level=_AT_ONCE,
        origin_msg_id=message_id or None,
        origin_topic=popped_topic(topic, group, receipt.retry),
        max_reconsume_times=0,
        bname=receipt.broker,
        pyro_reason=reason,
    )
