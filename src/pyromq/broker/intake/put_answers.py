"""The answer to a request that put a message: stored, stored but late, or refused. For all that put for a client."""

from __future__ import annotations

from ...model.codes import ResponseCode
from ...transport.dispatch import Reply, Request
from ..config import BrokerConfig
from .intake import Outcome


def reply_to_put(outcome: Outcome, config: BrokerConfig) -> Reply:
    if outcome.refusal is not None:
        return Reply(outcome.refusal.code, remark=str(outcome.refusal))
    return late_reply(config, {}) if outcome.late else Reply()


def late_reply(config: BrokerConfig, fields: dict[str, str]) -> Reply:
    return Reply(
        ResponseCode.FLUSH_DISK_TIMEOUT,
        remark=f"stored, but not on disk within {config.sync_flush_timeout} ms (syncFlushTimeout)",
        fields=fields,
    )


def answer(request: Request, reply: Reply) -> None:
    """Send a reply to whoever asked, unless the request is one-way."""
    if not request.command.is_oneway:
        request.peer.send(reply.to_command(request.command))
