"""Who is served next: a turn takes a bounded share of each class, so that a storm of one delays no other, and within a
class the connections in turn. Which class a code belongs to stands in its row (`protocol/requests.py`).

Pure: no loop, no clock. `service.py` puts requests in and runs one turn per pass of the event loop.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator, Mapping
from typing import Generic, TypeVar

from ...protocol.headers.send import SendMessage, SendMessageV2
from ...protocol.requests import ROWS, RequestCode
from ...protocol.row import RequestClass

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class _Lane(Generic[K, T]):
    """The waiting requests of one class. A key is in `active` (served from the front) or in `suspended`."""

    __slots__ = ("active", "count", "share", "suspended")

    def __init__(self, share: int) -> None:
        self.share = share
        self.count = 0
        self.active: OrderedDict[K, deque[T]] = OrderedDict()
        self.suspended: dict[K, deque[T]] = {}


class FairQueue(Generic[K, T]):
    """Requests by class and connection. Requests of one connection and class are served in the order they came."""

    def __init__(self, shares: Mapping[RequestClass, int]) -> None:
        self._lanes: list[_Lane[K, T]] = [_Lane(shares[kind]) for kind in RequestClass]
        self._suspended: set[K] = set()
        self._ready = 0  # requests that can be served now; what is suspended does not count

    @property
    def has_work(self) -> bool:
        return self._ready > 0

    def waiting(self, kind: RequestClass) -> int:
        """Return how many requests of a class there are, suspended ones too."""
        return self._lanes[kind].count

    def put(self, kind: RequestClass, key: K, item: T) -> None:
        lane = self._lanes[kind]
        lane.count += 1
        if key in self._suspended:
            queues: dict[K, deque[T]] = lane.suspended
        else:
            queues = lane.active
            self._ready += 1
        queue = queues.get(key)
        if queue is None:
            queues[key] = deque((item,))
        else:
            queue.append(item)

    def turn(self) -> Iterator[tuple[K, T]]:
        """Yield at most the share of each class. `put`, `suspend` and `discard` may come meanwhile."""
        for lane in self._lanes:
            left, active = lane.share, lane.active
            while left and active:
                key, queue = active.popitem(last=False)
                item = queue.popleft()
                if queue:
                    active[key] = queue  # behind the others
                lane.count -= 1
                self._ready -= 1
                left -= 1
                yield key, item

    def suspend(self, key: K) -> None:
        """Serve nothing of this connection until `resume`: its answers could not leave."""
        self._suspended.add(key)
        for lane in self._lanes:
            queue = lane.active.pop(key, None)
            if queue is not None:
                lane.suspended[key] = queue
                self._ready -= len(queue)

    def resume(self, key: K) -> None:
        self._suspended.discard(key)
        for lane in self._lanes:
            queue = lane.suspended.pop(key, None)
            if queue is not None:
                lane.active[key] = queue
                self._ready += len(queue)

    def discard(self, key: K) -> list[T]:
        """Take out what a connection that is gone had waiting."""
        self.resume(key)
        dropped: list[T] = []
        for lane in self._lanes:
            queue = lane.active.pop(key, ())
            lane.count -= len(queue)
            self._ready -= len(queue)
            dropped.extend(queue)
        return dropped


# How many requests of each class one turn of the loop serves at most.
SHARES: Mapping[RequestClass, int] = {
    RequestClass.HEARTBEAT: 32,
    RequestClass.SEND: 64,
    RequestClass.PULL: 64,
    RequestClass.QUERY: 32,
    RequestClass.ADMIN: 8,
}

_CLASS_OF = {code: row.lane for code, row in ROWS.items()}

# Where a send carries its message properties: the short header form has one-letter names.
PROPERTIES_FIELD: Mapping[int, str] = {
    code: "i" if row.takes.header is SendMessageV2 else "properties"
    for code, row in ROWS.items()
    if row.takes.header in (SendMessage, SendMessageV2)
}

_REPLIES = (RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2)


def class_of(code: int) -> RequestClass:
    return _CLASS_OF.get(code, RequestClass.ADMIN)


def keeps_order(code: int) -> bool:
    """Return whether later sends of a connection wait until this request is finished.

    A reply does not count: it is finished when the client that waits for it has answered, and where that client is on
    the same connection, its answer would never be read.
    """
    return class_of(code) is RequestClass.SEND and code not in _REPLIES
