"""AckMessage and ChangeInvisibleDuration."""

from __future__ import annotations

import asyncio

from ...model.codes import ResponseCode
from ...protocol.grpc import v2
from ...protocol.grpc.v2 import Code
from ...protocol.requests import RequestCode
from ..calls import Caller
from ..messages.names import check_group, check_invisible
from ..receipts import ack_header, change_header, changed_receipt, check_valid
from ..services import Services
from ..statuses import OK, Denied, status, status_of


async def ack_message(services: Services, caller: Caller, request: v2.AckMessageRequest) -> v2.AckMessageResponse:
    services.check_topic(request.topic.name)
    check_group(request.group.name)
    if not request.entries:
        raise Denied(Code.INTERNAL_SERVER_ERROR, "ack message result is empty")
    results = await asyncio.gather(*(_ack(services, caller, request, entry) for entry in request.entries))
    codes = {result.status.code for result in results}
    code = Code(codes.pop()) if len(codes) == 1 else Code.MULTIPLE_RESULTS
    return v2.AckMessageResponse(status=status(code), entries=results)


async def _ack(
    services: Services, caller: Caller, request: v2.AckMessageRequest, entry: v2.AckMessageEntry
) -> v2.AckMessageResultEntry:
    group, handle = request.group.name, entry.receipt_handle
    result = OK
    try:
        receipt = await services.renewals.newest(caller.client_id, group, handle)
        check_valid(receipt, services.clock.now_ms())
        header = ack_header(group, request.topic.name, receipt, entry.lite_topic)
        answer = await services.ask(caller, receipt.broker, RequestCode.ACK_MESSAGE, header)
        if answer.code != ResponseCode.SUCCESS:
            raise Denied(Code.INTERNAL_SERVER_ERROR, "ack failed: status is abnormal")
    except Exception as fault:
        result = status_of(fault, "AckMessage")
    return v2.AckMessageResultEntry(message_id=entry.message_id, receipt_handle=handle, status=result)


async def change_invisible_duration(
    services: Services, caller: Caller, request: v2.ChangeInvisibleDurationRequest
) -> v2.ChangeInvisibleDurationResponse:
    topic, group = request.topic.name, request.group.name
    services.check_topic(topic)
    check_group(group)
    invisible_ms = request.invisible_duration.ToMilliseconds()
    check_invisible(invisible_ms, 0, services.settings.max_invisible_time_mills)
    receipt = await services.renewals.newest(caller.client_id, group, request.receipt_handle)
    check_valid(receipt, services.clock.now_ms())
    header = change_header(group, topic, receipt, invisible_ms, suspend=request.suspend, lite_topic=request.lite_topic)
    answer = await services.ask(caller, receipt.broker, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header)
    changed = changed_receipt(receipt, answer)
    return v2.ChangeInvisibleDurationResponse(status=OK, receipt_handle=changed.encode_with_position())
