"""The programs of examples/ and the code of the SDK's pages do what they say, as processes of their own."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from tests.client.world import Servers

ROOT = Path(__file__).parents[2]


async def run(world: Servers, *arguments: str) -> str:
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


PAGE = [
    code
    for page in ("README.md", "docs/client.md", "docs/middleware.md")
    for code in re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)
]


@pytest.mark.parametrize("code", PAGE, ids=lambda code: code.splitlines()[0][:40])
async def test_the_page_s_code_runs(world: Servers, code: str) -> None:
    assert PAGE
    if "def test_" in code:
        (world.folder / "test_page.py").write_text(code)
        assert "1 passed" in await run(world, "-m", "pytest", "-p", "no:cacheprovider", "test_page.py")
    else:
        await run(world, "-c", code)
