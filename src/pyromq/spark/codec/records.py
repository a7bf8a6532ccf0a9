"""Records of one buffer as columns of numbers: where each one's parts are, for all of them together.

The layout is that of protocol/record.py. Parts are computed when they are asked for, and checked before anything is
read at the place that they name: a record that does not add up is a RecordError, as with the plain decoder.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ...kernel.records import walk_records
from ...model.message import SysFlag
from ...protocol.record import MAGIC_V2, RecordError
from .vectors import Positions, gather

QUEUE_ID, FLAG, QUEUE_OFFSET, PHYSICAL_OFFSET, SYS_FLAG, BORN_TIME, BORN_HOST = 12, 16, 20, 28, 36, 40, 48
_MIDDLE_BYTES = 16  # reconsume times 4, prepared transaction offset 8, body length 4
_V6_EXTRA = 12


def record_starts(buffer: Any) -> Positions:
    """Return where each record of a pulled body begins. RecordError if sizes and magics do not lead to its end."""
    return np.frombuffer(walk_records(buffer), np.int64)


@dataclass(eq=False, repr=False)
class Records:
    """Rows at `at`, each with a known magic and a size that fits the buffer (`record_starts` sees to it)."""

    buffer: Any
    at: Positions

    def __len__(self) -> int:
        return len(self.at)

    def slice(self, begin: int, end: int) -> Records:
        return Records(self.buffer, self.at[begin:end])

    def int32(self, at: Positions) -> npt.NDArray[np.int32]:
        return gather(self.buffer, at, ">i4")

    def int64(self, at: Positions) -> npt.NDArray[np.int64]:
        return gather(self.buffer, at, ">i8")

    @cached_property
    def size(self) -> npt.NDArray[np.int32]:
        return self.int32(self.at)

    @cached_property
    def end(self) -> Positions:
        return self.at + self.size

    @cached_property
    def sys_flag(self) -> npt.NDArray[np.int32]:
        return self.int32(self.at + SYS_FLAG)

    @cached_property
    def born_v6(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self.sys_flag & SysFlag.BORN_HOST_V6, np.bool_)

    @cached_property
    def store_v6(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self.sys_flag & SysFlag.STORE_HOST_V6, np.bool_)

    @cached_property
    def store_time_at(self) -> Positions:
        at: Positions = self.at + (BORN_HOST + 8) + _V6_EXTRA * self.born_v6
        self._check(at + 16 + _V6_EXTRA * self.store_v6 + _MIDDLE_BYTES + 3 > self.end, "ends inside its header")
        return at

    @cached_property
    def store_host_at(self) -> Positions:
        return self.store_time_at + 8

    @cached_property
    def middle_at(self) -> Positions:
        at: Positions = self.store_host_at + 8 + _V6_EXTRA * self.store_v6
        return at

    @cached_property
    def body_at(self) -> Positions:
        return self.middle_at + _MIDDLE_BYTES

    @cached_property
    def body_end(self) -> Positions:
        length = self.int32(self.body_at - 4)
        end: Positions = self.body_at + length
        self._check((length < 0) | (end + self.topic_width + 2 > self.end), "has a body that does not fit into it")
        return end

    @cached_property
    def topic_width(self) -> Positions:
        """Return how many bytes the topic's length has: 1 in version 1 of the layout, 2 in version 2."""
        return np.where(gather(self.buffer, self.at + 4, ">u4") == MAGIC_V2, np.int64(2), np.int64(1))

    @cached_property
    def topic_at(self) -> Positions:
        return self.body_end + self.topic_width

    @cached_property
    def topic_end(self) -> Positions:
        low = gather(self.buffer, self.topic_at - 1, ">u1").astype(np.int64)
        high = gather(self.buffer, self.topic_at - 2, ">u1").astype(np.int64)
        length = np.where(self.topic_width == 2, high << 8 | low, low)
        end: Positions = self.topic_at + length
        self._check(end + 2 > self.end, "has a topic that does not fit into it")
        return end

    @cached_property
    def properties_at(self) -> Positions:
        at: Positions = self.topic_end + 2
        length = gather(self.buffer, self.topic_end, ">i2")
        self._check(at + length != self.end, "has lengths of topic and properties that do not add up to its size")
        return at

    def check_layout(self) -> None:
        _ = self.properties_at

    def _check(self, wrong: npt.NDArray[np.bool_], what: str) -> None:
        if wrong.any():
            raise RecordError(f"the record at byte {int(self.at[int(np.argmax(wrong))])} {what}")
