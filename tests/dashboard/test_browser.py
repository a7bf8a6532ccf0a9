"""The pages in Debian's Chromium: journeys, with and without JavaScript, light and dark, and by axe's rules."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, expect

from pyromq import tag
from pyromq.dashboard.web.routes import AREAS, NAV, VIEWS
from pyromq.model.message import StoredMessage
from pyromq.protocol.command import Command
from tests.client.world import World
from tests.dashboard.areas import OpenedArea, opened_areas
from tests.dashboard.running import CLUSTER, Dashboard, chromium, visiting
from tests.dashboard.test_api import fill

GUISES: list[dict[str, Any]] = [
    {"color_scheme": "light"},
    {"color_scheme": "dark", "viewport": {"width": 390, "height": 844}},
    {"locale": "zh-CN", "viewport": {"width": 390, "height": 844}},
    {"java_script_enabled": False},
]
OPENED = {area.name: area for area in opened_areas()}


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as found:
        yield found


@pytest.mark.parametrize("area", OPENED.values(), ids=str)
async def test_every_page_in_every_guise(
    world: World, dashboard: Dashboard, browser: Browser, area: OpenedArea
) -> None:
    """Fine by axe's rules in both schemes, no wider than a telephone, without a word on the console."""
    await area.prepare(world, dashboard)
    faults: list[str] = []
    for guise in GUISES:
        async with visiting(browser, dashboard, **guise) as visit:
            for address in [*(f"{dashboard.home}{path}" for path in area.paths), f"{dashboard.address}/api"]:
                answer = await visit.page.goto(address)
                assert answer is not None
                assert answer.status == 200, address
                await expect(visit.page.get_by_role("heading", level=1)).to_be_visible()
                if guise.get("java_script_enabled", True):
                    faults += [f"{address}: {fault} ({guise})" for fault in await _faults(visit.page, guise)]
            assert visit.complaints == []
    assert faults == []


async def _faults(page: Page, guise: dict[str, Any]) -> list[str]:
    """What is wrong with a page: too wide for its window, or serious by axe's rules."""
    width = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
    faults = [f"{width} px too wide"] if width > 0 else []
    if "locale" not in guise:
        found = (await Axe().run(page)).response["violations"]
        serious = [one for one in found if one["impact"] in ("serious", "critical")]
        faults += [f"{one['id']}: {one['nodes'][0]['html']}" for one in serious]
    return faults


def test_every_page_of_an_area_is_opened_by_its_tests() -> None:
    pages = [(area.name, one.name, one.path) for area in AREAS for one in area.views if one.page]
    pages += [(area.name, one.name, one.path) for area in AREAS for one in area.actions]
    left_out = [page for page in pages if page[0] not in OPENED or not OPENED[page[0]].covers(*page[1:])]
    assert left_out == []


def test_links_and_keys_to_pages_are_each_there_once() -> None:
    assert len({entry.rank for entry in NAV}) == len({entry.key for entry in NAV}) == len(NAV)
    assert {entry.route for entry in NAV} <= {route.name for route in VIEWS}


async def test_why_a_group_lags(world: World, dashboard: Dashboard, browser: Browser) -> None:
    """From the overview to the group: what waits, who has it, what would help; the figures are the API's."""
    await fill(world)
    await dashboard.until("/groups", lambda found: found["rows"] and found["rows"][0]["lag"]["value"])
    async with visiting(browser, dashboard) as visit:
        page = visit.page
        await page.goto(dashboard.home)
        await page.get_by_role("link", name="billing").first.click()
        await expect(page.get_by_role("heading", name="billing")).to_be_visible()
        await expect(page.locator("#advice")).to_contain_text("orders: 39 wait. Nobody consumes: start it")
        async with world.client() as client, client.push_consumer("orders", _consume, group="billing"):
            await expect(page.locator("#tiles")).to_contain_text("Waiting0", timeout=30_000)
            await expect(page.locator("#members tbody tr")).to_have_count(1)
            await page.get_by_role("link", name="Stack").click()
            await expect(page.locator("pre")).to_contain_text("test_browser.py", timeout=10_000)
        assert visit.complaints == []


async def _consume(message: StoredMessage) -> None:
    pass


async def test_members_that_want_different_things_are_found_and_gone_when_mended(
    world: World, dashboard: Dashboard, browser: Browser
) -> None:
    await fill(world)
    async with (
        visiting(browser, dashboard) as visit,
        world.client(instance="one") as one,
        world.client(instance="two") as other,
    ):
        finding = visit.page.get_by_role("link", name="members of billing want different things")
        async with one.push_consumer("orders", _consume, group="billing", filter=tag("a")):
            async with other.push_consumer("orders", _consume, group="billing", filter=tag("b")):
                await expect(finding).to_be_visible(timeout=30_000)
                await finding.click()
                await expect(visit.page.locator(".notice.broken").first).to_contain_text("CONFLICT")
                await visit.page.go_back()
            await expect(finding).to_be_hidden(timeout=30_000)
        assert visit.complaints == []


async def test_is_my_cluster_healthy(world: World, dashboard: Dashboard, browser: Browser) -> None:
    """The checks of the page are those of the command, in its order, each with its cure."""
    await fill(world)
    async with visiting(browser, dashboard) as visit:
        page = visit.page
        await page.keyboard.press("g")
        await page.keyboard.press("h")
        await expect(page.get_by_role("heading", name="Doctor")).to_be_visible()
        await page.get_by_role("button", name="Check again").click()
        found = await dashboard.figures("/doctor")
        await expect(page.locator(".findings li")).to_have_count(len(found["checks"]))
        for check in found["checks"]:
            await expect(page.locator("#checks")).to_contain_text(check["text"])
            if check["command"]:
                await expect(page.locator("#checks")).to_contain_text(check["command"])
        assert visit.complaints == []


async def test_everything_but_fresh_figures_works_without_javascript(
    world: World, dashboard: Dashboard, browser: Browser
) -> None:
    await fill(world)
    await dashboard.until("/groups", lambda found: found["rows"])
    async with visiting(browser, dashboard, java_script_enabled=False) as visit:
        page = visit.page
        await page.get_by_role("link", name="Topics", exact=True).click()
        await page.get_by_label("Filter by name").fill("nothing-has-this")
        await page.get_by_role("button", name="Filter").click()
        await expect(page.get_by_text("No topic has this in its name.")).to_be_visible()
        await page.get_by_role("link", name="Show all").click()
        await page.get_by_role("link", name="Kept").click()
        await expect(page.locator("th[aria-sort=descending]")).to_contain_text("Kept")
        await page.get_by_label("Search topics, groups, keys, message ids").fill("billing")
        await page.keyboard.press("Enter")
        await page.wait_for_url(f"{dashboard.home}/groups/billing")
        await page.get_by_role("button", name="中文").click()
        await expect(page.get_by_role("link", name="总览")).to_be_visible()
        await page.get_by_role("button", name="深色").click()
        await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        await page.get_by_role("button", name="退出登录").click()
        await page.wait_for_url(f"{dashboard.address}/login")


async def test_names_that_are_markup_are_shown_as_they_are(
    world: World, dashboard: Dashboard, browser: Browser
) -> None:
    """Client ids are anybody's: what stands in them is shown, never run."""
    hostile = "<img src=x onerror=document.title='ran'>{{7*7}}</script><script>document.title='ran'</script>"
    await fill(world)
    address = world.brokers["broker-a"].address
    data = {"groupName": "billing", "subscriptionDataSet": [{"topic": "orders", "subString": "*"}]}
    async with world.client() as client:
        body = json.dumps({"clientID": hostile, "consumerDataSet": [data]}).encode()
        answer = await client.session.transport.call(address, Command(code=34, body=body), 20)
        assert answer.code == 0, answer.remark
        await dashboard.until("/groups", lambda found: found["rows"] and found["rows"][0]["members"]["value"] == 1)
        async with visiting(browser, dashboard) as visit:
            for path in ("/groups/billing", "/clients"):
                await visit.page.goto(f"{dashboard.home}{path}")
                shown = visit.page.locator("main")
                await expect(shown).to_contain_text("<img src=x onerror=document.title='ran'>{{7*7}}")
                assert "ran" not in await visit.page.title()
            await visit.page.goto(f"{dashboard.home}/topics?q=%3Cscript%3E%22%27")
            await expect(visit.page.get_by_label("Filter by name")).to_have_value("<script>\"'")
            assert CLUSTER in await visit.page.title()
            assert visit.complaints == []
