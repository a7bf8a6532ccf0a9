"""What a request needs of the one who asks: an action on a resource, and where the resource's name stands.

Each row of `requests.py` has its needs. The words are those of RocketMQ's ACL 2.0. Rules that hold for every row:

- Any one of a need's actions is enough; all needs of a row must be met.
- A topic called `%RETRY%group` or `%DLQ%group` counts as that group: PUB and SUB on it are SUB on the group.
- A name that is absent refuses the request, unless the need says that it may be.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Action(Enum):
    PUB = "Pub"
    SUB = "Sub"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    GET = "Get"
    LIST = "List"


class Resource(Enum):
    CLUSTER = "Cluster"
    NAMESPACE = "Namespace"  # in policies alone: no request needs one, as in 5.5.0
    TOPIC = "Topic"
    GROUP = "Group"


class NameIn(Enum):
    SERVER = "the server's own cluster"
    HEADER = "a header field, by its name on the wire"
    BODY = "a member of the JSON body; a dot leads into objects and each item of lists"
    MESSAGE = "the topic of the stored message that the request points at: the handler asks once it has it"
    ALL = "no single one: all resources of the kind"


class Need(NamedTuple):
    """One of `actions` on the resource that `name_in` and `name` point at."""

    resource: Resource
    actions: tuple[Action, ...]
    name_in: NameIn
    name: str = ""
    separator: str = ""  # the field holds several names
    optional: bool = False  # an absent name asks for nothing


Needs = tuple[Need, ...]


def on_cluster(*actions: Action) -> Needs:
    return (Need(Resource.CLUSTER, actions, NameIn.SERVER),)


def on_all(resource: Resource, *actions: Action) -> Needs:
    return (Need(resource, actions, NameIn.ALL),)


def on_topic(*actions: Action, field: str = "topic", separator: str = "", optional: bool = False) -> Needs:
    return (Need(Resource.TOPIC, actions, NameIn.HEADER, field, separator, optional),)


def on_group(*actions: Action, field: str = "consumerGroup", separator: str = "", optional: bool = False) -> Needs:
    return (Need(Resource.GROUP, actions, NameIn.HEADER, field, separator, optional),)


def on_body_topic(member: str, action: Action, *, optional: bool = False) -> Needs:
    return (Need(Resource.TOPIC, (action,), NameIn.BODY, member, optional=optional),)


def on_body_group(member: str, action: Action, *, optional: bool = False) -> Needs:
    return (Need(Resource.GROUP, (action,), NameIn.BODY, member, optional=optional),)


def on_message(*actions: Action) -> Needs:
    return (Need(Resource.TOPIC, actions, NameIn.MESSAGE),)
