"""Records to columns: where records begin in a buffer, by either kernel, and the buffers of columns, by the native one.

`cut_columns` is None without the native kernel: the callers (spark/) then make columns with numpy, which the core does
not need.
"""

from __future__ import annotations

from .choice import native
from .python import scan as python

_native = native()
walk_log = python.walk_log if _native is None else _native.walk_log
cut_columns = None if _native is None else _native.cut_columns


def walk_records(buffer: bytes | memoryview) -> bytes:
    """Return where each record of a pulled body begins, 8 bytes each. RecordError says why it cannot be walked."""
    walked = None if _native is None else _native.walk_records(buffer)
    return python.walk_records(buffer) if walked is None else walked
