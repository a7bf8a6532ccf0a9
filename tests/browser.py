"""Debian's Chromium, for tests that look at pages as a person does."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, async_playwright

from tests.support import require

_GRAVE = ("serious", "critical")


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    path = shutil.which("chromium")
    require(path is not None, "no Chromium on this machine (Debian: chromium)")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        await browser.close()


async def too_wide(page: Page) -> int:
    """By how many pixels the page is wider than its window; 0 if it fits."""
    width: int = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return max(0, width)


async def barriers(page: Page) -> list[str]:
    """What keeps people from reading the page, by axe's rules: contrast, names, roles."""
    found = (await Axe().run(page)).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html']}" for one in found if one["impact"] in _GRAVE]


async def spoiled_words(page: Page) -> list[str]:
    """Words of the drawings that are shown which stand on other words, or reach over the edge."""
    found: list[str] = await page.evaluate(
        """() => [...document.querySelectorAll("svg")].filter(svg => svg.checkVisibility()).flatMap(svg => {
            const frame = svg.getBoundingClientRect();
            const words = [...svg.querySelectorAll("text")].map(each => [each.getBoundingClientRect(), each]);
            const out = words.filter(([at]) => at.left < frame.left - 1 || at.right > frame.right + 1);
            const cross = (a, b) =>
                a.left < b.right && b.left < a.right && a.top + 2 < b.bottom && b.top + 2 < a.bottom;
            const crossed = words.filter(([at], place) => words.slice(place + 1).some(([other]) => cross(at, other)));
            return [...out, ...crossed].map(([, each]) => each.firstChild.textContent);
        })"""
    )
    return found
