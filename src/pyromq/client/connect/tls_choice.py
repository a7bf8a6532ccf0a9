"""Whether and how a client uses TLS, where several places may say it: options, the environment, a profile.

Each setting is taken from the first place that has it. Naming a file, or what to check, switches TLS on; `enabled`
beside it decides. The SDK's `connect` and both command lines ask here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from ...errors import ConfigError
from ...transport.tls import ClientTls, Verify

# Field: variable. The password has no option: others could read it off the command line.
VARIABLES = {
    "enabled": "PYROMQ_TLS",
    "ca": "PYROMQ_TLS_CA",
    "certificate": "PYROMQ_TLS_CERT",
    "key": "PYROMQ_TLS_KEY",
    "key_password": "PYROMQ_TLS_KEY_PASSWORD",
    "verify": "PYROMQ_TLS_VERIFY",
}
_SWITCH = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsChoice:
    """What one place says, or several together. None: it says nothing."""

    enabled: bool | None = None
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    key_password: str | None = field(default=None, repr=False)
    verify: Verify | None = None

    @property
    def is_wanted(self) -> bool | None:
        if self.enabled is not None:
            return self.enabled
        return True if any(getattr(self, one.name) is not None for one in fields(self)) else None

    def over(self, lower: TlsChoice) -> TlsChoice:
        """Return this choice, with what it leaves open as the lower one says."""
        own = {one.name: value for one in fields(self) if (value := getattr(self, one.name)) is not None}
        enabled = lower.is_wanted if self.is_wanted is None else self.is_wanted
        return replace(lower, **own | {"enabled": enabled})

    def settings(self) -> ClientTls | None:
        if not self.is_wanted:
            return None
        return ClientTls(
            verify=self.verify or Verify.FULL,
            ca=self.ca,
            certificate=self.certificate,
            key=self.key,
            key_password=self.key_password,
        )

    def words(self) -> dict[str, str]:
        """Return texts by field, as `from_words` reads them."""
        found = {name: getattr(self, name) for name in VARIABLES} | {"enabled": self.is_wanted}
        return {name: _word(value) for name, value in found.items() if value is not None}

    def to_environment(self) -> dict[str, str]:
        """Return variables for a program that is started."""
        return {VARIABLES[name]: word for name, word in self.words().items()}


def from_environment(environment: Mapping[str, str] = os.environ) -> TlsChoice:
    given = {name: environment[variable] for name, variable in VARIABLES.items() if environment.get(variable)}
    return from_words(given, VARIABLES)


def from_words(words: Mapping[str, str], called: Mapping[str, str]) -> TlsChoice:
    """Read texts by field. `called` has what their writer calls each field, for the error."""
    files = ("ca", "certificate", "key")
    found: dict[str, Any] = {name: Path(word) if name in files else word for name, word in words.items()}
    if "enabled" in found:
        found["enabled"] = _one_of(_SWITCH, found["enabled"], called["enabled"], "true or false")
    if "verify" in found:
        known = {one.value: one for one in Verify}
        found["verify"] = _one_of(known, found["verify"], called["verify"], ", ".join(known))
    return TlsChoice(**found)


def _one_of(known: Mapping[str, Any], word: str, name: str, wanted: str) -> Any:
    if word.lower() not in known:
        raise ConfigError(f"{name} = {word!r}: {wanted} is needed")
    return known[word.lower()]


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.value if isinstance(value, Verify) else str(value)
