"""Who uses the dashboard, and what it lets him try. Pure.

The role that a route needs is the dashboard's own limit: with `--read-only` everybody is a reader here. Whether a user
of the cluster may do a thing brokers decide, since his requests are signed by him.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...admin.roles import ROLES
from ...errors import PyroError

READER, OPERATOR, ADMINISTRATOR = ROLES


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """`user` is empty for who came by the link or with a token of the file. `owner`: whose plans and results are his.
    `came_by`: link, program or user."""

    user: str
    came_by: str
    address: str
    owner: object
    role: str = ADMINISTRATOR
    sees_bodies: bool = True

    def may(self, role: str) -> bool:
        """Return whether the dashboard lets him try what needs this role."""
        ranks = list(ROLES)
        return ranks.index(role) <= ranks.index(self.role)

    def check(self, role: str) -> None:
        """Refuse what needs a role that he has not. RoleMissing."""
        if not self.may(role):
            raise RoleMissing(role)


class RoleMissing(PyroError):
    """The dashboard was started for readers."""

    def __init__(self, role: str) -> None:
        super().__init__(f"this dashboard only shows: it was started with --read-only, and this needs the role {role}")
        self.role = role


class BodiesHidden(RoleMissing):
    """The dashboard was started to show nobody the bodies of messages."""

    def __init__(self) -> None:
        PyroError.__init__(
            self, "this dashboard shows nobody the bodies of messages: it was started with --hide-bodies"
        )
        self.role = ""
