"""DataVersion: which state of a table somebody has. Compared as a whole; a different one means "fetch it again"."""

from __future__ import annotations

from .body import Body, always


class DataVersion(Body, kw_only=True):
    counter: int = always(0)
    state_version: int = always(0)
    timestamp: int = always(0)
