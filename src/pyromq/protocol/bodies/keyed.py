"""Maps whose keys are objects: `{{"brokerName":"a","queueId":0,"topic":"T"}:7}` in Java's JSON."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, get_args, get_origin

import msgspec

from ..ints import Int32

V = TypeVar("V")


class MessageQueue(msgspec.Struct, rename="camel", frozen=True, order=True, kw_only=True):
    """One queue of a topic on one broker. Queue id -1 is any queue of it (pop)."""

    broker_name: str
    queue_id: Int32
    topic: str


class ByQueue(dict[MessageQueue, V], Generic[V]):
    """A map by queue. Annotate a body's field with `ByQueue[Value]`."""


def read_keyed(kind: Any, value: Any) -> Any:
    """Decode ByQueue for msgspec: keys arrive as the JSON text of the queue."""
    if get_origin(kind) is not ByQueue:
        raise NotImplementedError(f"no such type in a body: {kind}")
    by_text = msgspec.convert(value, dict[str, get_args(kind)[0]], strict=False)  # type: ignore[misc]
    return ByQueue({_QUEUE.decode(text): item for text, item in by_text.items()})


_QUEUE = msgspec.json.Decoder(MessageQueue, strict=False)
