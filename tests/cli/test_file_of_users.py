"""A file of `pyromq user import` is checked whole: a slip in it lets nobody in."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyromq.cli.access.file_of_users import read_users
from pyromq.cli.terminal.tree import Fail

ENTRY = {"resource": "Topic:orders", "actions": ["pub", "Sub"], "decision": "Allow", "sourceIps": ["10.1.0.0/16"]}
USER = {"username": "shop", "password": "its own", "userType": "normal", "userStatus": "disable"}


def content(user: dict[str, Any], entry: dict[str, Any], **policy: Any) -> bytes:
    acl = {"subject": "User:shop", "policies": [{"policyType": "Custom", "entries": [entry], **policy}]}
    return json.dumps({"users": [user], "acls": [acl]}).encode()


def test_a_right_file_is_read() -> None:
    users, acls = read_users(content(USER, ENTRY), "users.json")
    assert [(user.username, user.user_status) for user in users] == [("shop", "disable")]
    assert acls.keys() == {"shop"}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (content(USER | {"userStatus": "disabled"}, ENTRY), "userStatus 'disabled' is not known: it is enable or dis"),
        (content(USER | {"userType": "Supper"}, ENTRY), "user 'shop': userType 'Supper' is not known: it is Super or"),
        (content(USER | {"userTyp": "Normal"}, ENTRY), "user 'shop' has a key 'userTyp'.* Closest: .*'userType'"),
        (content(USER, ENTRY | {"sourceIp": ["10.1.2.3"]}), "'User:shop' has a key 'sourceIp'.* Closest: 'sourceIps'"),
        (content(USER, ENTRY | {"actions": ["Sub", "Publish"]}), "actions 'Publish' is not known: All, Pub"),
        (content(USER, ENTRY | {"decision": "Denied"}), "decision is null or illegal"),
        (content(USER, ENTRY | {"sourceIps": ["10.1.2"]}), "source ip is invalid"),
        (content(USER, ENTRY, policyType="Standard"), "policyType 'Standard' is not known: Custom, Default"),
        (b'{"users": [{"username": "shop"}], "acl": []}', "the file has a key 'acl'.* Closest: 'acls'"),
        (b"{}", "names nobody"),
    ],
)
def test_a_slip_is_named(data: bytes, why: str) -> None:
    with pytest.raises(Fail, match=why):
        read_users(data, "users.json")
