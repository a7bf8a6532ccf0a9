"""A share of the campaign for CI: both targets on both kernels. `make sanitize` runs it on the sanitized kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.fire import Campaign
from tests.kernel.twins import native_module

KERNELS = ("native", "python")


async def campaign(folder: Path, target: str, kernel: str, seed: int, frames: int, *, secured: bool = False) -> None:
    if kernel == "native":
        native_module()  # says why where it is not built
    done = await Campaign(folder, target, kernel, seed, secured=secured).run(frames)
    assert done.frames >= frames
    assert done.answers > frames // 3  # most frames are requests that are understood and answered
    if secured:  # enough of both: what comes through, and what does not
        assert done.answers // 10 < done.refused < done.answers * 2 // 3
    assert not done.faults


@pytest.mark.parametrize("kernel", KERNELS)
async def test_a_broker_under_fire_serves_everybody_else(tmp_path: Path, kernel: str) -> None:
    await campaign(tmp_path, "broker", kernel, seed=15, frames=2500)


@pytest.mark.parametrize("kernel", KERNELS)
async def test_a_name_server_under_fire_serves_everybody_else(tmp_path: Path, kernel: str) -> None:
    await campaign(tmp_path, "namesrv", kernel, seed=15, frames=1500)


@pytest.mark.parametrize(("target", "kernel"), [("broker", "native"), ("broker", "python"), ("namesrv", "native")])
async def test_strangers_and_users_fire_at_who_asks_everybody(tmp_path: Path, target: str, kernel: str) -> None:
    await campaign(tmp_path, target, kernel, seed=15, frames=1000, secured=True)


@pytest.mark.slow
@pytest.mark.parametrize("secured", [False, True], ids=["open", "secured"])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("target", ["broker", "namesrv"])
async def test_a_long_campaign(tmp_path: Path, target: str, kernel: str, secured: bool) -> None:
    await campaign(tmp_path, target, kernel, seed=1, frames=100_000, secured=secured)
