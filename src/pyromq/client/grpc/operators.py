"""What operators ask of a member through its telemetry stream: what it does now (307), a trial of a message (309)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ...model.message import StoredMessage
from ...protocol.bodies.keyed import MessageQueue
from ...protocol.grpc import v2
from ..handle.stacks import stack_text
from .messages import received_message

Trial = Callable[[StoredMessage, MessageQueue], Awaitable[Exception | None]]

_NO_HANDLER = "this client has no push consumer, which could consume it"


async def answer_to(command: v2.TelemetryCommand, trial: Trial | None) -> v2.TelemetryCommand | None:
    """Return the answer; None, if it is no question of theirs. `trial` gives a message to the handler."""
    if command.HasField("print_thread_stack_trace_command"):
        asked = command.print_thread_stack_trace_command
        stack = v2.ThreadStackTrace(nonce=asked.nonce, thread_stack_trace=stack_text())
        return v2.TelemetryCommand(status=v2.Status(code=v2.Code.OK), thread_stack_trace=stack)
    if command.HasField("verify_message_command"):
        status = await _trial(command.verify_message_command.message, trial)
        result = v2.VerifyMessageResult(nonce=command.verify_message_command.nonce)
        return v2.TelemetryCommand(status=status, verify_message_result=result)
    return None


async def _trial(message: v2.Message, trial: Trial | None) -> v2.Status:
    if trial is None:
        return v2.Status(code=v2.Code.NOT_IMPLEMENTED, message=_NO_HANDLER)
    try:
        stored = received_message(message)
    except ValueError as unreadable:
        return v2.Status(code=v2.Code.MESSAGE_CORRUPTED, message=str(unreadable))
    queue = MessageQueue(broker_name="", queue_id=stored.queue_id, topic=stored.topic)
    fault = await trial(stored, queue)
    if fault is None:
        return v2.Status(code=v2.Code.OK)
    return v2.Status(code=v2.Code.FAILED_TO_CONSUME_MESSAGE, message=repr(fault))
