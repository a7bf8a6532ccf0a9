"""A name server and brokers that stand for a whole module, in a thread of their own, so that commands run as users run
them: each with an event loop of its own, in the test's thread."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from click.testing import CliRunner, Result

from pyromq.cli.main import cli
from tests.client.world import World

T = TypeVar("T")
LIMIT_S = 60.0


class Standing:
    """Tests only: `do` runs a coroutine where the brokers are."""

    def __init__(self, world: World, loop: asyncio.AbstractEventLoop) -> None:
        self.world = world
        self.loop = loop

    @property
    def names(self) -> str:
        return ";".join(self.world.name_servers)

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(LIMIT_S)

    def run(self, *words: str, text: str | None = None) -> Result:
        """`pyromq -n NAMES words`."""
        return CliRunner().invoke(cli, ["-n", self.names, *words], input=text)

    def shown(self, *words: str, text: str | None = None) -> str:
        """What it prints for people; it must succeed."""
        done = self.run(*words, text=text)
        assert done.exit_code == 0, (done.output, done.exception)
        return done.stdout

    def rows(self, *words: str, text: str | None = None) -> list[Any]:
        """What it prints for programs, one object a line."""
        return [json.loads(line) for line in self.shown(*words, "--json", text=text).splitlines()]

    def report(self, *words: str) -> Any:
        """The same where it is one object over many lines."""
        return json.loads(self.shown(*words, "--json"))

    def refused(self, *words: str, code: int = 1, text: str | None = None) -> str:
        """Its words on stderr, after it ended with this code."""
        done = self.run(*words, text=text)
        assert done.exit_code == code, (done.exit_code, done.output, done.exception)
        assert done.stdout == "", done.stdout
        return done.stderr

    def send(self, topic: str, *bodies: str, **how: Any) -> list[str]:
        """Their ids."""

        async def send() -> list[str]:
            async with self.world.client() as client, client.producer() as producer:
                return [(await producer.send(topic, body, **how)).message_id for body in bodies]

        return self.do(send())


@contextmanager
def standing(folder: Path, *brokers: str, **settings: Any) -> Iterator[Standing]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="standing brokers", daemon=True)
    thread.start()
    world = World(folder, **settings)
    stands = Standing(world, loop)

    async def start() -> None:
        await world.start_name_server()
        for name in brokers or ("broker-a",):
            await world.start_broker(name)

    try:
        stands.do(start())
        yield stands
    finally:
        stands.do(world.close())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(LIMIT_S)
        loop.close()
