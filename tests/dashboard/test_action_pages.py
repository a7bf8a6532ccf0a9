"""Actions in Debian's Chromium: form, plan, a name that is typed, result; with and without JavaScript."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from pyromq.admin import topics
from pyromq.dashboard.web.answers import action_api
from tests.client.world import World
from tests.dashboard.running import Dashboard, chromium, visiting
from tests.dashboard.test_api import fill


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as found:
        yield found


@pytest.mark.parametrize("with_script", [True, False])
async def test_a_topic_is_made_changed_and_deleted(
    world: World, dashboard: Dashboard, browser: Browser, with_script: bool
) -> None:
    await fill(world)
    await dashboard.until("/groups", lambda found: found["rows"])
    async with visiting(browser, dashboard, java_script_enabled=with_script) as visit:
        page = visit.page
        await page.goto(f"{dashboard.home}/topics")
        await page.get_by_role("link", name="Create a topic").click()
        await page.get_by_label("Name", exact=True).fill("my topic")
        await page.get_by_role("button", name="Show what it would do").click()
        await expect(page.get_by_role("alert")).to_contain_text("No topic can be called that")
        await page.get_by_label("Name", exact=True).fill("mine")
        await page.get_by_label("Queues on each broker").fill("3")
        await page.get_by_role("button", name="Show what it would do").click()
        await expect(page.get_by_role("heading", name="Create the topic mine?")).to_be_visible()
        await expect(page.locator("tbody tr")).to_have_text(["broker-a3rwUNSPECIFIED"])
        await page.get_by_role("button", name="Do it").click()
        await expect(page.locator("#result")).to_contain_text("done", timeout=30_000)
        await dashboard.until("/topics", lambda found: "mine" in str(found))

        await page.goto(f"{dashboard.home}/topics/mine")
        await page.get_by_role("link", name="Change").click()
        await expect(page.get_by_label("Queues to write")).to_have_value("3")
        await page.get_by_label("Queues to write").fill("5")
        await page.get_by_role("button", name="Show what it would do").click()
        await expect(page.locator(".notice.warning")).to_contain_text("would be written and read by nobody")
        await page.get_by_role("link", name="Leave it").click()
        await page.wait_for_url(f"{dashboard.home}/topics")

        await page.goto(f"{dashboard.home}/topics/orders/delete")
        await page.get_by_role("button", name="Show what it would do").click()
        await expect(page.locator(".notice.warning")).to_contain_text("The group billing consumes orders")
        await page.get_by_label("This cannot be undone").fill("order")
        await page.get_by_role("button", name="Do it").click()
        await expect(page.get_by_role("alert")).to_contain_text("This was not the name")
        await page.get_by_label("This cannot be undone").fill("orders")
        await page.get_by_role("button", name="Do it").click()
        await expect(page.locator("#result")).to_contain_text("2 of 2 steps", timeout=30_000)
        await dashboard.until("/topics", lambda found: [row["name"] for row in found["rows"]] == ["mine"])
        # 4xx pages are told on the console, and nothing else is
        assert [text for text in visit.complaints if "status of 4" not in text] == []


async def test_an_action_goes_on_when_its_browser_goes(
    dashboard: Dashboard, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, put = asyncio.Event(), topics.put

    async def slow(*arguments: Any, **settings: Any) -> None:
        await go.wait()
        await put(*arguments, **settings)

    monkeypatch.setattr(topics, "put", slow)
    monkeypatch.setattr(action_api, "API_WAIT_S", 0)
    async with visiting(browser, dashboard) as visit:
        await visit.page.goto(f"{dashboard.home}/create/topic")
        await visit.page.get_by_label("Name", exact=True).fill("slow")
        await visit.page.get_by_role("button", name="Show what it would do").click()
        await visit.page.get_by_role("button", name="Do it").click()
        await expect(visit.page.locator("#result")).to_contain_text("running", timeout=30_000)
        address = visit.page.url
        await visit.page.close()
        page = await visit.context.new_page()
        await page.goto(address)
        await expect(page.get_by_role("progressbar")).to_be_visible()
        plan = await dashboard.plan("/create/topic", name="of-a-program")
        answer = await dashboard.post("/create/topic:apply", {"plan": plan["plan"]})
        assert (answer.status_code, answer.json()["state"]) == (202, "running")
        assert answer.headers["location"].endswith(f"/results/{answer.json()['id']}")
        go.set()
        await expect(page.locator("#result")).to_contain_text("1 of 1 steps", timeout=30_000)  # by itself
        await dashboard.until(f"/results/{answer.json()['id']}", lambda found: found["state"] == "done")
        await dashboard.until(
            "/topics", lambda found: {"slow", "of-a-program"} <= {row["name"] for row in found["rows"]}
        )
