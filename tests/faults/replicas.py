"""Compares the stores of stopped replicas: one log, byte by byte, as far as each knows that it is confirmed."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

CONFIRMED_AT = 32  # in the checkpoint
_CHUNK = 1 << 20


def confirmed_of(store: Path) -> int:
    """Return the position up to which a stopped replica knows its log to be confirmed."""
    found: int = struct.unpack_from(">q", (store / "checkpoint").read_bytes(), CONFIRMED_AT)[0]
    return found


def _chunks(store: Path, end: int) -> Iterator[tuple[int, bytes]]:
    for path in sorted((store / "commitlog").iterdir()):
        first, content = int(path.name), path.read_bytes()
        for begin in range(0, len(content), _CHUNK):
            if first + begin < end:
                yield first + begin, content[begin : min(begin + _CHUNK, end - first)]


def compare_replicas(stores: Mapping[str, Path], acked: int) -> list[str]:
    """Return what is wrong: logs that differ, a replica without all that was acked (by its last position), damage."""
    confirmed = {name: confirmed_of(store) for name, store in stores.items()}
    end = min(confirmed.values())
    faults = []
    if end <= acked:
        faults.append(f"acked up to {acked}, and replicas have confirmed {confirmed}")
    logs = {name: dict(_chunks(store, end)) for name, store in stores.items()}
    first, *others = logs
    for name in others:
        differing = [at for at, content in logs[first].items() if logs[name].get(at) != content]
        if differing or logs[name].keys() != logs[first].keys():
            faults.append(f"the logs of {first} and {name} differ, first near {min(differing, default=0)}")
    return faults + [fault for name, store in stores.items() for fault in _damage(name, store)]


def _damage(name: str, store: Path) -> list[str]:
    command = [sys.executable, "-m", "pyromq.cli.main", "store", "verify", str(store), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    return [f"store verify of {name}: {done.stdout[:500]}{done.stderr[:500]}"] if done.returncode else []
