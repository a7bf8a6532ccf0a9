"""The settings of a running daemon: one small object handed to the parts, which read `live.config` when they need it.

A change comes over the wire, is judged as a file would be, is kept in the overlay file and then takes effect as a
whole or not at all. The user's own file is never rewritten.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from ..errors import ConfigError
from ..files import replace_file
from . import properties
from .findings import examine_properties, first_error
from .java_keys import JavaKeys
from .load import Loaded
from .settings import masked, render_all, settings_of

C = TypeVar("C")
HEADING = "# Settings changed while running. Read after the configuration file; remove a line to go back to that.\n"

MAX_CHANGE = 64 << 10  # characters


def check_length(text: str) -> None:
    """Raise ConfigError if one change is longer than settings ever are."""
    if len(text) > MAX_CHANGE:
        raise ConfigError(f"a change of settings with {len(text)} characters, at most {MAX_CHANGE} are taken at once")


class NotLive(ConfigError):
    """A setting that cannot be changed while running."""


def with_changes(config: C, text: str, source: str, keys: JavaKeys) -> tuple[C, dict[str, str]]:
    """Return the settings as properties text under Java keys would make them, and what it sets.

    ConfigError says why they may not be so, NotLive that a restart is needed."""
    check_length(text)
    findings = examine_properties(text, source, type(config), keys)
    if (error := first_error(findings)) is not None:
        raise ConfigError(error)
    for one in findings:
        if one.setting is None:
            raise NotLive(f"{one.key} cannot be changed while running: it {one.effect}")
        if not one.setting.live:
            can = ", ".join(may_change(type(config)))
            raise NotLive(
                f"{one.key} cannot be changed while running: set it in the configuration file and start again; these "
                f"can: {can}"
            )
    fields: dict[str, Any] = {one.setting.name: one.parsed for one in findings if one.setting is not None}
    changed: C = dataclasses.replace(config, **fields)  # type: ignore[type-var]
    return changed, {one.key: one.value for one in findings}


def may_change(config_class: type) -> list[str]:
    """Return the Java keys that may be changed while running."""
    return sorted(one.java for one in settings_of(config_class).values() if one.live)


class Live(Generic[C]):
    """Event loop only. `change` writes one small file and syncs it before it takes effect."""

    def __init__(self, loaded: Loaded[C], keys: JavaKeys, overlay: Path | None = None) -> None:
        self.config: C = loaded.config
        self._given = loaded.given
        self._keys = keys
        self._overlay = overlay
        self._watchers: list[Callable[[C], None]] = []

    def watch(self, watcher: Callable[[C], None]) -> None:
        """Call `watcher` with the new settings after each change, before anything else can run."""
        self._watchers.append(watcher)

    def change(self, text: str, source: str = "request") -> dict[str, str]:
        """Apply properties text under Java keys. ConfigError says why not, and then nothing has changed.

        Returns what changed.
        """
        changed, changes = with_changes(self.config, text, source, self._keys)
        self._keep(changes)
        self.config = changed
        for watcher in self._watchers:
            watcher(changed)
        return changes

    def shown(self) -> dict[str, str]:
        """Return every Java key with its value, as the `get config` requests answer. Passwords are left out."""
        shown = self._keys.shown(self._given) | render_all(self.config)
        return {key: value for key, value in shown.items() if masked(key, "x") == "x"}  # also where none is set

    def noted(self, keys: Iterable[str], before: Mapping[str, str]) -> dict[str, dict[str, str]]:
        """Return what these keys had, of what was shown `before`, and have now: passwords are left out."""
        sides = {"before": before, "after": self.shown()}
        return {name: {key: shown[key] for key in keys if key in shown} for name, shown in sides.items()}

    def _keep(self, changes: Mapping[str, str]) -> None:
        if self._overlay is None:
            return
        kept: dict[str, str] = {}
        if self._overlay.exists():
            kept = {entry.key: entry.value for entry in properties.parse(self._overlay.read_text("utf-8"))}
        replace_file(self._overlay, (HEADING + properties.render(kept | dict(changes))).encode())
