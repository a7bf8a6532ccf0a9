"""Asking brokers whether they can evaluate an SQL92 filter, before a consumer begins with it. Called by both kinds."""

from __future__ import annotations

from ...protocol.bodies.heartbeat import CheckClientRequestBody
from ...protocol.requests import RequestCode
from ..connect.session import Session
from ..subscription import Filter


async def check_at_brokers(session: Session, group: str, topic: str, wanted: Filter) -> None:
    """Ask the brokers whether they can evaluate the filter. Refused has the reason why one cannot."""
    known = session.known_route(topic)
    if known is None or not wanted.sql:
        return  # nobody to ask yet, or nothing to ask
    body = CheckClientRequestBody(client_id=session.client_id, group=group, subscription_data=wanted.describe(topic, 0))
    for name in known.addresses:
        if (address := known.master(name)) is not None:
            await session.ask(address, RequestCode.CHECK_CLIENT_CONFIG, None, body)
