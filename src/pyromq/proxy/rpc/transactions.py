"""EndTransaction and RecallMessage: what a producer decides of a message that waits."""

from __future__ import annotations

from ...model.codes import ResponseCode
from ...model.message import Property, SysFlag
from ...model.names import HALF_TOPIC
from ...model.recall_handle import BadHandle, decode_handle
from ...model.wire_text import LONG_MAX
from ...protocol.grpc import v2
from ...protocol.grpc.v2 import Code, TransactionResolution, TransactionSource
from ...protocol.headers.pull import QueryMessage
from ...protocol.headers.send import EndTransaction, RecallMessage
from ...protocol.properties import decode_properties
from ...protocol.requests import RequestCode
from ..calls import Caller
from ..messages.convert import MIXED
from ..messages.popped import records_of
from ..services import Services
from ..statuses import OK, Denied, from_broker, no_route, refused
from ..transactions import SentHalf

_UNKNOWN = "cannot found transaction data"
_DECISIONS = {
    TransactionResolution.COMMIT: SysFlag.TRANSACTION_COMMIT,
    TransactionResolution.ROLLBACK: SysFlag.TRANSACTION_ROLLBACK,
}
_CANDIDATES = 8


async def end_transaction(
    services: Services, caller: Caller, request: v2.EndTransactionRequest
) -> v2.EndTransactionResponse:
    """Commit or roll back, and say OK once the broker has it. A transaction that is not remembered is looked for."""
    topic, transaction_id = request.topic.name, request.transaction_id
    services.check_topic(topic)
    if not transaction_id.strip():
        raise Denied(Code.INVALID_TRANSACTION_ID, "transaction id cannot be empty")
    memory = services.transactions
    half = memory.newest(topic, transaction_id)
    if half is None and not memory.is_decided(topic, transaction_id):
        half = await _found(services, caller, topic, transaction_id)
    if half is None:
        raise refused(Code.INTERNAL_SERVER_ERROR, _UNKNOWN)
    decision = _DECISIONS.get(TransactionResolution(request.resolution))
    if decision is None:
        return v2.EndTransactionResponse(status=OK)  # nothing is decided: a check asks again
    header = EndTransaction(
        topic=topic,
        producer_group=topic,
        tran_state_table_offset=half.half_offset,
        commit_log_offset=half.position,
        commit_or_rollback=decision,
        from_transaction_check=request.source == TransactionSource.SOURCE_SERVER_CHECK,
        msg_id=request.message_id or half.message_id,
        transaction_id=transaction_id,
        bname=half.broker,
    )
    answer = await services.ask(caller, half.broker, RequestCode.END_TRANSACTION, header)
    if answer.code != ResponseCode.SUCCESS:
        raise from_broker(answer.code, answer.remark)
    memory.decide(topic, transaction_id)
    return v2.EndTransactionResponse(status=OK)


async def _found(services: Services, caller: Caller, topic: str, transaction_id: str) -> SentHalf | None:
    """Return the half message by its id, asking the topic's brokers: it was sent elsewhere, or long ago."""
    route = await services.backend.route(topic)
    for broker in sorted({one.broker_name for one in route.queue_datas}):
        query = QueryMessage(
            topic=HALF_TOPIC,
            key=transaction_id,
            max_num=_CANDIDATES,
            begin_timestamp=0,
            end_timestamp=LONG_MAX,
            unique_key_query=True,
        )
        answer = await services.ask(caller, broker, RequestCode.QUERY_MESSAGE, query)
        if answer.code != ResponseCode.SUCCESS:
            continue
        for record in records_of(answer.body):
            properties = decode_properties(record.properties)
            is_it = properties.get(Property.UNIQ_KEY) == transaction_id
            if is_it and record.topic == HALF_TOPIC and properties.get(Property.REAL_TOPIC) == topic:
                now = services.clock.now_ms()
                return SentHalf(broker, record.queue_offset, record.physical_offset, transaction_id, now)
    return None


async def recall_message(
    services: Services, caller: Caller, request: v2.RecallMessageRequest
) -> v2.RecallMessageResponse:
    topic = request.topic.name
    services.check_topic(topic)
    expected = await services.backend.topic_type(topic)
    if expected is None:
        raise no_route(topic)
    if expected not in ("DELAY", MIXED):
        raise refused(
            Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
            f"TopicMessageType validate failed, the expected type is {expected}, but actual type is DELAY",
        )
    try:
        handle = decode_handle(request.recall_handle)
    except BadHandle as fault:
        raise refused(Code.INTERNAL_SERVER_ERROR, str(fault)) from None
    header = RecallMessage(producer_group=topic, topic=topic, recall_handle=request.recall_handle, bname=handle.broker)
    try:
        answer = await services.ask(caller, handle.broker, RequestCode.RECALL_MESSAGE, header)
    except Denied as fault:
        if fault.code == Code.INVALID_RECEIPT_HANDLE:  # no such broker
            raise refused(Code.BAD_REQUEST, f"cannot find broker {handle.broker}") from None
        raise
    if answer.code != ResponseCode.SUCCESS:
        raise from_broker(answer.code, answer.remark)
    return v2.RecallMessageResponse(status=OK, message_id=answer.fields.get("msgId", handle.unique))
