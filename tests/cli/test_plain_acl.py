"""Accounts of ACL 1.0 as users and policies: what RocketMQ's own migration makes of them, and what is refused."""

from __future__ import annotations

import pytest

from pyromq.cli.access.plain_acl import read_plain_acl
from pyromq.cli.terminal.tree import Fail

APACHES = b"""
globalWhiteRemoteAddresses:
  - 10.10.103.*
accounts:
  - accessKey: RocketMQ
    secretKey: 12345678
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
    groupPerms:
      - groupB=PUB|SUB
      - groupC=SUB
  - accessKey: rocketmq2
    secretKey: 12345678
    whiteRemoteAddress: 192.168.1.*
    admin: true
"""


def test_accounts_become_users_and_policies() -> None:
    found = read_plain_acl(APACHES, "plain_acl.yml")
    assert [(one.user.username, one.user.password, one.user.user_type) for one in found.accounts] == [
        ("RocketMQ", "12345678", "Normal"),
        ("rocketmq2", "12345678", "Super"),
    ]
    entries = [
        (policy.policy_type, entry.resource, entry.actions, entry.decision)
        for policy in found.accounts[0].policies
        for entry in policy.entries
    ]
    assert entries == [
        ("Custom", "Topic:topicA", ["All"], "Deny"),
        ("Custom", "Topic:topicB", ["Pub", "Sub"], "Allow"),
        ("Custom", "Group:groupB", ["Pub", "Sub"], "Allow"),
        ("Custom", "Group:groupC", ["Sub"], "Allow"),
        ("Default", "Topic:*", ["All"], "Deny"),
        ("Default", "Group:*", ["Sub"], "Allow"),
    ]
    assert found.accounts[1].policies == []
    assert [text.partition(" ")[0] for text in found.left_out] == ["globalWhiteRemoteAddresses", "whiteRemoteAddress"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"accounts: [{accessKey: secret-ish", "is no YAML"),
        (b"accounts: 7", "a list of accounts"),
        (b"- a", "a list of accounts"),
        (b"accounts: [x]", "account 1 has no accessKey"),
        (b"accounts: [{accessKey: a}]", "no secretKey"),
        (b"accounts: [{accessKey: a, secretKey: b, topicPerms: [T]}]", "it is NAME="),
        (b"accounts: [{accessKey: a, secretKey: b, topicPerms: [T=PUBLISH]}]", "'PUBLISH' is none of PUB"),
        (b"accounts: !!python/object/apply:os.system [id]", "is no YAML"),
    ],
)
def test_what_is_no_such_file_is_refused_without_its_secrets(text: bytes, why: str) -> None:
    with pytest.raises(Fail, match=why) as fault:
        read_plain_acl(text, "plain_acl.yml")
    assert "secret-ish" not in fault.value.message
