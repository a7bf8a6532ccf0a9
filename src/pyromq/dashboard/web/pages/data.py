"""Topics and groups."""

from __future__ import annotations

from ...views import group, pages, topic
from ...views.lists import Listing, ListQuery
from ...views.rows import GroupRow, TopicRow
from ..tables import Area, NavEntry, ViewRoute

AREA = Area(
    name="data",
    routes=(
        ViewRoute(
            "topics", "/topics", pages.topics, Listing[TopicRow], "Topics with their figures", ListQuery, "topics.html"
        ),
        ViewRoute(
            "topic",
            "/topics/{name}",
            topic.topic,
            topic.TopicPage,
            "One topic and its queues",
            page="topic.html",
            below="topics",
        ),
        ViewRoute(
            "groups",
            "/groups",
            pages.group_list,
            Listing[GroupRow],
            "Groups with their figures",
            ListQuery,
            "groups.html",
        ),
        ViewRoute(
            "group",
            "/groups/{name}",
            group.group,
            group.GroupPage,
            "One group, asked live",
            page="group.html",
            below="groups",
        ),
        ViewRoute(
            "stack",
            "/groups/{name}/members/{client}/stack",
            group.stack,
            group.Stack,
            "What a member does right now",
            page="stack.html",
            below="groups",
        ),
    ),
    nav=(NavEntry(30, "topics", "Topics", "/topics", "t"), NavEntry(40, "groups", "Groups", "/groups", "u")),
)
