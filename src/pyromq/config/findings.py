"""What becomes of one key of one source: judged where it stands, with an error that names place, key and what to do.

Called by `load.py` for files, environment and flags, and by `live.py` for what comes over the wire. Opens nothing.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from . import properties
from .java_keys import IgnoredKeys, JavaKeys, PlannedKeys
from .settings import Setting, masked, settings_of

# A value that is the only one: nobody is surprised, so a start says nothing about it.
IN_ANY_CASE = "changes nothing: it runs so in any case, and any other value is refused"


@dataclass(frozen=True, slots=True)
class SettingFinding:
    """What became of one key of one source."""

    where: str  # `namesrv.conf line 3`, `environment`, `command line`
    key: str
    value: str
    effect: str
    error: str | None = None
    setting: Setting | None = None
    parsed: Any = None
    notice: str = ""  # what a start says of a value that is used all the same

    @property
    def shown(self) -> str:
        """Return the value for people, without passwords."""
        return masked(self.key, self.value)

    def __str__(self) -> str:
        return f"{self.where}: {self.error}" if self.error else f"{self.where}: {self.key} {self.effect}"


def examine_properties(text: str, source: str, config_class: type, keys: JavaKeys) -> list[SettingFinding]:
    """Return what `examine_file` does for properties text from anywhere, a request body for instance."""
    by_java = _by_java(config_class)
    return [
        _judge_java(f"{source} line {entry.line}", entry.key, entry.value, by_java, keys)
        for entry in properties.parse(text, source)
    ]


def _by_java(config_class: type) -> dict[str, Setting]:
    return {key: one for one in settings_of(config_class).values() for key in (one.java, *one.also)}


def first_error(findings: Iterable[SettingFinding]) -> str | None:
    """Return the first error in one line, saying how many more there are."""
    errors = [str(one) for one in findings if one.error]
    more = f" (and {len(errors) - 1} more: `pyromq config check` lists them)" if len(errors) > 1 else ""
    return errors[0] + more if errors else None


def judge(where: str, key: str, raw: object, setting: Setting) -> SettingFinding:
    value = raw if isinstance(raw, str) else setting.render(raw)
    effect = f"sets {setting.name}"
    try:
        return SettingFinding(where, key, value, effect, setting=setting, parsed=setting.parse(raw))
    except ValueError as fault:
        return SettingFinding(where, key, value, effect, f"{key} = {masked(key, value)}: {fault}", setting)


def _judge_java(where: str, key: str, value: str, by_java: Mapping[str, Setting], keys: JavaKeys) -> SettingFinding:
    if key in by_java:
        return _without_comment(judge(where, key, value, by_java[key]))
    if key not in keys:
        unknown = unknown_key(key, [*by_java, *keys.names()], {one.name: one.java for one in by_java.values()})
        return SettingFinding(where, key, value, "unknown", error=unknown)
    group = keys.group(key)
    if isinstance(group, IgnoredKeys):
        return SettingFinding(where, key, value, f"has no effect: {group.reason}")
    if isinstance(group, PlannedKeys):
        return SettingFinding(where, key, value, f"has no effect yet: nothing reads it here ({group.feature})")
    if keys.is_harmless(key, value):
        return SettingFinding(where, key, value, IN_ANY_CASE)
    default = keys.harmless(key)
    shown = masked(key, value)
    remedy = f"{group.remedy}, or {f'set {key}={default}' if default else 'remove the line'}"
    return SettingFinding(where, key, value, "refused", error=f"{key} = {shown} is refused: {group.reason}; {remedy}")


def _without_comment(one: SettingFinding) -> SettingFinding:
    """Return the finding with a word on what looks like a comment behind the value: it is part of it, as in Java."""
    if not re.search(r"\s#", one.value):
        return one
    hint = "# begins a comment only at the start of a line"
    if one.error is not None:
        return replace(one, error=f"{one.error}; {hint}")
    return replace(
        one, effect=f"{one.effect}, with all of {one.shown!r}: {hint}", notice=f"{one.key} = {one.shown}: {hint}"
    )


def examine_toml(path: Path, text: str, settings: Mapping[str, Setting]) -> Iterator[SettingFinding]:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise ConfigError(f"{path}: not valid TOML: {fault}") from None
    for key, value in table.items():
        # tomllib does not tell the line of a key: it stands at its start.
        found = re.search(rf"""^[ \t]*\[?["']?{re.escape(key)}\b""", text, re.MULTILINE)
        where = f"{path} line {text.count(chr(10), 0, found.start()) + 1 if found else 1}"
        if key in settings:
            yield judge(where, key, value, settings[key])
        elif isinstance(value, dict):
            yield SettingFinding(
                where, key, str(value), "unknown", error=f"[{key}]: settings stand in no table; drop it"
            )
        else:
            unknown = unknown_key(key, settings, {one.java: one.name for one in settings.values()})
            yield SettingFinding(where, key, str(value), "unknown", error=unknown)


def examine_json(path: Path, text: str, config_class: type, keys: JavaKeys) -> Iterator[SettingFinding]:
    """Yield what becomes of each key of a JSON object with Java's keys, as `rmq-proxy.json` is one."""
    try:
        table = json.loads(text)
    except ValueError as fault:
        raise ConfigError(f"{path}: not valid JSON: {fault}") from None
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: a JSON object is needed, with settings as its members")
    by_java = _by_java(config_class)
    for key, value in table.items():
        found = re.search(rf'"{re.escape(key)}"', text)
        where = f"{path} line {text.count(chr(10), 0, found.start()) + 1 if found else 1}"
        if isinstance(value, dict | list | None):
            wrong = f"{key} = {json.dumps(value)[:80]}: a text, a number, true or false is needed"
            yield SettingFinding(where, key, str(value), "refused", error=wrong)
        else:
            shown = value if isinstance(value, str) else json.dumps(value)
            yield _judge_java(where, key, shown, by_java, keys)


def unknown_key(key: str, known: Iterable[str], translations: Mapping[str, str]) -> str:
    """Return the error for a key. `translations`: the settings as the other kind of file spells them."""
    if key in translations:
        return f"unknown key {key!r}: in this kind of file it is called {translations[key]!r}"
    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(key.lower(), by_lower, n=1, cutoff=0.5)
    hint = f"did you mean {by_lower[near[0]]!r}?" if near else "no known key resembles it"
    return f"unknown key {key!r}: {hint}"
