"""Dividing descriptors, seats of listeners, and what memory a process may use."""

from __future__ import annotations

import resource
from dataclasses import astuple
from pathlib import Path

import pytest

from pyromq.errors import ConfigError
from pyromq.machine import memory
from pyromq.machine.connection_quota import ConnectionQuota
from pyromq.machine.descriptors import divide, raise_limit
from pyromq.machine.memory import memory_limit


@pytest.mark.parametrize("limit", [96, 128, 256, 1024, 4096, 65_536, 1 << 20])
@pytest.mark.parametrize("queue_files", [0, 8, 1024])
def test_the_shares_of_a_limit_are_the_limit(limit: int, queue_files: int) -> None:
    shares = divide(limit, queue_files=queue_files)
    assert sum(astuple(shares)[1:]) == limit
    assert shares.queue_files <= queue_files
    assert shares.connections >= 8


def test_a_large_limit_gives_files_all_they_want_and_connections_the_rest() -> None:
    shares = divide(1 << 20, queue_files=1024)
    assert (shares.queue_files, shares.log_files, shares.outgoing) == (1024, 128, 256)
    assert shares.connections > 1_000_000


def test_connections_leave_what_is_reserved() -> None:
    assert divide(1024, queue_files=1024, reserved=900).connections == 124
    with pytest.raises(ConfigError, match="reservedDescriptors=1024 leaves no connections of the 1024 files"):
        divide(1024, reserved=1024)


def test_too_few_descriptors_are_refused() -> None:
    with pytest.raises(ConfigError, match="may open 64 files, and needs 96 at least: raise the limit"):
        divide(64, queue_files=1024)


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, hard), hard))
        raised = raise_limit(most=512)
        assert raised == min(512, hard)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (raised, hard)
        assert raise_limit(most=300) == 300  # what is there already stays, and no more than that is used
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (raised, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_listener_leaves_the_others_their_seats() -> None:
    quota = ConnectionQuota(16)
    main, fast = quota.listener(), quota.listener()
    assert sum(main.acquire() for _ in range(20)) == 14
    assert sum(fast.acquire() for _ in range(20)) == 2
    main.release()
    assert fast.acquire()
    assert not main.acquire()
    assert quota.in_use == 16


def machine(root: Path, group: str, **files: str) -> Path:
    """A root with proc and sys; `files` by their path below sys/fs/cgroup, with __ between the parts."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(group)
    for name, text in files.items():
        path = root.joinpath("sys/fs/cgroup", *name.split("__"))
        path = path.with_name(path.name.replace("memory_", "memory."))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


@pytest.mark.parametrize(
    ("group", "files", "expected"),
    [
        ("", {}, 16 << 30),
        ("0::/a/b\n", {"a__b__memory_max": "max", "a__memory_max": str(1 << 30)}, 1 << 30),
        ("0::/a/b\n", {"a__b__memory_max": str(2 << 30), "a__memory_max": str(3 << 30)}, 2 << 30),
        ("0::/\n", {"memory_max": str(512 << 20)}, 512 << 20),  # a container with a group namespace
        ("0::/docker/x\n", {"memory_max": str(512 << 20)}, 512 << 20),  # and without one
        ("4:memory:/a\n1:cpu:/a\n", {"memory__a__memory_limit_in_bytes": str(1 << 28)}, 1 << 28),
        ("4:memory:/a\n", {"memory__a__memory_limit_in_bytes": "9223372036854771712"}, 16 << 30),
        ("4:memory:/a\n0::/a\n", {"memory__a__memory_limit_in_bytes": "2147483648", "a__memory_max": "1000000"}, 10**6),
        ("nonsense\n", {"memory_max": "²"}, 16 << 30),
    ],
)
def test_memory_is_the_least_of_machine_and_control_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str, files: dict[str, str], expected: int
) -> None:
    monkeypatch.setattr(memory, "_physical", lambda: 16 << 30)
    monkeypatch.setattr(memory, "_address_space", lambda: 0)
    assert memory_limit(machine(tmp_path, group, **files)) == expected


def test_memory_is_no_more_than_the_address_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_address_space", lambda: 1 << 29)
    assert memory_limit(Path("/nowhere")) == 1 << 29
