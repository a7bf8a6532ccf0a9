"""The kernel's flush thread by itself: how far it got, its end, and many who submit while it works."""

from __future__ import annotations

import errno
import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.twins import native_module


@pytest.fixture
def bell() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR)
    yield descriptor
    os.close(descriptor)


def test_it_says_how_far_it_got_and_ends_with_its_work_done(bell: tuple[int, int], file: int) -> None:
    flusher: Any = native_module().Flusher(bell[1], 5)
    assert flusher.state() == (5, 0)
    assert flusher.submit(file, 70)
    assert os.read(bell[0], 1) == b"\x01"
    assert flusher.state() == (70, 0)
    assert flusher.submit(file, 80)
    flusher.end()
    flusher.end()
    assert flusher.state() == (80, 0)
    assert not flusher.submit(file, 90)


def test_it_needs_no_interpreter(bell: tuple[int, int], file: int) -> None:
    """Nothing between the submit and the end of the loop gives the interpreter's lock away, and yet it gets on."""
    flusher: Any = native_module().Flusher(bell[1], 0)
    interval, limit = sys.getswitchinterval(), time.monotonic() + 60
    sys.setswitchinterval(3600)
    try:
        assert flusher.submit(file, 70)
        while flusher.state()[0] < 70 and time.monotonic() < limit:
            pass
        seen = flusher.state()
    finally:
        sys.setswitchinterval(interval)
    flusher.end()
    assert seen == (70, 0)


def test_many_submits_large_and_small_are_all_done_in_order(bell: tuple[int, int], file: int, tmp_path: Path) -> None:
    rng, until = random.Random(3), 0
    other = os.open(tmp_path / "other", os.O_CREAT | os.O_RDWR)
    flusher: Any = native_module().Flusher(bell[1], 0)
    seen = 0
    for number in range(300):
        until += rng.choice((10, 100, 100_000))
        while not flusher.submit(rng.choice((file, other)), until):
            os.read(bell[0], 4096)  # too many wait
        if rng.random() < 0.2:
            os.pwrite(file, b"x", number)
        done, fault = flusher.state()
        assert seen <= done <= until
        assert not fault
        seen = done
    flusher.end()
    assert flusher.state() == (until, 0)
    os.close(other)


def test_nothing_is_done_behind_a_sync_that_failed(bell: tuple[int, int], file: int) -> None:
    flusher: Any = native_module().Flusher(bell[1], 0)
    assert flusher.submit(bell[1], 10)  # a pipe cannot be synced
    os.read(bell[0], 1)
    assert flusher.state() == (0, errno.EINVAL)
    assert not flusher.submit(file, 20)
    flusher.end()
    assert flusher.state() == (0, errno.EINVAL)
