"""Stored messages sent again: a copy into a topic, or once more to one group alone. The stored ones stay.

A message that cannot be read is never sent: its stored bytes would become the body of a good message.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..client.connect.session import Session
from ..client.core.routing import queue_for_key
from ..client.produce.outgoing import Outgoing, Packing, pack
from ..client.produce.sending import Sender, SendPolicy, SendResult
from ..errors import PyroError
from ..model import names
from ..model.message import Property, StoredMessage
from ..protocol.messages import UnreadableMessage

GROUP = "pyromq_tools"
COPY_OF = "COPY_OF"  # the id of the message that it is a copy of
_OURS = frozenset(value for name, value in vars(Property).items() if not name.startswith("_"))
_KEPT = {Property.TAGS, Property.KEYS, Property.SHARDING_KEY, Property.PRIORITY}


class CannotCopy(PyroError):
    """A stored message cannot be read here. The text says which and why; nothing was sent."""


class Copies:
    """Event loop only. Messages with an order key go to the queue of that key, also in a topic with other queues."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._sender = Sender(session, GROUP, SendPolicy())

    async def send(self, message: StoredMessage, topic: str, extra: Mapping[str, str] | None = None) -> SendResult:
        """Send a new message with the same body, tags, keys and properties, and `extra`. CannotCopy as below."""
        check_readable(message)
        properties = own_properties(message) | {COPY_OF: message_id(message)} | dict(extra or {})
        return await self.send_new(topic, message.body, properties)

    async def send_new(self, topic: str, body: bytes, properties: Mapping[str, str]) -> SendResult:
        """Send a new message with these properties."""
        new = dict(properties) | {Property.UNIQ_KEY: self._session.ids.next(), Property.WAIT: "true"}
        return await self._send(pack(topic, body, new, Packing()), new.get(Property.SHARDING_KEY))

    async def retry(self, message: StoredMessage, group: str, extra: Mapping[str, str] | None = None) -> SendResult:
        """Send the message to the group's retry topic: nobody else gets it. CannotCopy if it cannot be read.

        It keeps its id and counts its attempts anew.
        """
        check_readable(message)
        properties = own_properties(message) | dict(extra or {})
        properties |= {
            Property.UNIQ_KEY: message_id(message),
            Property.ORIGIN_MESSAGE_ID: message_id(message),
            Property.RETRY_TOPIC: origin_topic(message),
            Property.WAIT: "true",
        }
        return await self._send(pack(names.retry_topic(group), message.body, properties, Packing()), None)

    async def _send(self, message: Outgoing, order_key: str | None) -> SendResult:
        choose = None if order_key is None else lambda queues: queue_for_key(queues, order_key)
        return (await self._sender.send(message, choose))[0]


def check_readable(message: StoredMessage) -> None:
    """Raise CannotCopy for one that nobody can read, or that needs a package which is not installed here."""
    if isinstance(message, UnreadableMessage):
        raise CannotCopy(
            f"message {message_id(message)} at offset {message.queue_offset} of queue {message.queue_id} of "
            f"{message.topic or 'an unknown topic'} (commit log position {message.physical_offset}) cannot be read "
            f"and is left where it is: {message.fault}"
        )


def own_properties(message: StoredMessage) -> dict[str, str]:
    """Return the application's properties, without those that say what became of this one record."""
    return {name: value for name, value in message.properties.items() if name not in _OURS or name in _KEPT}


def message_id(message: StoredMessage) -> str:
    """Return the id as consumers know it: a dead letter has that of the message that it was."""
    return (
        message.properties.get(Property.DLQ_ORIGIN_MESSAGE_ID)
        or message.unique_id
        or message.properties.get(Property.ORIGIN_MESSAGE_ID)
        or message.offset_id
    )


def origin_topic(message: StoredMessage) -> str:
    """Return the topic that the message was sent to, before retries and death."""
    found = message.properties.get(Property.DLQ_ORIGIN_TOPIC) or message.properties.get(Property.RETRY_TOPIC)
    return found or message.topic
