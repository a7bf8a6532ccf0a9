"""What an area of the dashboard is made of: routes, and its entries among the links to all pages.

One row is a page and a path of the API; the OpenAPI document and the page on the API are made from the rows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from ..views.lists import ListQuery


@dataclass(frozen=True, slots=True)
class ViewRoute:
    """`path` stands below the cluster's name. `gives` is what the view returns. `below`: the entry of the navigation
    that leads here, where it is not the route's own."""

    name: str
    path: str
    view: Callable[..., Awaitable[Any]]
    gives: Any
    summary: str
    query: type[ListQuery] | None = None
    page: str = ""  # its template; without one it is in the API alone
    below: str = ""

    @property
    def parameters(self) -> list[str]:
        return parameters(self.path)


@dataclass(frozen=True, slots=True)
class NavEntry:
    """A link that every page has. `rank`: its place, the least first; `key`: the letter after `g` that leads there."""

    rank: int
    route: str
    label: str
    path: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """Pages that belong together. `name` is that of its module, of its catalogue and of its tests."""

    name: str
    routes: tuple[ViewRoute, ...] = ()
    nav: tuple[NavEntry, ...] = ()


def parameters(path: str) -> list[str]:
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]
