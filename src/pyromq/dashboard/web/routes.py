"""The whole surface on one page: which view stands at which path, as a page and in the API.

A path of the API is the page's below `/api/v1`. The OpenAPI document is made from this table and from the structs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from ..views import group, overview, pages, topic
from ..views.lists import Listing, ListQuery
from ..views.rows import GroupRow, TopicRow


@dataclass(frozen=True, slots=True)
class ViewRoute:
    """`path` stands below the cluster's name. `gives` is what the view returns."""

    name: str
    path: str
    view: Callable[..., Awaitable[Any]]
    gives: Any
    summary: str
    query: type[ListQuery] | None = None
    page: str = ""  # its template; without one it is in the API alone

    @property
    def parameters(self) -> list[str]:
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]


ROUTES = (
    ViewRoute("overview", "", overview.overview, overview.Overview, "How the cluster is", page="overview.html"),
    ViewRoute(
        "topics", "/topics", pages.topics, Listing[TopicRow], "Topics with their figures", ListQuery, "topics.html"
    ),
    ViewRoute("topic", "/topics/{name}", topic.topic, topic.TopicPage, "One topic and its queues", page="topic.html"),
    ViewRoute(
        "groups", "/groups", pages.group_list, Listing[GroupRow], "Groups with their figures", ListQuery, "groups.html"
    ),
    ViewRoute("group", "/groups/{name}", group.group, group.GroupPage, "One group, asked live", page="group.html"),
    ViewRoute(
        "stack",
        "/groups/{name}/members/{client}/stack",
        group.stack,
        group.Stack,
        "What a member does right now",
        page="stack.html",
    ),
    ViewRoute("brokers", "/brokers", pages.brokers, pages.BrokersPage, "Brokers", page="brokers.html"),
    ViewRoute("clients", "/clients", pages.clients, pages.ClientsPage, "Connected clients", ListQuery, "clients.html"),
    ViewRoute("doctor", "/doctor", pages.checkup, pages.CheckupPage, "What the checks found last", page="doctor.html"),
)
