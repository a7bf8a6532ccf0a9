"""A message as a consumer gets it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from ..model.ids import host_text
from ..model.message import Property, StoredMessage
from ..model.pop_names import normal_topic
from ..protocol.bodies.keyed import MessageQueue
from .config import without_namespace
from .values import JSON, Codec, decode_value

T = TypeVar("T")
_NO_ENDS: Mapping[MessageQueue, int] = {}


def give_topic_back(message: StoredMessage, group: str) -> None:
    """Name the topic that a message of one of the group's retry topics was sent to, also if it was popped before."""
    message.topic = normal_topic(message.properties.get(Property.RETRY_TOPIC, message.topic), group)
    if Property.RETRY_TOPIC in message.properties:
        message.properties[Property.RETRY_TOPIC] = message.topic


class Received:
    """One delivery. `message` has everything that RocketMQ knows of it."""

    is_alone = False  # nothing behind it waits for its end
    __slots__ = ("codec", "deadline", "ends", "group", "message", "namespace", "queue", "undecodable", "wanted_s")

    def __init__(
        self,
        message: StoredMessage,
        queue: MessageQueue,
        namespace: str = "",
        group: str = "",
        codec: Codec = JSON,
        ends: Mapping[MessageQueue, int] = _NO_ENDS,
    ) -> None:
        self.message = message
        self.queue = queue
        self.namespace = namespace
        self.group = group  # of the consumer that has it
        self.codec = codec
        self.ends = ends  # of the queues that its consumer pulls, as the broker told them last
        self.undecodable: Exception | None = None  # why its body could not be decoded
        # Renews the time of the handler that has it, once that has waited for something.
        self.deadline: Callable[[float | None], None] | None = None
        self.wanted_s: float | None = None  # what a handler wanted before it waited for anything

    def __repr__(self) -> str:
        return f"<Received {self.topic} {self.id} attempt {self.attempt}, {len(self.body)} bytes>"

    @property
    def topic(self) -> str:
        """The topic that the message was sent to, also when it comes again by way of a retry topic."""
        return without_namespace(self.namespace, self.wire_topic)

    @property
    def wire_topic(self) -> str:
        """The topic as brokers know it, with its namespace."""
        return self.message.properties.get(Property.RETRY_TOPIC, self.message.topic)

    @property
    def body(self) -> bytes:
        return self.message.body

    @property
    def id(self) -> str:
        """The producer's id of the message, the same for every delivery."""
        found = self.message.unique_id or self.message.properties.get(Property.ORIGIN_MESSAGE_ID)
        return found or self.message.offset_id

    @property
    def message_id(self) -> str:
        """The same as `id`, by the name that it has in a `SendResult`."""
        return self.id

    @property
    def tag(self) -> str:
        return self.message.tags

    @property
    def keys(self) -> list[str]:
        return self.message.keys

    @property
    def properties(self) -> dict[str, str]:
        return self.message.properties

    @property
    def order_key(self) -> str | None:
        return self.message.properties.get(Property.SHARDING_KEY)

    @property
    def delay_level(self) -> int:
        """The level by which it was delayed last: by its sender, or as a retry; 0 for none."""
        return self.message.delay_level

    @property
    def attempt(self) -> int:
        """The number of this delivery: 1 for the first."""
        return self.message.reconsume_times + 1

    @property
    def offset(self) -> int:
        return self.message.queue_offset

    @property
    def backlog(self) -> int:
        """How many messages of its queue lie behind it, as of the last pull: a handler may drop what is too old."""
        return max(0, self.ends.get(self.queue, 0) - self.offset - 1)

    @property
    def born_ms(self) -> int:
        return self.message.born_timestamp

    @property
    def stored_ms(self) -> int:
        return self.message.store_timestamp

    @property
    def born_host(self) -> str:
        return host_text(self.message.born_host)

    def decode(self, kind: type[T], codec: Codec | None = None) -> T:
        """Return the body as a value: bytes as it is, anything else by this codec or the consumer's.

        Json, the usual one, has str, dataclasses, msgspec and pydantic models, dicts.
        """
        try:
            return decode_value(self.body, kind, self.codec if codec is None else codec)
        except Exception as fault:  # a model's own validator may raise anything
            self.undecodable = fault
            raise

    def renew(self, seconds: float | None = None) -> None:
        """Give the handler more time: its time-out begins anew, with so many seconds or the subscription's own.

        In a batch it is the batch that is renewed. A plain function of an orderly consumer has no time-out.
        """
        if self.deadline is None:
            self.wanted_s = seconds
        else:
            self.deadline(seconds)
