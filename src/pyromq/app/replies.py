"""What a function with `replies=True` returns, on its way to who asked by `producer.request`.

The function has done its work by then. A reply that nobody gets is therefore named in the log, and its message is done:
to handle it again would repeat the work for someone who has stopped waiting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .. import logs
from ..client.errors import BadMessage, Closed, Error
from ..client.produce.producer import Producer
from ..client.produce.requests import reply_properties, reply_topic
from ..client.received import Received


@dataclass(slots=True, eq=False)
class Replies:
    """Event loop only. One per function."""

    producer: Producer
    few: logs.Limited  # one line in a while: a service may have many late replies

    async def send(self, request: Received, value: Any) -> None:
        """Reply, again while no broker can be reached, as a send. BadMessage for a value that cannot be sent."""
        about = {"group": request.group, "topic": request.topic, "id": request.id}
        try:
            reply_properties(request)
            reply_topic(request)
        except BadMessage as fault:
            self.few.warning(
                "what a handler returned was dropped: its message asks for no reply", **about, fault=str(fault)
            )
            return
        try:
            await self.producer.reply(request, value)
        except (BadMessage, Closed):
            raise
        except Error as fault:
            self.few.warning("a reply was not delivered, and its message is done", **about, fault=str(fault))
