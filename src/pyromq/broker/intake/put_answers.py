"""The answer to a request that put a message: stored, stored but late, or refused. For all that put for a client."""

from __future__ import annotations

from ...model.codes import ResponseCode
from ...transport.dispatch import Reply, Request
from ..config import BrokerConfig
from .intake import Outcome


def reply_to_put(outcome: Outcome, config: BrokerConfig) -> Reply:
    if outcome.refusal is not None:
        return Reply(outcome.refusal.code, remark=str(outcome.refusal))
    return Reply() if outcome.late is None else late_reply(config, {}, outcome.late)


def late_reply(config: BrokerConfig, fields: dict[str, str], code: ResponseCode) -> Reply:
    """Return what is said of a message that is stored, but not as safe as it was wanted."""
    slaves = config.needed_slaves
    if code == ResponseCode.SLAVE_NOT_AVAILABLE:
        few = f"stored, but fewer than {slaves} slaves are in sync (inSyncReplicas)"
        return Reply(ResponseCode.SLAVE_NOT_AVAILABLE, few, fields=fields)
    if code == ResponseCode.FLUSH_SLAVE_TIMEOUT and config.is_elected:
        unconfirmed = (
            f"not confirmed by the in-sync set within {config.slave_wait_ms} ms (slaveTimeout): it is readable once it "
            "is, and may be lost if another replica leads before"
        )
        return Reply(ResponseCode.FLUSH_SLAVE_TIMEOUT, unconfirmed, fields=fields)
    if code == ResponseCode.FLUSH_SLAVE_TIMEOUT:
        late = f"stored, but not on {slaves} slaves within {config.slave_wait_ms} ms (slaveTimeout)"
        return Reply(ResponseCode.FLUSH_SLAVE_TIMEOUT, late, fields=fields)
    return Reply(
        ResponseCode.FLUSH_DISK_TIMEOUT,
        remark=f"stored, but not on disk within {config.sync_flush_timeout} ms (syncFlushTimeout)",
        fields=fields,
    )


def answer(request: Request, reply: Reply) -> None:
    """Send a reply to whoever asked, unless the request is one-way."""
    request.answered(reply)
    if not request.command.is_oneway:
        request.note_answer(reply.code)
        request.peer.send(reply.to_command(request.command))
