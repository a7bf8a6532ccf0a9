"""The programs of examples/ and the code of docs/client.md do what they say, as processes of their own."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from tests.client.world import World

ROOT = Path(__file__).parents[2]


async def run(world: World, *arguments: str) -> str:
    (address,) = world.name_servers
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=os.environ | {"PYROMQ_NAMESRV": address},
        cwd=world.folder,
    )
    output = (await process.communicate())[0].decode()
    assert process.returncode == 0, output
    return output


async def test_send_and_consume(world: World) -> None:
    output = await run(world, str(ROOT / "examples" / "send_and_consume.py"))
    assert output.count("sent order") == 3
    assert "billed order 2, attempt 1" in output


async def test_ordered_by_key(world: World) -> None:
    output = await run(world, str(ROOT / "examples" / "ordered_by_key.py"))
    assert output == "ann: created, paid, packed, sent\nbob: created, paid, packed, sent\n"


async def test_replay_blocking(world: World) -> None:
    output = await run(world, str(ROOT / "examples" / "replay_blocking.py"))
    assert output == "sent 100 readings\nsum of all values: 4950\n"


PAGE = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "client.md").read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize("code", PAGE, ids=lambda code: code.splitlines()[0][:40])
async def test_the_page_s_code_runs(world: World, code: str) -> None:
    assert PAGE
    await run(world, "-c", code)
