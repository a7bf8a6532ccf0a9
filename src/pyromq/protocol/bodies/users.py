"""Users and their permissions (ACL 2.0)."""

from __future__ import annotations

from .body import Body, always_new


class UserInfo(Body, kw_only=True):
    """A request may leave out what it does not change."""

    password: str | None = None
    user_status: str | None = None  # enable, disable
    user_type: str | None = None  # Super, Normal
    username: str | None = None


class PolicyEntryInfo(Body, kw_only=True):
    actions: list[str] | None = None  # All, Pub, Sub, Create, Update, Delete, Get, List
    decision: str | None = None  # Allow, Deny
    resource: str | None = None  # Topic:T, Group:prefix*, Cluster:*
    source_ips: list[str] | None = None


class PolicyInfo(Body, kw_only=True):
    entries: list[PolicyEntryInfo] = always_new(list)
    policy_type: str | None = None  # Custom, Default


class AclInfo(Body, kw_only=True):
    policies: list[PolicyInfo] | None = None
    subject: str | None = None
