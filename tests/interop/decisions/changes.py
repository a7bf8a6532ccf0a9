"""Changes of users and policies, step by step: what each is answered, and what is shown at the end."""

from __future__ import annotations

from typing import Any, NamedTuple

from .users import Entry, allow, deny

CREATE_USER, UPDATE_USER, DELETE_USER, GET_USER, LIST_USERS = 3001, 3002, 3003, 3004, 3005
CREATE_ACL, UPDATE_ACL, DELETE_ACL, GET_ACL, LIST_ACLS = 3006, 3007, 3008, 3009, 3010
PASSWORD = "its password"


class Step(NamedTuple):
    code: int
    fields: dict[str, str]
    body: Any = None


def user(name: str, code: int = CREATE_USER, **more: str) -> Step:
    return Step(code, {"username": name}, {"username": name, "password": PASSWORD} | more)


def acl(name: str, *policies: tuple[str | None, list[Entry]], code: int = CREATE_ACL) -> Step:
    body: dict[str, Any] = {"subject": f"User:{name}"}
    body["policies"] = [{"entries": entries} | ({"policyType": kind} if kind else {}) for kind, entries in policies]
    return Step(code, {"subject": f"User:{name}"}, body)


def drop(name: str, resource: str = "", kind: str = "") -> Step:
    fields = {"subject": f"User:{name}"}
    fields |= {"resource": resource} if resource else {}
    return Step(DELETE_ACL, fields | ({"policyType": kind} if kind else {}))


def sequences() -> dict[str, list[Step]]:
    """Return steps by the name of the user that they are about."""
    return {**_users(), **_policies(), **_refused()}


def _users() -> dict[str, list[Step]]:
    return {
        "u-plain": [user("u-plain")],
        "u-super": [user("u-super", userType="Super")],
        "u-kinds": [user("u-kinds", userType="sUPER", userStatus="Disable")],
        "u-odd-kind": [user("u-odd-kind", userType="Emperor", userStatus="asleep")],
        "u-twice": [user("u-twice"), user("u-twice", password="another")],
        "u-no-password": [Step(CREATE_USER, {"username": "u-no-password"}, {"username": "u-no-password"})],
        "u-blank": [user("u-blank", password=" ")],
        "u-no-body": [Step(CREATE_USER, {"username": "u-no-body"})],
        "u-other-name": [Step(CREATE_USER, {"username": "u-other-name"}, {"username": "x", "password": PASSWORD})],
        "u-update": [user("u-update"), user("u-update", UPDATE_USER, password="new", userStatus="disable")],
        "u-update-type": [user("u-update-type"), user("u-update-type", UPDATE_USER, userType="Super")],
        "u-update-none": [user("u-update-none", UPDATE_USER)],
        "u-delete": [user("u-delete"), Step(DELETE_USER, {"username": "u-delete"})],
        "u-delete-none": [Step(DELETE_USER, {"username": "u-delete-none"})],
        "u-delete-acl": [
            user("u-delete-acl"),
            acl("u-delete-acl", ("Custom", [allow("Topic:a", "Pub")])),
            Step(DELETE_USER, {"username": "u-delete-acl"}),
            user("u-delete-acl"),
        ],
    }


def _policies() -> dict[str, list[Step]]:
    one, two = [allow("Topic:a", "Pub,Sub"), deny("Topic:b*", "All")], [allow("Group:*", "Sub", "10.0.0.0/8")]
    plans: dict[str, list[tuple[tuple[str | None, list[Entry]], ...] | Step]] = {
        "a-custom": [(("Custom", one),)],
        "a-untyped": [((None, one),)],
        "a-odd-type": [(("Special", one),)],
        "a-both": [(("Custom", one), ("Default", two))],
        "a-default-first": [(("Default", two),), (("Custom", one),)],
        "a-two-customs": [(("Custom", one), ("Custom", two))],
        "a-twice": [(("Custom", one),), (("Custom", [deny("Topic:a", "Get"), allow("Topic:c", "Get")]),)],
        "a-same-at-once": [(("Custom", [allow("Topic:a", "Pub"), deny("Topic:a", "Sub")]),)],
        "a-case": [(("custom", [{"resource": "TOPIC:a", "actions": ["pUB", "all"], "decision": "aLLOW"}]),)],
        "a-unknown-action": [(("Custom", [allow("Topic:a", "Pub,Fly")]),)],
        "a-star": [(("Custom", [allow("*", "All")]), ("Default", [deny("Topic:*", "All")]))],
        "a-namespace": [(("Custom", [allow("Namespace:ns", "All"), allow("Cluster:c*", "Get")]),)],
        "a-source-ip": [(("Custom", [allow("Topic:a", "Pub", "10.0.0.1", "fe80::1", "::/0")]),)],
        "a-drop-one": [(("Custom", one),), drop("a-drop-one", "Topic:a")],
        "a-drop-prefix": [(("Custom", one),), drop("a-drop-prefix", "Topic:b*")],
        "a-drop-absent": [(("Custom", one),), drop("a-drop-absent", "Topic:zzz")],
        "a-drop-all": [(("Custom", one), ("Default", two)), drop("a-drop-all")],
        "a-drop-default": [(("Custom", one), ("Default", two)), drop("a-drop-default", "Group:*", "Default")],
        "a-drop-wrong-type": [(("Custom", one), ("Default", two)), drop("a-drop-wrong-type", "Group:*", "Custom")],
        "a-drop-last": [(("Custom", two),), drop("a-drop-last", "Group:*")],
        "a-drop-none": [drop("a-drop-none")],
        "a-drop-type": [(("Custom", one), ("Default", two)), drop("a-drop-type", kind="Default")],
    }
    return {
        name: [user(name), *(step if isinstance(step, Step) else acl(name, *step) for step in steps)]
        for name, steps in plans.items()
    }


def _refused() -> dict[str, list[Step]]:
    whole: Entry = {"resource": "Topic:a", "actions": ["Pub"], "decision": "Allow"}
    entries: dict[str, Entry] = {
        "no-resource": {key: value for key, value in whole.items() if key != "resource"},
        "odd-kind": whole | {"resource": "Planet:a"},
        "no-kind": whole | {"resource": "a"},
        "no-name": whole | {"resource": "Topic:"},
        "no-actions": whole | {"actions": []},
        "odd-actions": whole | {"actions": ["Fly"]},
        "any-action": whole | {"actions": ["Any"]},
        "no-decision": {key: value for key, value in whole.items() if key != "decision"},
        "odd-decision": whole | {"decision": "Perhaps"},
        "odd-source": whole | {"sourceIps": ["here"]},
        "blank-source": whole | {"sourceIps": [" "]},
        "large-block": whole | {"sourceIps": ["10.0.0.0/33"]},
        "named-mask": whole | {"sourceIps": ["10.0.0.0/255.0.0.0"]},
        "short-address": whole | {"sourceIps": ["10.1"]},
        "short-block": whole | {"sourceIps": ["10.1/16"]},
        "zeros": whole | {"sourceIps": ["010.1.1.1"]},
        "any-kind": whole | {"resource": "Any:a"},
    }
    return {
        **{f"r-{name}": [user(f"r-{name}"), acl(f"r-{name}", ("Custom", [one]))] for name, one in entries.items()},
        "r-no-user": [acl("r-no-user", ("Custom", [whole]))],
        "r-no-policies": [user("r-no-policies"), acl("r-no-policies")],
        "r-no-entries": [user("r-no-entries"), acl("r-no-entries", ("Custom", []))],
        "r-no-body": [user("r-no-body"), Step(CREATE_ACL, {"subject": "User:r-no-body"})],
        "r-odd-subject": [Step(CREATE_ACL, {"subject": "Robot:x"}, acl("x", ("Custom", [whole])).body)],
        "r-half-wrong": [user("r-half-wrong"), acl("r-half-wrong", ("Custom", [whole, entries["odd-kind"]]))],
    }
