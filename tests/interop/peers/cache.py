"""The folder of fetched programs, outside the repository. Each entry is built once and then only read.

An entry is built in a folder beside its place and renamed when complete, so one that exists is whole. A lock file
makes a second run wait for the first one's download instead of repeating it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path


class PeerMissing(Exception):
    """A program that a peer needs is not on this machine, or could not be fetched. The text says what to do."""


def root() -> Path:
    """`PYROMQ_PEERS`, else the user's cache folder."""
    configured = os.environ.get("PYROMQ_PEERS")
    if configured:
        return Path(configured)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pyromq" / "peers"


def once(name: str, build: Callable[[Path], None]) -> Path:
    """The entry's folder. `build` fills an empty folder, and is called only where the entry is not there yet."""
    place = root() / name
    if place.is_dir():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with open(place.parent / f".{place.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.is_dir():  # another run may have built it while we waited
            scratch = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
            try:
                build(scratch)
                scratch.rename(place)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    return place


def tool(name: str, debian_package: str) -> str:
    """The path of a command, or PeerMissing with the package that brings it."""
    found = shutil.which(name)
    if found is None:
        raise PeerMissing(f"`{name}` is not installed: apt-get install {debian_package}")
    return found
