"""`pyromq pub` and `pyromq sub` as a user calls them, against our own name server and broker."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.client.world import World


@pytest.fixture
async def world(tmp_path: Path) -> Any:
    world = World(tmp_path, enable_property_filter=True)
    await world.start_name_server()
    await world.start_broker()
    yield world
    await world.close()


@dataclass
class Result:
    exit_code: int
    output: str


async def run(world: World, *arguments: str, text: str = "") -> Result:
    (names,) = world.name_servers
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pyromq", *arguments, "-n", names, "--log-level", "error"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate(text.encode())
    assert process.returncode is not None
    return Result(process.returncode, output.decode())


async def test_what_is_published_is_shown(world: World) -> None:
    sent = await run(world, "pub", "T", "hello", "--tag", "a", "--key", "k1", "--prop", "region=eu", "--json")
    assert sent.exit_code == 0, sent.output
    told = json.loads(sent.output)
    shown = await run(world, "sub", "T", "--from", "first", "--count", "1", "--json")
    assert shown.exit_code == 0, shown.output
    found = json.loads(shown.output)
    assert (found["messageId"], found["body"], found["offset"]) == (told["messageId"], "hello", told["offset"])
    assert found["properties"]["region"] == "eu"
    line = await run(world, "sub", "T", "--from", "first", "--count", "1", "--tag", "a")
    assert f"broker-a/{told['queue']}@{told['offset']}  a  k1  hello" in line.output


async def test_files_lines_and_counts(world: World, tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(b"from a file")
    assert (await run(world, "pub", "T", f"@{tmp_path / 'body'}", "--count", "2")).exit_code == 0
    sent = await run(world, "pub", "T", "-", "--lines", text="one\ntwo\n\nthree\n")
    assert len(sent.output.splitlines()) == 3
    shown = await run(world, "sub", "T", "--from", "first", "--count", "5", "--json")
    bodies = sorted(json.loads(line)["body"] for line in shown.output.splitlines())
    assert bodies == ["from a file", "from a file", "one", "three", "two"]


async def test_a_group_goes_on_where_it_stopped_and_lookers_do_not_disturb(world: World) -> None:
    for number in range(4):
        await run(world, "pub", "T", str(number), "--order-key", "k")
    for expected in (["0", "1"], ["2", "3"]):
        await run(world, "sub", "T", "--from", "first", "--count", "1")
        shown = await run(world, "sub", "T", "-g", "g", "--from", "first", "--count", "2", "--json")
        assert [json.loads(line)["body"] for line in shown.output.splitlines()] == expected


async def test_sql(world: World) -> None:
    for region in ("eu", "us"):
        await run(world, "pub", "T", region, "--prop", f"region={region}")
    shown = await run(world, "sub", "T", "--sql", "region = 'us'", "--from", "first", "--count", "1", "--json")
    assert json.loads(shown.output)["body"] == "us"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("pub", "T", "x", "--prop", "region"), "write it as NAME=VALUE"),
        (("sub", "T", "--tag", "a", "--sql", "b > 1"), "two kinds of filter"),
        (("sub", "T", "--from", "tomorrow"), "--from tomorrow: neither milliseconds nor a time"),
    ],
)
async def test_bad_options(world: World, arguments: tuple[str, ...], words: str) -> None:
    shown = await run(world, *arguments)
    assert shown.exit_code == 64
    assert words in shown.output
