"""A user, and the secrets that his requests are signed with."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class UserType(Enum):
    SUPER = "Super"  # may do everything
    NORMAL = "Normal"


class UserStatus(Enum):
    ENABLED = "enable"
    DISABLED = "disable"


@dataclass(frozen=True, slots=True)
class User:
    """`secrets`: those that are valid, the newest first. They stand in no text made of a user."""

    name: str
    secrets: tuple[str, ...] = field(repr=False)
    type: UserType = UserType.NORMAL
    status: UserStatus = UserStatus.ENABLED

    @property
    def is_super(self) -> bool:
        return self.type is UserType.SUPER

    @property
    def is_enabled(self) -> bool:
        return self.status is UserStatus.ENABLED
