"""What the store raises on purpose, beside the errors of the disk (disk.py)."""

from __future__ import annotations

from ..errors import PyroError


class StoreError(PyroError):
    """Root of the store's own errors."""


class RecordTooLarge(StoreError):
    """The record does not fit the limits or a commit log file. Nothing was written. Names size and limit."""


class StoreNotWritable(StoreError):
    """Writing has ended: a sync or write failed, or the store is closed. Reads go on. Names the first cause."""


class StoreDamaged(StoreError):
    """The files do not fit together in a way that opening must not repair by itself. Names file and remedy."""
