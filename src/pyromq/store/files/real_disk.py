"""The storage seam over the operating system. Composition roots make it; the store knows `disk.Disk` alone.

Linux first; where a call is missing (fallocate, RWF_NOWAIT, syncfs) the slower portable way is taken.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import ClassVar, NoReturn

from ...files import make_folder
from ...kernel import state
from .disk import (
    NO_STAMP,
    AccessDenied,
    Bytes,
    DiskError,
    DiskFull,
    DiskUsage,
    FileMissing,
    Stamp,
    StoreLocked,
    SyncFailed,
    checked_name,
)
from .spare_files import SpareFiles

_MAX_BUFFERS = 1024  # IOV_MAX of Linux
_MOST_STRETCHES = 1000  # of one file, that are looked for
_SYNCFS_FROM = 16  # fewer files than this are cheaper one by one
_FULL = (errno.ENOSPC, errno.EDQUOT)
_CLOEXEC = getattr(os, "O_CLOEXEC", 0)


class RealFile:
    """An open file. The descriptor is closed by `close` or when the object is collected."""

    def __init__(self, disk: RealDisk, name: str, descriptor: int) -> None:
        self._disk = disk
        self.name = name
        self.open_file = state.OpenFile(descriptor)

    @property
    def descriptor(self) -> int:
        return self.open_file.descriptor

    def fileno(self) -> int:
        return self.open_file.descriptor

    def size(self) -> int:
        return os.fstat(self.descriptor).st_size

    def pread(self, offset: int, length: int) -> bytes:
        try:
            data = os.pread(self.descriptor, length, offset)
            while 0 < len(data) < length:
                more = os.pread(self.descriptor, length - len(data), offset + len(data))
                if not more:
                    break
                data += more
        except OSError as fault:
            self._disk.explain(fault, "read", self.name, offset)
        return data

    def written(self) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        place, end = 0, self.size()
        try:
            while place < end and len(found) < _MOST_STRETCHES:
                first = os.lseek(self.descriptor, place, os.SEEK_DATA)
                place = os.lseek(self.descriptor, first, os.SEEK_HOLE)
                found.append((first, place))
        except (OSError, AttributeError) as fault:  # no such call
            if isinstance(fault, OSError) and fault.errno == errno.ENXIO:  # nothing from there on
                return found
        return [*found, (place, end)] if place < end else found

    def pread_resident(self, offset: int, length: int) -> bytes | None:
        if not hasattr(os, "RWF_NOWAIT"):
            return None
        buffer = bytearray(length)
        try:
            got = os.preadv(self.descriptor, [buffer], offset, os.RWF_NOWAIT)
        except OSError as fault:
            if fault.errno in (errno.EAGAIN, errno.EOPNOTSUPP, errno.ENOSYS):
                return None
            self._disk.explain(fault, "read", self.name, offset)
        return bytes(buffer) if got == length else None

    def pwrite(self, offset: int, data: Bytes) -> None:
        try:
            written = os.pwrite(self.descriptor, data, offset)
            if written < len(data):
                self._write_rest(offset, memoryview(data).cast("B"), written)
        except OSError as fault:
            self._disk.explain(fault, "write", self.name, offset)

    def pwritev(self, offset: int, buffers: Sequence[Bytes]) -> None:
        try:
            for first in range(0, len(buffers), _MAX_BUFFERS):
                part = buffers[first : first + _MAX_BUFFERS]
                length = sum(map(len, part))
                written = os.pwritev(self.descriptor, part, offset)
                if written < length:
                    self._write_rest(offset, memoryview(b"".join(part)), written)
                offset += length
        except OSError as fault:
            self._disk.explain(fault, "write", self.name, offset)

    def _write_rest(self, offset: int, data: memoryview, written: int) -> None:
        while written < len(data):
            written += os.pwrite(self.descriptor, data[written:], offset + written)

    def allocate(self, offset: int, length: int) -> None:
        with self._disk.explained(f"allocate {length} bytes for", self.name, offset):
            self._disk.check_space(offset + length - max(offset, self.size()))
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self.descriptor, offset, length)
                return
            end = max(offset + length, self.size())
            for at in range(max(offset, self.size()), end, 1 << 20):
                os.pwrite(self.descriptor, bytes(min(1 << 20, end - at)), at)

    def truncate(self, length: int) -> None:
        with self._disk.explained("truncate", self.name, length):
            os.ftruncate(self.descriptor, length)

    def expect_random(self, random: bool) -> None:
        if hasattr(os, "posix_fadvise"):
            advice = os.POSIX_FADV_RANDOM if random else os.POSIX_FADV_NORMAL
            with self._disk.explained("advise on", self.name, 0):
                os.posix_fadvise(self.descriptor, 0, 0, advice)

    def sync(self) -> None:
        try:
            (os.fdatasync if hasattr(os, "fdatasync") else os.fsync)(self.descriptor)
        except OSError as fault:
            raise SyncFailed(f"sync of {self._disk.path(self.name)} failed: {fault.strerror}") from fault

    def close(self) -> None:
        if self.descriptor >= 0:
            self._disk.close_descriptor(self.descriptor)
            self.open_file.descriptor = -1


class RealDisk:
    """The files below a folder of this machine. Makes the folder itself if it is missing and `create` is set.

    `spares`: descriptors held back for the time when there is none. Made in the thread that must not wait for one.
    """

    def __init__(self, root: Path | str, *, create: bool = False, spares: int = 0) -> None:
        self._root = os.path.abspath(root)
        self._spares = SpareFiles(spares)
        self._syncfs = _syncfs()  # now: when it is first needed there may be no memory to load it
        if create:
            try:
                make_folder(Path(self._root), mode=0o700)
            except OSError as fault:
                raise DiskError(f"cannot make the folder {self._root}: {fault.strerror}; name another one") from None
        if not os.path.isdir(self._root):
            raise FileMissing(f"{self._root} is not a folder")

    @property
    def root(self) -> str:
        return self._root

    def path(self, name: str) -> str:
        return os.path.join(self._root, checked_name(name)) if name else self._root

    def open(self, name: str, *, create: bool = False, writable: bool = True) -> RealFile:
        flags = (os.O_RDWR if writable else os.O_RDONLY) | (os.O_CREAT if create else 0) | _CLOEXEC
        with self.explained("open", name):
            return RealFile(self, name, self._open(self.path(name), flags))

    def _open(self, path: str, flags: int = os.O_RDONLY | _CLOEXEC) -> int:
        return self._spares.open(path, lambda: os.open(path, flags, 0o600))

    def close_descriptor(self, descriptor: int) -> None:
        os.close(descriptor)
        self._spares.refill()

    def close(self) -> None:
        """Give the spares back; files that are open stay so."""
        self._spares.close()

    def exists(self, name: str) -> bool:
        """Return whether the name is there. Raises AccessDenied where that is hidden: it must not count as gone."""
        with self.explained("look at", name):
            try:
                os.stat(self.path(name))
            except (FileNotFoundError, NotADirectoryError):
                return False
        return True

    def is_folder(self, name: str) -> bool:
        return os.path.isdir(self.path(name))

    def list(self, folder: str = "") -> list[str]:
        path = self.path(folder)
        with self.explained("list", folder):
            try:
                return sorted(self._spares.open(path, lambda: os.listdir(path)))
            except (FileNotFoundError, NotADirectoryError):
                return []

    def size(self, name: str) -> int:
        with self.explained("look at", name):
            return os.stat(self.path(name)).st_size

    def modified_ms(self, name: str) -> int:
        with self.explained("look at", name):
            return os.stat(self.path(name)).st_mtime_ns // 1_000_000

    def stamps(self, names: Iterable[str]) -> Sequence[Stamp]:
        root, found = self._root + os.sep, []
        for name in names:
            try:
                status = os.stat(root + name)
            except OSError:
                found.append(NO_STAMP)
            else:
                found.append((status.st_size, status.st_mtime_ns))
        return found

    def make_folder(self, name: str) -> None:
        with self.explained("make folder", name):
            os.makedirs(self.path(name), mode=0o700, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        with self.explained(f"rename to {new}", old):
            os.replace(self.path(old), self.path(new))

    def link(self, name: str, second: str) -> None:
        with self.explained(f"link as {second}", name):
            os.link(self.path(name), self.path(second))

    def remove(self, name: str) -> None:
        with self.explained("remove", name):
            os.unlink(self.path(name))

    def remove_folder(self, name: str) -> None:
        with self.explained("remove folder", name):
            os.rmdir(self.path(name))

    def sync_folder(self, folder: str = "") -> None:
        path = self.path(folder)
        with self.explained("open", folder):
            descriptor = self._open(path)
        try:
            os.fsync(descriptor)
        except OSError as fault:
            raise SyncFailed(f"sync of folder {path} failed: {fault.strerror}") from fault
        finally:
            self.close_descriptor(descriptor)

    def sync_many(self, names: Iterable[str]) -> None:
        wanted = list(names)
        if len(wanted) >= _SYNCFS_FROM and self._sync_file_system():
            return
        for name in wanted:
            with suppress(FileMissing), closing(self.open(name)) as file:  # one that is gone needs to last no more
                file.sync()

    def sync_all(self) -> None:
        if not self._sync_file_system():
            os.sync()

    def _sync_file_system(self) -> bool:
        """Sync everything dirty by one syncfs, which reports write errors since Linux 5.8; False if there is none."""
        if self._syncfs is None:
            return False
        with self.explained("open", ""):
            descriptor = self._open(self._root)
        try:
            failure = self._syncfs(descriptor)
        finally:
            self.close_descriptor(descriptor)
        if failure:
            raise SyncFailed(f"sync of the file system below {self._root} failed: {os.strerror(failure)}")
        return True

    def usage(self) -> DiskUsage:
        figures = os.statvfs(self._root)
        used = (figures.f_blocks - figures.f_bfree) * figures.f_frsize
        return DiskUsage(total=used + figures.f_bavail * figures.f_frsize, used=used)

    def check_space(self, length: int) -> None:
        """Raise ENOSPC if there cannot be so much: trying would take all that is left from everybody else."""
        figures = os.statvfs(self._root)
        if length > figures.f_bfree * figures.f_frsize:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def lock(self, name: str) -> FileLock:
        with self.explained("open", name):
            return FileLock(self.path(name))

    def is_locked(self, name: str) -> bool:
        path = self.path(name)
        if not os.path.exists(path) or FileLock.is_locked_here(path):
            return False  # ours, and asking would drop it
        with self.explained("open", name):
            descriptor = self._open(path)
        try:
            # struct flock of 64-bit Linux: type, whence, start, length, process id. F_UNLCK in the answer: it is free.
            question = struct.pack("hhxxxxqqixxxx", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
            answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, question)
        finally:
            os.close(descriptor)
        return bool(struct.unpack_from("h", answer)[0] != fcntl.F_UNLCK)

    @contextmanager
    def explained(self, action: str, name: str, offset: int | None = None) -> Iterator[None]:
        try:
            yield
        except OSError as fault:
            self.explain(fault, action, name, offset)

    def explain(self, fault: OSError, action: str, name: str, offset: int | None = None) -> NoReturn:
        """Turn the system's error into ours, with the place and, on a full disk, the figures."""
        place = self.path(name) + (f" at {offset}" if offset is not None else "")
        if fault.errno in _FULL:
            usage = self.usage()
            raise DiskFull(
                f"cannot {action} {place}: {fault.strerror}; "
                f"{usage.used} of {usage.total} bytes are used. Free some space"
            ) from fault
        if fault.errno in (errno.EACCES, errno.EPERM):
            user = f"the user that runs this (uid {os.geteuid()})" if hasattr(os, "geteuid") else "the user of this"
            raise AccessDenied(f"cannot {action} {place}: {fault.strerror}; chown or chmod it for {user}") from fault
        kind = FileMissing if fault.errno == errno.ENOENT else DiskError
        raise kind(f"cannot {action} {place}: {fault.strerror}") from fault


class FileLock:
    """The POSIX lock on byte 0, which keeps other processes out, and a table that keeps this one from taking it twice.

    POSIX locks do not exclude their own process, and closing any descriptor of the file drops the lock: so this process
    must not even open a file whose lock it holds.
    """

    _locked: ClassVar[set[tuple[int, int]]] = set()
    _guard: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, path: str) -> None:
        with self._guard:
            if os.path.exists(path) and _identity(os.stat(path)) in self._locked:
                raise StoreLocked(f"{path} is held by this process already")
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _CLOEXEC, 0o600)
            try:
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, os.SEEK_SET)
            except OSError as fault:
                os.close(self._descriptor)
                if fault.errno not in (errno.EACCES, errno.EAGAIN):
                    raise
                raise StoreLocked(
                    f"{path} is held by another process: a broker (ours or Java's) or a tool uses this store. "
                    "Stop it first"
                ) from None
            self._key = _identity(os.fstat(self._descriptor))
            self._locked.add(self._key)
        if not os.fstat(self._descriptor).st_size:
            os.pwrite(self._descriptor, b"lock", 0)  # the content that RocketMQ leaves

    @classmethod
    def is_locked_here(cls, path: str) -> bool:
        with cls._guard:
            return _identity(os.stat(path)) in cls._locked

    def release(self) -> None:
        with self._guard:
            if self._descriptor >= 0:
                self._locked.discard(self._key)
                os.close(self._descriptor)
                self._descriptor = -1


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


@cache
def _syncfs() -> Callable[[int], int] | None:
    """Return a function from descriptor to errno (0 is success), or None. ctypes releases the GIL during the call."""
    import ctypes

    try:
        call = ctypes.CDLL(None, use_errno=True).syncfs
    except (OSError, AttributeError):
        return None
    return lambda descriptor: ctypes.get_errno() if call(descriptor) else 0
