"""How a table's DataVersion moves on: name servers and slaves compare it to see whether they are up to date."""

from __future__ import annotations

from ...protocol.bodies.version import DataVersion


def next_version(version: DataVersion, now_ms: int) -> DataVersion:
    return DataVersion(counter=version.counter + 1, state_version=version.state_version, timestamp=now_ms)
