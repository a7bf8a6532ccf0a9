"""Decisions are those of RocketMQ 5.5.0: against a plain model, which is its comparator and filters word by word."""

from __future__ import annotations

from functools import cmp_to_key
from ipaddress import ip_address, ip_network
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.access.forms import policies_of
from pyromq.access.policies import AclConflict, Decision, deciding
from pyromq.protocol.access import Action, Resource
from pyromq.protocol.bodies.groups import AclInfo, PolicyEntryInfo, PolicyInfo


class Row(NamedTuple):
    """An entry as it is typed."""

    resource: str
    actions: list[str]
    sources: list[str]
    decision: str


def type_and_name(resource: str) -> tuple[str, str, str]:
    """Return type, pattern and name, as Resource.of of 5.5.0."""
    if resource == "*":
        return "ANY", "ANY", ""
    kind, _, name = resource.partition(":")
    if name == "*":
        return kind, "ANY", ""
    if name.endswith("*"):
        return kind, "PREFIXED", name[: name.index("*")]
    return kind, "LITERAL", name


def compare(one: Row, other: Row) -> int:
    """AclAuthorizationHandler.comparePolicyEntries of 5.5.0."""
    (type1, pattern1, name1), (type2, pattern2, name2) = type_and_name(one.resource), type_and_name(other.resource)
    order = ["LITERAL", "PREFIXED", "ANY"]
    found = 0
    if type1 != type2:
        found = 1 if type1 == "ANY" else -1
    elif pattern1 == pattern2:
        if pattern1 == "PREFIXED":
            found = len(name2) - len(name1)
    else:
        found = -1 if order.index(pattern1) < order.index(pattern2) else 1
    if found:
        return found
    return (other.decision == "Deny") - (one.decision == "Deny")


def is_match(row: Row, kind: Resource, name: str, actions: list[Action], source: str) -> bool:
    type_, pattern, own = type_and_name(row.resource)
    if type_ != "ANY":
        if type_ != kind.value:
            return False
        if (pattern == "LITERAL" and own != name) or (pattern == "PREFIXED" and not name.startswith(own)):
            return False
    if "All" not in row.actions and not any(action.value in row.actions for action in actions):
        return False
    return not row.sources or any(ip_address(source) in ip_network(each, strict=False) for each in row.sources)


def model(
    custom: list[Row], default: list[Row], kind: Resource, name: str, actions: list[Action], source: str
) -> str | None:
    for rows in (custom, default):
        matching = [row for row in rows if is_match(row, kind, name, actions, source)]
        if matching:
            return sorted(matching, key=cmp_to_key(compare))[0].decision
    return None


NAMES = st.text("ab%-", min_size=1, max_size=4)
KINDS = st.sampled_from(["Topic", "Group", "Cluster"])
RESOURCES = st.one_of(
    st.just("*"), st.builds("{}:{}{}".format, KINDS, NAMES, st.sampled_from(["", "*"])), KINDS.map("{}:*".format)
)
ROWS = st.lists(
    st.builds(
        Row,
        RESOURCES,
        st.lists(st.sampled_from(["All", *(action.value for action in Action)]), min_size=1, max_size=3, unique=True),
        st.lists(st.sampled_from(["10.0.0.1", "10.0.0.0/8", "192.168.1.0/24", "::1"]), max_size=2, unique=True),
        st.sampled_from(["Allow", "Deny"]),
    ),
    max_size=6,
)
ACTIONS = st.lists(st.sampled_from(list(Action)), min_size=1, max_size=3, unique=True)


def acl(custom: list[Row], default: list[Row]) -> AclInfo:
    policies = [
        PolicyInfo(
            policy_type=kind,
            entries=[
                PolicyEntryInfo(resource=r.resource, actions=r.actions, source_ips=r.sources, decision=r.decision)
                for r in rows
            ],
        )
        for kind, rows in (("Custom", custom), ("Default", default))
    ]
    return AclInfo(subject="User:u", policies=policies)


@settings(max_examples=600)
@given(ROWS, ROWS, st.sampled_from(Resource), NAMES, ACTIONS, st.sampled_from(["10.0.0.1", "10.9.9.9", "192.168.1.7"]))
def test_decisions_are_those_of_rocketmq(
    custom: list[Row], default: list[Row], kind: Resource, name: str, actions: list[Action], source: str
) -> None:
    entry = deciding(policies_of(acl(custom, default)), kind, name, tuple(actions), source, AclConflict.DENY)
    expected = model(custom, default, kind, name, actions, source)
    assert (None if entry is None else entry.decision.value) == expected


@pytest.mark.slow
@settings(max_examples=100_000)
@given(ROWS, ROWS, st.sampled_from(Resource), NAMES, ACTIONS, st.sampled_from(["10.0.0.1", "10.9.9.9", "192.168.1.7"]))
def test_a_hundred_thousand_decisions(
    custom: list[Row], default: list[Row], kind: Resource, name: str, actions: list[Action], source: str
) -> None:
    entry = deciding(policies_of(acl(custom, default)), kind, name, tuple(actions), source, AclConflict.DENY)
    assert (None if entry is None else entry.decision.value) == model(custom, default, kind, name, actions, source)


@pytest.mark.parametrize(
    ("conflict", "expected"), [(AclConflict.ALLOW, Decision.ALLOW), (AclConflict.DENY, Decision.DENY)]
)
def test_who_wins_between_equally_narrow_entries(conflict: AclConflict, expected: Decision) -> None:
    rows = [Row("Topic:T", ["Pub"], [], decision) for decision in ("Deny", "Allow")]
    for order in (rows, rows[::-1]):
        entry = deciding(policies_of(acl(order, [])), Resource.TOPIC, "T", (Action.PUB,), "10.0.0.1", conflict)
        assert entry is not None
        assert entry.decision is expected


@pytest.mark.parametrize(
    ("source", "networks", "expected"),
    [
        ("10.1.2.3", ["10.0.0.0/8"], True),
        ("11.1.2.3", ["10.0.0.0/8"], False),
        ("::ffff:10.1.2.3", ["10.0.0.0/8"], True),
        ("::1", ["0.0.0.0/0"], False),  # RocketMQ compares the numbers alone, and would let it in
        ("fe80::1%eth0", ["fe80::/10"], True),
        ("unknown", ["0.0.0.0/0"], False),
    ],
)
def test_source_addresses(source: str, networks: list[str], expected: bool) -> None:
    found = policies_of(acl([Row("Topic:T", ["Pub"], networks, "Allow")], []))
    assert (deciding(found, Resource.TOPIC, "T", (Action.PUB,), source, AclConflict.ALLOW) is not None) == expected
