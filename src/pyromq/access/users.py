"""A user, and the secrets that his requests are signed with."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class UserType(Enum):  # as requests and files write it
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


def unknown_words(type: str | None, status: str | None) -> str:
    """Return which word is no type or no status of a user, and the right ones; empty: they are, or are not given."""
    for key, kind, text in (("userType", UserType, type), ("userStatus", UserStatus, status)):
        words = [str(each.value) for each in kind]
        if text and text.lower() not in (word.lower() for word in words):
            return f"{key} {text!r} is not known: it is {' or '.join(words)}"
    return ""
