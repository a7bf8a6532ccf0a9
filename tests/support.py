"""What every test folder may use: `from tests.support import require`."""

from __future__ import annotations

import atexit
import errno
import functools
import os
import shutil
import socket
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
GOLDEN = Path(__file__).parent / "golden"

IN_CI = os.environ.get("PYROMQ_CI") == "1"


def require(condition: bool, reason: str) -> None:
    """Skip with a reason where this machine lacks something; under PYROMQ_CI=1 that is a failure instead."""
    if condition:
        return
    if IN_CI:
        pytest.fail(f"PYROMQ_CI=1 allows no skips: {reason}", pytrace=False)
    pytest.skip(reason)


def free_ports(count: int) -> list[int]:
    """Return ports that were free a moment ago, for programs that have to be told theirs before they start."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def deny_reads(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """Let a store not open this file, as one of another user: root, who runs the tests in CI, may open every file."""
    system = os.open

    def refusing(name: str, *others: int, **more: Any) -> int:
        if name == str(path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
        return system(name, *others, **more)

    monkeypatch.setattr(os, "open", refusing)


@functools.cache
def _unpacked(name: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="pyromq-golden-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with tarfile.open(GOLDEN / f"{name}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def golden_store(into: Path, name: str = "store-clean") -> Path:
    """A copy of a store that the Java broker wrote, as `into`/store. Unpacked once: its timer wheel is mostly zeros."""
    subprocess.run(["cp", "-a", "--sparse=always", _unpacked(name) / "store", into], check=True)
    return into / "store"
