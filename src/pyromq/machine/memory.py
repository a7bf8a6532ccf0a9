"""How much memory this process may use: the machine's, its control group's or its address space, whichever is least."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ..model.wire_text import whole_number

_NO_LIMIT = 1 << 62  # version 1 of control groups writes a number near 2^63 for "none"
_UNKNOWN = 8 << 30  # where the system tells nothing
_M_ARENA_MAX = -8  # of malloc.h


def memory_limit(root: Path = Path("/")) -> int:
    """Return the limit in bytes. `root`: where proc and sys are mounted, another folder in tests."""
    found = [one for one in (_physical(), _address_space(), *_control_groups(root)) if 0 < one < _NO_LIMIT]
    return min(found, default=_UNKNOWN)


def spare_address_space() -> None:
    """Keep threads from reserving 64 MB of address space each, where that is limited. Call it before they start.

    glibc gives each thread that allocates an arena of its own; from here on all of them share the first one."""
    if not _address_space():
        return
    import ctypes  # not at the top: hardly a daemon comes here

    with suppress(AttributeError):  # a C library other than glibc
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def _physical() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):  # Windows has no sysconf
        return 0


def _address_space() -> int:
    try:
        import resource
    except ImportError:
        return 0
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return 0 if soft == resource.RLIM_INFINITY else soft


def _control_groups(root: Path) -> Iterator[int]:
    """Yield the limits of our group and of all above it, in both versions."""
    try:
        lines = (root / "proc/self/cgroup").read_text("ascii", "replace").splitlines()
    except OSError:
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if not controllers:
            yield from _upwards(root / "sys/fs/cgroup", group, "memory.max")
        elif "memory" in controllers.split(","):
            yield from _upwards(root / "sys/fs/cgroup/memory", group, "memory.limit_in_bytes")


def _upwards(mount: Path, group: str, file: str) -> Iterator[int]:
    """Yield the limits of a group and its parents, and of the mount: a container may see its own group there."""
    parts = [part for part in group.split("/") if part and part != ".."]
    for depth in range(len(parts), -1, -1):
        try:
            text = mount.joinpath(*parts[:depth], file).read_text("ascii", "replace").strip()
        except OSError:
            continue
        yield whole_number(text, 0, _NO_LIMIT) or 0  # "max" says that there is none
