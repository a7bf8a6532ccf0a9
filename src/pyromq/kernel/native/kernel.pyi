"""Types of the native module, for mypy. docs in the .pxi files."""

from array import array

from ..appends import AppendHost, Terms
from ..seam import Fed, FeedConnection

class Grant:
    topic: str
    queues: int
    def __init__(self, topic: str, queues: int) -> None: ...

class SendFeed:
    messages: int
    def __init__(self, host: AppendHost) -> None: ...
    def use(self, terms: Terms) -> None: ...
    def feed(self, connection: FeedConnection, received: memoryview) -> Fed: ...

def chain_keys(
    keys: bytes, first: int, count: int, slots: array[int], dirty: bytearray, number: int, seconds: int
) -> tuple[bytes, int]: ...
def crc32(data: bytes, before: int = 0) -> int: ...
