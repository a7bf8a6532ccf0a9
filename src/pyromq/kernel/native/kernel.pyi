"""Types of the native module, for mypy: those of its twin in Python, and what that has not. docs in the .pxi files."""

from collections.abc import Callable, Collection
from typing import Any

from ..pulls import PullGrant as PullGrant
from ..python.appender import Appender as Appender
from ..python.follow_feed import FollowFeed as FollowFeed
from ..python.guard import AccessGuard as AccessGuard
from ..python.index_state import IndexState as IndexState
from ..python.index_state import IndexTail as IndexTail
from ..python.index_state import SlotState as SlotState
from ..python.keys import big_endian as big_endian
from ..python.keys import index_keys as index_keys
from ..python.pop_table import PopTable as PopTable
from ..python.pull import cut_sealed as cut_sealed
from ..python.pull import pick_entries as pick_entries
from ..python.pull_feed import PullFeed as PullFeed
from ..python.quotas.allowance import Allowance as Allowance
from ..python.quotas.allowances import Allowances as Allowances
from ..python.quotas.buckets import Bucket as Bucket
from ..python.retry_copier import RetryCopier as RetryCopier
from ..python.scan import walk_log as walk_log
from ..python.scan import whole_places as whole_places
from ..python.send_feed import SendFeed as SendFeed
from ..python.state import ChangeFlag as ChangeFlag
from ..python.state import FileTail as FileTail
from ..python.state import Gate as Gate
from ..python.state import HalfStates as HalfStates
from ..python.state import LogTail as LogTail
from ..python.state import OpenFile as OpenFile
from ..python.state import PulledOffset as PulledOffset
from ..python.state import QueueTail as QueueTail
from ..python.state import ResidentFiles as ResidentFiles
from ..python.state import TimeSource as TimeSource
from ..python.state import WatermarkState as WatermarkState
from ..sends import EndHost, EndRules
from ..sends import Grant as Grant

SOURCES: str

class HalfEnds:
    def __init__(
        self, host: EndHost, states: HalfStates, log: LogTail, records: ResidentFiles, rules: EndRules
    ) -> None: ...

class Flusher:
    def __init__(self, bell: int, done: int) -> None: ...
    def submit(self, descriptor: int, until: int) -> bool: ...
    def state(self) -> tuple[int, int]: ...
    def end(self) -> None: ...

def signature(secret: bytes, content: bytes, in_c: bool = False) -> bytes: ...
def sha1(content: bytes, in_c: bool = False) -> bytes: ...
def crc32(data: bytes, before: int = 0) -> int: ...
def walk_records(buffer: Any) -> bytes | None: ...
def batch_records(
    body: Any, topic: bytes, numbers: tuple[int, ...], born_host: bytes, store_host: bytes, with_crc: bool
) -> bytes | None: ...
def count_messages(body: Any, most_properties: int) -> int: ...
def named_batch(body: Any, mark: bytes, most_properties: int) -> tuple[bytes, int] | None: ...
def cut_columns(
    buffer: Any, starts: Any, wanted: Collection[str], text_of: Callable[[bytes], str]
) -> dict[str, Any] | None: ...
