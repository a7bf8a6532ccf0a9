"""Types of the native module, for mypy. docs in the .pxi files."""

from array import array
from collections.abc import Callable, Collection, Sequence
from typing import Any

from ..pulls import AnswerPieces, Changes, PullCount, PullHost, PullLimits
from ..python.appender import Appender as Appender
from ..python.index_state import IndexState as IndexState
from ..python.index_state import IndexTail as IndexTail
from ..python.index_state import SlotState as SlotState
from ..python.placed import Placed
from ..python.pull import Picked, Range
from ..python.pull_state import ChangeFlag as ChangeFlag
from ..python.pull_state import PulledOffset as PulledOffset
from ..python.pull_state import ResidentFiles as ResidentFiles
from ..python.state import FileTail as FileTail
from ..python.state import Gate as Gate
from ..python.state import LogTail as LogTail
from ..python.state import OpenFile as OpenFile
from ..python.state import QueueTail as QueueTail
from ..python.state import TimeSource as TimeSource
from ..python.state import WatermarkState as WatermarkState
from ..seam import Fed, FeedConnection
from ..sends import SendHost, SendSettings

SOURCES: str

class Grant:
    topic: str
    queues: int
    def __init__(self, topic: str, queues: int, is_typed: bool = False) -> None: ...

class SendFeed:
    messages: int
    def __init__(self, host: SendHost, appender: Appender, gate: Gate, time: TimeSource) -> None: ...
    def use(self, settings: SendSettings) -> None: ...
    def revoke(self, topic: bytes) -> None: ...
    def revoke_all(self) -> None: ...
    def take_counts(self) -> tuple[list[tuple[str, int, int, int, int]], int]: ...
    def feed(self, connection: FeedConnection, received: memoryview) -> Fed | bytes: ...

class PullGrant:
    pulled: PulledOffset | None
    @property
    def verdict(self) -> object: ...
    @property
    def group(self) -> str: ...
    @property
    def queue(self) -> QueueTail: ...
    def __init__(
        self,
        verdict: object,
        group: str,
        queue: QueueTail,
        entries: ResidentFiles,
        changes: Changes,
        limits: PullLimits,
        codes: Collection[int] | None,
        pieces: AnswerPieces,
    ) -> None: ...

class PullFeed:
    messages: int
    suspended: int
    grants_bytes: int
    longest_ms: float
    def __init__(
        self,
        host: PullHost,
        sends: SendFeed,
        log: LogTail,
        records: ResidentFiles,
        monotonic: Callable[[], float],
        frame_bytes: int,
        header_bytes: int,
    ) -> None: ...
    def feed(self, connection: FeedConnection, received: memoryview) -> Fed | bytes: ...
    def take_counts(self) -> list[PullCount]: ...
    def forget_unused(self) -> None: ...
    def resume(self, grant: PullGrant, frame: bytes, offset: int) -> bytes | None: ...

class Flusher:
    def __init__(self, bell: int, done: int) -> None: ...
    def submit(self, descriptor: int, until: int) -> bool: ...
    def state(self) -> tuple[int, int]: ...
    def end(self) -> None: ...

def big_endian(slots: array[int], first: int, until: int) -> bytes: ...
def pick_entries(
    entries: bytes,
    first_offset: int,
    tag_codes: Collection[int] | None,
    max_count: int,
    max_bytes: int,
    low: int,
) -> Picked: ...
def cut_sealed(ranges: Sequence[Range], parts: Sequence[bytes]) -> list[bytes] | None: ...
def crc32(data: bytes, before: int = 0) -> int: ...
def whole_places(view: memoryview, position: int) -> tuple[list[Placed], int]: ...
def index_keys(places: Sequence[Placed], covered: int, with_tags: bool) -> bytes | None: ...
def walk_records(buffer: Any) -> bytes | None: ...
def walk_log(buffer: Any, position: int, most: int, verify: bool) -> tuple[bytes, int]: ...
def cut_columns(
    buffer: Any, starts: Any, wanted: Collection[str], text_of: Callable[[bytes], str]
) -> dict[str, Any] | None: ...
