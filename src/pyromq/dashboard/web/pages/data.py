"""Topics and groups."""

from __future__ import annotations

from ...actions import group_deletion, topic_changes, topic_creation, topic_deletion
from ...views import definitions, group, pages, topic
from ...views.lists import Listing, ListQuery
from ...views.rows import GroupRow, TopicRow
from ..tables import ActionRoute, Area, DownloadRoute, FormField, NavEntry, PlanColumn, ViewRoute

TYPES = ("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED", "PRIORITY", "LITE")
PERMISSIONS = ("rw", "r", "w", "none")
BROKER = PlanColumn("broker", "Broker")

CREATE_TOPIC = ActionRoute(
    name="create-topic",
    path="/create/topic",
    wants=topic_creation.TopicWanted,
    plan=topic_creation.plan,
    apply=topic_creation.apply,
    summary="Create a topic",
    columns=(
        BROKER,
        PlanColumn("queues", "Queues", "number"),
        PlanColumn("perm", "Permission"),
        PlanColumn("kind", "Type"),
    ),
    fields=(
        FormField("name", "Name"),
        FormField("queues", "Queues on each broker", "number", value="8"),
        FormField("perm", "Permission", "choice", PERMISSIONS),
        FormField("kind", "Type", "choice", TYPES),
        FormField("broker", "Only on this broker", hint="Empty: on all brokers."),
    ),
    right="Create",
    below="topics",
)
CHANGE_TOPIC = ActionRoute(
    name="change-topic",
    path="/topics/{name}/change",
    wants=topic_changes.TopicChangeWanted,
    plan=topic_changes.plan,
    apply=topic_changes.apply,
    summary="Change a topic's queues and permission",
    columns=(BROKER, PlanColumn("what", "Setting"), PlanColumn("now", "Now"), PlanColumn("then", "Then")),
    fields=(
        FormField("queues", "Queues to write", "number"),
        FormField("read_queues", "Queues to read", "number"),
        FormField("perm", "Permission", "choice", PERMISSIONS),
        FormField("move_keys", "Keys of an order topic may move to other queues", "check"),
    ),
    prefill=topic_changes.prefill,
    right="Create",
    below="topics",
)
DELETE_TOPIC = ActionRoute(
    name="delete-topic",
    path="/topics/{name}/delete",
    wants=topic_deletion.NothingWanted,
    plan=topic_deletion.plan,
    apply=topic_deletion.apply,
    summary="Delete a topic with its messages",
    columns=(
        PlanColumn("what", "What"),
        PlanColumn("name", "Name"),
        PlanColumn("messages", "Messages", "number"),
        PlanColumn("members", "Members online", "number"),
        PlanColumn("lag", "Waiting", "number"),
    ),
    right="Delete",
    is_final=True,
    below="topics",
)
DELETE_GROUP = ActionRoute(
    name="delete-group",
    path="/groups/{name}/delete",
    wants=group_deletion.GroupDeletionWanted,
    plan=group_deletion.plan,
    apply=group_deletion.apply,
    summary="Delete a group",
    columns=(
        BROKER,
        PlanColumn("members", "Members online", "number"),
        PlanColumn("offsets", "Offsets", "number"),
        PlanColumn("lag", "Waiting", "number"),
        PlanColumn("retries", "Retries", "number"),
        PlanColumn("dead", "Dead letters", "number"),
    ),
    fields=(
        FormField("keep_offsets", "Keep its offsets: a group of this name goes on where this one was", "check"),
        FormField("with_dead_letters", "Delete its dead letters too", "check"),
    ),
    right="Delete",
    is_final=True,
    below="groups",
)

AREA = Area(
    name="data",
    views=(
        ViewRoute(
            "topics",
            "/topics",
            pages.topics,
            Listing[TopicRow],
            "Topics with their figures",
            ListQuery,
            "topics.html",
            of_snapshot=True,
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
            of_snapshot=True,
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
    actions=(CREATE_TOPIC, CHANGE_TOPIC, DELETE_TOPIC, DELETE_GROUP),
    downloads=(
        DownloadRoute(
            name="definitions",
            path="/definitions",
            content=definitions.definitions_file,
            summary="Topics and groups as a file, for pyromq apply",
        ),
    ),
    nav=(NavEntry(30, "topics", "Topics", "/topics", "t"), NavEntry(40, "groups", "Groups", "/groups", "u")),
)
