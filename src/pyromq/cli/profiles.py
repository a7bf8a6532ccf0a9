"""Named name-server lists in the user's configuration file, and which name servers a command asks.

    default = "prod"

    [profiles.prod]
    namesrv = "10.0.0.1:9876;10.0.0.2:9876"

The file is `$PYROMQ_CONFIG`, else `pyromq/config.toml` below `$XDG_CONFIG_HOME` (`~/.config`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import ConfigError
from ..files import replace_file
from .tree import closest


@dataclass
class Profiles:
    """What the file says. `default` is used where neither option nor environment names anything."""

    path: Path
    default: str = ""
    lists: dict[str, str] = field(default_factory=dict)

    def find(self, name: str) -> str:
        """ConfigError names those that are like it."""
        if name not in self.lists:
            raise ConfigError(
                f"there is no profile {name!r} in {self.path}.{closest(name, self.lists)} "
                f"Make it: pyromq profile set {name} HOST:PORT"
            )
        return self.lists[name]

    def save(self) -> None:
        text = f"default = {_quoted(self.default)}\n" if self.default else ""
        for name, servers in sorted(self.lists.items()):
            text += f"\n[profiles.{_quoted(name)}]\nnamesrv = {_quoted(servers)}\n"
        replace_file(self.path, text.encode(), keep_backup=False)


def load_profiles(environment: Mapping[str, str] = os.environ) -> Profiles:
    """Empty if there is no file."""
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
    lists: dict[str, str] = {}
    for name, table in tables.items():
        servers = table.get("namesrv") if isinstance(table, dict) else None
        if not isinstance(servers, str) or not servers:
            raise ConfigError(f'{path}: profile {name} has no namesrv = "HOST:PORT"')
        lists[name] = servers
    return Profiles(path, default, lists)


def chosen_name_servers(
    namesrv: str | None, profile: str | None, environment: Mapping[str, str] = os.environ
) -> str | None:
    """-n, --profile, PYROMQ_PROFILE, PYROMQ_NAMESRV, NAMESRV_ADDR, the file's default; None: this machine's."""
    if namesrv:
        return namesrv
    wanted = profile or environment.get("PYROMQ_PROFILE")
    if wanted:
        return load_profiles(environment).find(wanted)
    for name in ("PYROMQ_NAMESRV", "NAMESRV_ADDR"):
        if environment.get(name):
            return environment[name]
    profiles = load_profiles(environment)
    return profiles.find(profiles.default) if profiles.default else None


def _path(environment: Mapping[str, str]) -> Path:
    if environment.get("PYROMQ_CONFIG"):
        return Path(environment["PYROMQ_CONFIG"])
    base = environment.get("XDG_CONFIG_HOME") or str(Path(environment.get("HOME", "~")).expanduser() / ".config")
    return Path(base) / "pyromq" / "config.toml"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
