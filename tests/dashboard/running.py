"""A dashboard over a cluster of ours, both in this process, asked by HTTP or by Debian's Chromium."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from playwright.async_api import Browser, BrowserContext, Page

from pyromq.admin.replicas import ReadElectedState
from pyromq.ambient import SystemClock
from pyromq.client.config import ClientConfig
from pyromq.dashboard.server import DashboardConfig, run
from pyromq.transport.tls import ClientTls
from tests.browser import chromium as chromium  # for all tests of this folder
from tests.client.world import World

CLUSTER = "local"
PROGRAM = "a-token-of-a-program-that-nobody-guesses"


@dataclass(slots=True)
class Dashboard:
    """`tokens`: those that log in once, as they were announced."""

    address: str
    tokens: list[str] = field(default_factory=list)

    @property
    def home(self) -> str:
        return f"{self.address}/c/{CLUSTER}"

    @property
    def link(self) -> str:
        return f"{self.address}/login#token={self.tokens[-1]}"

    @asynccontextmanager
    async def program(self) -> AsyncIterator[httpx.AsyncClient]:
        """A client of the API with a token; only JSON, no cookies."""
        headers = {"authorization": f"Bearer {PROGRAM}"}
        async with httpx.AsyncClient(base_url=self.address, headers=headers, timeout=30) as client:
            yield client

    async def figures(self, path: str, **query: str) -> Any:
        """What the API gives below the cluster."""
        async with self.program() as client:
            answer = await client.get(f"/api/v1/{CLUSTER}{path}", params=query)
            assert answer.status_code == 200, answer.text
            return answer.json()

    async def post(self, path: str, body: Any) -> httpx.Response:
        """What the API answers to a program below the cluster."""
        async with self.program() as client:
            return await client.post(f"/api/v1/{CLUSTER}{path}", json=body)

    async def plan(self, path: str, **wanted: Any) -> Any:
        """What an action would do."""
        answer = await self.post(f"{path}:plan", wanted)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def apply(self, path: str, plan: Any) -> Any:
        """How an action ended, with its name typed where one is wanted."""
        answer = await self.post(f"{path}:apply", {"plan": plan["plan"], "confirm": plan["confirm"]})
        found = answer.json()
        while answer.status_code == 202 and found["state"] == "running":
            found = await self.figures(f"/results/{found['id']}")
        assert answer.status_code in (200, 202), answer.text
        return found

    async def until(self, path: str, condition: Any) -> Any:
        """Ask again and again until what the API gives is so."""
        found = await self.figures(path)
        while not condition(found):
            found = await self.figures(path)
        return found


@asynccontextmanager
async def running_dashboard(
    world: World,
    folder: Path,
    tls: ClientTls | None = None,
    *,
    further: Mapping[str, World] | None = None,
    read_elected: ReadElectedState | None = None,
    **settings: Any,
) -> AsyncIterator[Dashboard]:
    tokens, links = folder / "tokens", list[str]()
    tokens.write_text(f"{PROGRAM}\n", "utf-8")
    reach = ClientConfig(name_servers=tuple(world.name_servers), tls=tls)
    others = {name: ClientConfig(name_servers=tuple(one.name_servers)) for name, one in (further or {}).items()}
    own: dict[str, Any] = {"port": 0, "api_token_file": tokens, "every_s": 0.1, "state_dir": folder / "dashboard"}
    config = DashboardConfig(clusters={CLUSTER: reach} | others, **(own | settings))
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    stop, rng = asyncio.Event(), random.Random(5)
    task = asyncio.create_task(
        run(
            config,
            clock=SystemClock(),
            rng=rng,
            word=lambda: f"{rng.getrandbits(256):064x}",
            ready=ready.set_result,
            announce=links.append,
            stop_wanted=stop,
            read_elected=read_elected,
        )
    )
    try:
        await asyncio.wait((task, ready), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        found = Dashboard(ready.result(), _Tokens(links))
        async with found.program() as client:
            answer = await client.get("/-/ready")
            while answer.status_code != 200:
                answer = await client.get("/-/ready")
        yield found
    finally:
        stop.set()
        await task


class _Tokens(list[str]):
    """The tokens of the links that were announced, as they stand now."""

    def __init__(self, links: list[str]) -> None:
        self._links = links

    def __getitem__(self, index: Any) -> Any:
        return [link.partition("#token=")[2] for link in self._links][index]

    def __len__(self) -> int:
        return len(self._links)


@dataclass(slots=True)
class Visit:
    """A browser that is logged in. `complaints`: its console, errors of pages, and requests to other hosts."""

    page: Page
    context: BrowserContext
    complaints: list[str] = field(default_factory=list)


@asynccontextmanager
async def visiting(browser: Browser, dashboard: Dashboard, **settings: Any) -> AsyncIterator[Visit]:
    context = await browser.new_context(**({"viewport": {"width": 1280, "height": 800}} | settings))
    visit = Visit(await context.new_page(), context)
    visit.page.on("console", lambda message: visit.complaints.append(message.text))
    visit.page.on("pageerror", lambda error: visit.complaints.append(str(error)))
    visit.page.on("request", lambda request: _note_strangers(visit, dashboard, request.url))
    if settings.get("java_script_enabled", True):
        await visit.page.goto(dashboard.link)
    else:
        await visit.page.goto(f"{dashboard.address}/login")
        await visit.page.get_by_label("Token").fill(dashboard.tokens[-1])
        await visit.page.get_by_role("button", name="Log in", exact=True).click()
    await visit.page.wait_for_url(dashboard.home)
    yield visit
    await context.close()


def _note_strangers(visit: Visit, dashboard: Dashboard, url: str) -> None:
    if not url.startswith((dashboard.address, "data:")):
        visit.complaints.append(f"asked another host: {url}")
