"""Users and permissions (ACL 2.0). A subject is `User:name`."""

from __future__ import annotations

from .header import Header


class UserName(Header, kw_only=True):
    """3001 to 3004. Absent is refused by the handlers, each with its own code."""

    username: str | None = None


class ListUsers(Header, kw_only=True):
    filter: str | None = None


class AclSubject(Header, kw_only=True):
    subject: str | None = None


class DeleteAcl(Header, kw_only=True):
    subject: str | None = None
    policy_type: str | None = None
    resource: str | None = None


class ListAcls(Header, kw_only=True):
    subject_filter: str | None = None
    resource_filter: str | None = None
