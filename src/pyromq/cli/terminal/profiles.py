"""Named name-server lists in the user's configuration file, and which name servers a command asks, and how.

    default = "prod"

    [profiles.prod]
    namesrv = "10.0.0.1:9876;10.0.0.2:9876"
    tls = "true"                                 # these five only where they are wanted
    tlsCa = "/etc/pyromq/ca.pem"                 # tlsCert, tlsKey, tlsVerify
    accessKey = "alice"                          # with secretKey: who one is to that cluster

The file is `$PYROMQ_CONFIG`, else `pyromq/config.toml` below `$XDG_CONFIG_HOME` (`~/.config`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import ConfigError
from ...files import replace_file
from ...text.similar import closest
from .options import take_tls

if TYPE_CHECKING:
    from ...client.connect.tls_choice import TlsChoice

# In the file: the field of a TlsChoice.
TLS_KEYS = {"tls": "enabled", "tlsCa": "ca", "tlsCert": "certificate", "tlsKey": "key", "tlsVerify": "verify"}
TLS_FILES = ("tlsCa", "tlsCert", "tlsKey")
ACCESS_KEYS = ("accessKey", "secretKey")


class Keys(NamedTuple):
    """Who a command is to a cluster: a user's name and his secret."""

    access_key: str = ""
    secret_key: str = ""

    def __repr__(self) -> str:
        return f"<keys of {self.access_key}>"

    def to_environment(self) -> dict[str, str]:
        """Return variables for a program that is started."""
        pairs = {"PYROMQ_ACCESS_KEY": self.access_key, "PYROMQ_SECRET_KEY": self.secret_key}
        return pairs if self.access_key else {}


NO_KEYS = Keys()


@dataclass(frozen=True, slots=True)
class Profile:
    """Where a cluster is, and by which TLS it is reached: by the file's own keys, as text."""

    namesrv: str
    tls: Mapping[str, str] = field(default_factory=dict)
    keys: Keys = NO_KEYS

    def choice(self) -> TlsChoice:
        from ...client.connect.tls_choice import from_words  # not at the top: `pyromq profile list` needs no SDK

        called = {field: key for key, field in TLS_KEYS.items()}
        return from_words({TLS_KEYS[key]: word for key, word in self.tls.items()}, called)


@dataclass(frozen=True, slots=True)
class Reach:
    """Which name servers a command asks (None: this machine's), whether by TLS, and as whom."""

    namesrv: str | None
    tls: TlsChoice
    keys: Keys = NO_KEYS


@dataclass
class Profiles:
    """What the file says. `default` is used where neither option nor environment names anything."""

    path: Path
    default: str = ""
    named: dict[str, Profile] = field(default_factory=dict)

    def find(self, name: str) -> Profile:
        """Return the profile. ConfigError names those with similar names."""
        if name not in self.named:
            raise ConfigError(
                f"there is no profile {name!r} in {self.path}.{closest(name, self.named)} "
                f"Make it: pyromq profile set {name} HOST:PORT"
            )
        return self.named[name]

    def save(self) -> None:
        text = f"default = {_quoted(self.default)}\n" if self.default else ""
        for name, one in sorted(self.named.items()):
            text += f"\n[profiles.{_quoted(name)}]\nnamesrv = {_quoted(one.namesrv)}\n"
            words = {**one.tls, **(dict(zip(ACCESS_KEYS, one.keys, strict=True)) if one.keys.access_key else {})}
            text += "".join(f"{key} = {_quoted(word)}\n" for key, word in words.items())
        replace_file(self.path, text.encode(), keep_backup=False)


def load_profiles(environment: Mapping[str, str] = os.environ) -> Profiles:
    """Return the profiles of the file; none if it does not exist."""
    path = _path(environment)
    if not path.exists():
        return Profiles(path)
    import tomllib  # not at the top: most people have no such file

    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as fault:
        raise ConfigError(f"{path}: {fault}. Mend it, or remove it and use pyromq profile set") from None
    default, tables = found.get("default", ""), found.get("profiles", {})
    if not isinstance(default, str) or not isinstance(tables, dict):
        raise ConfigError(f"{path}: default is a text, profiles are tables")
    return Profiles(path, default, {name: _profile(path, name, table) for name, table in tables.items()})


def _profile(path: Path, name: str, table: Any) -> Profile:
    servers = table.get("namesrv") if isinstance(table, dict) else None
    if not isinstance(servers, str) or not servers:
        raise ConfigError(f'{path}: profile {name} has no namesrv = "HOST:PORT"')
    tls: dict[str, str] = {}
    for key in TLS_KEYS:
        value = table.get(key)
        if isinstance(value, bool):  # a hand that writes tls = true
            value = "true" if value else "false"
        if value is not None and not isinstance(value, str):
            raise ConfigError(f"{path}: profile {name}: {key} = {value!r} is a text")
        if value:
            tls[key] = value
    name_and_secret = [table.get(key, "") for key in ACCESS_KEYS]
    if not all(isinstance(word, str) for word in name_and_secret) or bool(name_and_secret[0]) != bool(
        name_and_secret[1]
    ):
        raise ConfigError(f"{path}: profile {name}: accessKey and secretKey are texts and belong together")
    return Profile(servers, tls, Keys(*name_and_secret))


def chosen_reach(
    namesrv: str | None, profile: str | None, options: TlsChoice, environment: Mapping[str, str] = os.environ
) -> Reach:
    """Choose name servers by -n, --profile, PYROMQ_PROFILE, PYROMQ_NAMESRV, NAMESRV_ADDR, or the file's default.

    TLS is chosen in the same order: options, a profile that is named, the environment, the default one; keys too, but
    for options. A profile's TLS and keys are for its own name servers alone.
    """
    own = Keys(*(environment.get(name, "") for name in ("PYROMQ_ACCESS_KEY", "PYROMQ_SECRET_KEY")))
    from ...client.connect.tls_choice import from_environment  # not at the top: --help needs no SDK

    around = from_environment(environment)
    if namesrv:
        return Reach(namesrv, options.over(around), own)
    wanted = profile or environment.get("PYROMQ_PROFILE")
    if wanted:
        named = load_profiles(environment).find(wanted)
        return Reach(
            named.namesrv, options.over(named.choice()).over(around), named.keys if named.keys.access_key else own
        )
    for name in ("PYROMQ_NAMESRV", "NAMESRV_ADDR"):
        if environment.get(name):
            return Reach(environment[name], options.over(around), own)
    profiles = load_profiles(environment)
    if not profiles.default:
        return Reach(None, options.over(around), own)
    default = profiles.find(profiles.default)
    return Reach(default.namesrv, options.over(around).over(default.choice()), own if own.access_key else default.keys)


def take_reach(given: dict[str, Any]) -> Reach:
    """Remove -n, --profile and the TLS options from what a command was given, and return what they choose."""
    return chosen_reach(given.pop("namesrv"), given.pop("profile"), take_tls(given))


def _path(environment: Mapping[str, str]) -> Path:
    if environment.get("PYROMQ_CONFIG"):
        return Path(environment["PYROMQ_CONFIG"])
    base = environment.get("XDG_CONFIG_HOME") or str(Path(environment.get("HOME", "~")).expanduser() / ".config")
    return Path(base) / "pyromq" / "config.toml"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
