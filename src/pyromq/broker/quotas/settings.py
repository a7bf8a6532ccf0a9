"""Quotas among the settings: those of the table, made by `pyromq quota set`, come before them."""

from __future__ import annotations

from dataclasses import dataclass

from ...config import setting
from ...errors import ConfigError
from .limits import Quota, parse


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaSettings:
    """What nobody has set a quota for otherwise."""

    quotas: tuple[str, ...] = setting(
        (), help="quotas, separated by ;: topic:orders sendBytes=1048576; user:* connections=20 readMessages=1000"
    )

    def __post_init__(self) -> None:
        self.parsed()

    def parsed(self) -> list[Quota]:
        """Return the quotas. ConfigError names the one that is wrong."""
        try:
            return [parse(text) for text in self.quotas]
        except ConfigError as fault:
            raise ConfigError(f"quotas: {fault}") from None
