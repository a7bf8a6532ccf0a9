"""What an area of the dashboard is made of: views, actions, and its entries among the links to all pages.

One row is a page and a path of the API; the OpenAPI document and the page on the API are made from the rows.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from ..acting.plan import ActionPlan
from ..acting.visitor import OPERATOR, READER
from ..acting.works import Work
from ..views.served import DownloadFile, StreamEvent
from ..watch.watched import ClusterWatch


@dataclass(frozen=True, slots=True)
class ViewRoute:
    """`path` stands below the cluster's name. `view` is called with the cluster, the values of the path's parameters
    and the query, if it has one, and returns what `gives` says. `below`: the entry of the navigation that leads here,
    where it is not the route's own. `for_visitor`: the view wants to know who asks, as `visitor=`.
    `of_snapshot`: it shows the snapshot and the checks alone: while these are the same, the API needs no work."""

    name: str
    path: str
    view: Callable[..., Awaitable[Any]]
    gives: Any
    summary: str
    query: type[msgspec.Struct] | None = None
    page: str = ""  # its template; without one it is in the API alone
    below: str = ""
    role: str = READER
    for_visitor: bool = False
    of_snapshot: bool = False

    @property
    def parameters(self) -> list[str]:
        return parameters(self.path)


@dataclass(frozen=True, slots=True)
class FormField:
    """A field of an action's form: `name` is the struct's. `kind`: text, number, choice, check, area, secret. What is
    secret, or `is_body`, reaches no audit line."""

    name: str
    label: str
    kind: str = "text"
    choices: tuple[str, ...] = ()
    hint: str = ""
    value: str = ""  # that the form begins with, unless `prefill` or the address has another
    is_body: bool = False

    @property
    def is_private(self) -> bool:
        return self.is_body or self.kind == "secret"


@dataclass(frozen=True, slots=True)
class PlanColumn:
    """A column of a plan's table: `key` is that of the rows. `kind`: text, number, moment."""

    key: str
    label: str
    kind: str = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRoute:
    """Something that is changed: a form at `path`, its plan, and what applies it; in the API `path:plan`, `path:apply`.

    `plan(cluster, *parameters, wanted)` reads and returns what would be done; `apply(cluster, plan, work)` does it, and
    tells `work` of each step. A plan is made anew before it is applied: apply gets that one. `right`: what brokers want
    for it, as policies call it. `is_final`: it cannot be undone, so its plan has a word to be typed.
    """

    name: str
    path: str
    wants: type[msgspec.Struct]
    plan: Callable[..., Awaitable[ActionPlan]]
    apply: Callable[[ClusterWatch, ActionPlan, Work], Awaitable[None]]
    summary: str
    columns: tuple[PlanColumn, ...]
    fields: tuple[FormField, ...] = ()
    prefill: Callable[..., dict[str, Any]] | None = None  # with the cluster and the parameters: what is so now
    role: str = OPERATOR
    right: str = ""
    is_final: bool = False
    page: str = "action.html"
    below: str = ""
    most_bytes: int = 1 << 16  # of its form or body

    @property
    def parameters(self) -> list[str]:
        return parameters(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRoute:
    """Events of the API that go on coming, as text/event-stream. `stream` is called as a view is, and is an async
    generator; it is closed when nobody listens any more. `gives`: what an event's data is."""

    name: str
    path: str
    stream: Callable[..., AsyncGenerator[StreamEvent, None]]
    gives: Any
    summary: str
    query: type[msgspec.Struct] | None = None
    role: str = READER
    for_visitor: bool = False

    @property
    def parameters(self) -> list[str]:
        return parameters(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadRoute:
    """A file, at `path` of the pages and of the API. `content` is called as a view is."""

    name: str
    path: str
    content: Callable[..., Awaitable[DownloadFile]]
    summary: str
    query: type[msgspec.Struct] | None = None
    role: str = READER
    for_visitor: bool = False

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
    views: tuple[ViewRoute, ...] = ()
    actions: tuple[ActionRoute, ...] = ()
    streams: tuple[StreamRoute, ...] = ()
    downloads: tuple[DownloadRoute, ...] = ()
    nav: tuple[NavEntry, ...] = ()


def parameters(path: str) -> list[str]:
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]
