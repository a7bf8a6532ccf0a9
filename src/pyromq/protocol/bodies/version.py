"""DataVersion: which state of a table somebody has. Compared as a whole; a different one means "fetch it again"."""

from __future__ import annotations

from ..ints import Int64
from .body import Body, always


class DataVersion(Body, kw_only=True):
    counter: Int64 = always(0)
    state_version: Int64 = always(0)
    timestamp: Int64 = always(0)
