"""What each area adds to the tests of all pages: its paths, and what has to be there before they are opened.

A module has the name of its area (`dashboard/web/pages/`). `PATHS` stand below the cluster; each page and each form of
the area's table is among them, or, by its route's name, in `IN_JOURNEYS`. `prepare` fills the cluster, and returns once
the dashboard shows it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules

from tests.client.world import World
from tests.dashboard.running import Dashboard

Prepare = Callable[[World, Dashboard], Awaitable[None]]


@dataclass(frozen=True)
class OpenedArea:
    name: str
    paths: tuple[str, ...]
    prepare: Prepare
    in_journeys: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name

    def covers(self, name: str, route_path: str) -> bool:
        """Return whether a route of the area's table is opened."""
        pattern = re.sub(r"\{\w+\}", "[^/]+", route_path)
        return name in self.in_journeys or any(re.fullmatch(pattern, path.partition("?")[0]) for path in self.paths)


def opened_areas() -> Iterator[OpenedArea]:
    for found in iter_modules(__path__):
        module = import_module(f"{__name__}.{found.name}")
        yield OpenedArea(found.name, module.PATHS, module.prepare, getattr(module, "IN_JOURNEYS", ()))
