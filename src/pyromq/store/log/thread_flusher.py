"""SYNC_FLUSH by the kernel's own thread: told of each append at once, it syncs and rings; no Python in between.

The composition root makes one for a real disk where the native kernel serves; `flushing.py` starts and ends it. Its
twin is the loop there, which a simulated disk and the Python kernel use. Event loop only.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Protocol

from ...kernel.choice import native
from ..files.disk import DiskError, SyncFailed, TooManyFiles
from ..files.real_disk import RealDisk, RealFile
from .commit_log import CommitLog

_BELL_BYTES = 4096


class FlushThread(Protocol):
    """What the kernel has."""

    def submit(self, descriptor: int, until: int) -> bool: ...

    def state(self) -> tuple[int, int]: ...

    def end(self) -> None: ...


class ThreadFlusher:
    """Syncs the log whenever it has grown. Files stay open here until they are synced: the thread uses them."""

    def __init__(self, disk: RealDisk, make_thread: Callable[[int, int], FlushThread]) -> None:
        self._disk = disk
        self._make_thread = make_thread
        self._files: dict[int, RealFile] = {}  # by the position where they start

    def start(
        self, log: CommitLog, synced: int, flushed: Callable[[int], None], failed: Callable[[DiskError], None]
    ) -> None:
        """Begin to sync. `flushed` is called with positions that are on the medium, `failed` once, if a sync fails."""
        self._log, self._flushed, self._failed = log, flushed, failed
        self._submitted = synced
        self._bell, ringing = os.pipe()
        self._ringing = ringing
        for end in (self._bell, ringing):
            os.set_blocking(end, False)
        self._thread = self._make_thread(ringing, synced)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._bell, self._rung)
        self.appended()

    def appended(self) -> None:
        """Submit a sync: the log has grown."""
        end, size = self._log.end, self._log.file_bytes
        while self._submitted < end:
            base = self._log.sequence.base_of(self._submitted)
            until = min(base + size, end)
            try:
                file = self._files.get(base) or self._open(base)
            except TooManyFiles:
                return  # the next append brings us here again, and a flush of everything waits for a descriptor
            except DiskError as fault:
                self._failed(fault)
                return
            if not self._thread.submit(file.fileno(), until):
                return  # the next ring brings us here again
            self._submitted = until

    def _open(self, base: int) -> RealFile:
        file = self._files[base] = self._disk.open(self._log.sequence.name(base))
        return file

    def _rung(self) -> None:
        try:
            os.read(self._bell, _BELL_BYTES)
        except BlockingIOError:
            return
        synced, fault = self._thread.state()
        self._flushed(synced)
        if fault:
            self._loop.remove_reader(self._bell)
            name = self._log.sequence.name(self._log.sequence.base_of(synced))
            self._failed(SyncFailed(f"sync of {self._disk.path(name)} failed: {os.strerror(fault)}"))
            return
        if len(self._files) > 1:
            self._close_synced(synced)
        self.appended()

    def _close_synced(self, synced: int) -> None:
        for base in [base for base in self._files if base + self._log.file_bytes <= synced]:
            self._files.pop(base).close()

    def end(self) -> None:
        """Wait for the sync that runs. Whoever stops the store flushes what is not synced then."""
        self._loop.remove_reader(self._bell)
        self._thread.end()
        for end in (self._bell, self._ringing):
            os.close(end)
        for file in self._files.values():
            file.close()
        self._files.clear()


def thread_flusher(disk: RealDisk) -> ThreadFlusher | None:
    """Return the native flusher, where the native kernel serves."""
    module = native()
    return None if module is None else ThreadFlusher(disk, module.Flusher)
