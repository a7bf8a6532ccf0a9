"""From defaults, file, environment, flags and overlay to one frozen value. Later sources win; nothing else is open yet.

Called by the composition roots and by `pyromq config check`. Each value is judged where it stands, so that an error
names the file, the line, the key and what to do.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, TypeVar

from ..errors import ConfigError
from .findings import (
    IN_ANY_CASE,
    SettingFinding,
    examine_json,
    examine_properties,
    examine_toml,
    first_error,
    judge,
    unknown_key,
)
from .java_keys import JavaKeys
from .settings import Setting, settings_of

C = TypeVar("C")

# What versions before these rules kept in overlays, as it was typed.
OLD_WORDS = {"yes": "true", "on": "true", "1": "true", "no": "false", "off": "false", "0": "false"}


@dataclass(frozen=True, slots=True)
class Loaded(Generic[C]):
    """A daemon's configuration, and what there is to say about how it came to be."""

    config: C
    findings: list[SettingFinding] = field(default_factory=list)

    @property
    def given(self) -> dict[str, str]:
        """Return keys from files that set nothing here, as they were given, for whoever asks for the settings."""
        return {one.key: one.value for one in self.findings if one.setting is None}

    @property
    def notices(self) -> list[str]:
        """Return what is logged at start: what has no effect, was given twice, or was overruled by the overlay."""
        lines = [str(one) for one in self.findings if one.setting is None and one.effect != IN_ANY_CASE]
        lines += [f"{one.where}: {one.notice}" for one in self.findings if one.notice]
        return lines + [
            f"{one.where}: {one.key} = {one.shown} {_replaces(before)}" for one, before in _replaced(self.findings)
        ]


def load(
    config_class: type[C],
    keys: JavaKeys,
    *,
    daemon: str,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
    defaults: Mapping[str, object] | None = None,
    java_variables: Mapping[str, str] | None = None,
    overlay: Callable[[C], Path | None] | None = None,
    spelled: Mapping[str, str] | None = None,
) -> Loaded[C]:
    """Load a daemon's settings from all sources.

    `flags` are by field name, None for one not given; `defaults`, by field name too, are those of a command, which
    every source overrules without a notice. `java_variables`: settings for which Java too has a variable, by its name;
    it is a default there, which the file overrules. `overlay` says where changes made over the wire are kept.
    `spelled`: what a command calls a setting's flag, where it is not the setting's name."""
    environment, settings = environment or {}, settings_of(config_class)
    findings = [
        judge(f"environment {variable}", variable, environment[variable], settings[name])
        for variable, name in (java_variables or {}).items()
        if variable in environment
    ]
    if file is not None:
        findings += examine_file(file, config_class, keys)
    findings += _examine_environment(environment, daemon, config_class)
    findings += _examine_flags(flags or {}, config_class, spelled or {})
    own = _examine_flags(defaults or {}, config_class, spelled or {})
    config = _build(config_class, own + findings)
    overlay_path = overlay(config) if overlay is not None else None
    if overlay_path is not None and overlay_path.exists():
        findings += _examine_overlay(overlay_path, config_class, keys)
        config = _build(config_class, own + findings)
    return Loaded(config, findings)


def examine_file(path: Path, config_class: type, keys: JavaKeys) -> list[SettingFinding]:
    """Return every key of a file and what becomes of it. Raises ConfigError if the file cannot be read at all."""
    text = _read(path)
    settings = settings_of(config_class)
    if path.suffix == ".json":
        return list(examine_json(path, text, config_class, keys))
    if _is_toml(path, text, settings):
        return list(examine_toml(path, text, settings))
    return examine_properties(text, str(path), config_class, keys)


def check_file(
    path: Path,
    config_class: type[C],
    keys: JavaKeys,
    flags: Mapping[str, object] | None = None,
    check: Callable[[C], None] = lambda _: None,
) -> list[SettingFinding]:
    """Return every key of a file with all that a start with these flags would say of it, at the key that it concerns.

    `check`: what a start checks besides. ConfigError if a flag itself is wrong."""
    given = _examine_flags(flags or {}, config_class, {})
    if (wrong_flag := first_error(given)) is not None:
        raise ConfigError(wrong_flag)
    findings = examine_file(path, config_class, keys)
    for one, before in _replaced(findings):
        findings[findings.index(one)] = replace(one, effect=f"{one.effect}, {_replaces(before)}")
    used = [one for one in findings if one.error is None]
    while (fault := _fault_of(config_class, [*used, *given], check)) is not None:
        wrong = [one.setting.java if one.setting is not None else one.key for one in findings if one.error]
        at = _concerned(fault, used)
        if at is None:
            return findings if wrong else [*findings, SettingFinding(str(path), "", "", "refused", error=fault)]
        if not any(key in fault for key in wrong):  # else it may come from that error alone
            findings[findings.index(at)] = replace(at, error=fault)
        used = [one for one in used if one.setting is not at.setting]
    return findings


def _replaced(findings: Iterable[SettingFinding]) -> Iterator[tuple[SettingFinding, SettingFinding]]:
    """Yield what was given anew with another value, and what it replaces."""
    seen: dict[str, SettingFinding] = {}
    for one in list(findings):
        name = one.key if one.setting is None else one.setting.name
        if (before := seen.get(name)) is not None and before.value != one.value:
            yield one, before
        seen[name] = one


def _replaces(before: SettingFinding) -> str:
    return f"replaces {before.shown or 'nothing'} of {before.where}"


def _build(config_class: type[C], findings: list[SettingFinding]) -> C:
    if (error := first_error(findings)) is not None:
        raise ConfigError(error)
    try:
        return _from_findings(config_class, findings)
    except ConfigError as fault:  # what concerns several settings, or a value as a whole
        at = _concerned(str(fault), findings)
        raise ConfigError(str(fault) if at is None else f"{at.where}: {fault}") from None


def _from_findings(config_class: type[C], findings: Iterable[SettingFinding]) -> C:
    return config_class(**{one.setting.name: one.parsed for one in findings if one.setting is not None})


def _fault_of(config_class: type[C], findings: Iterable[SettingFinding], check: Callable[[C], None]) -> str | None:
    try:
        check(_from_findings(config_class, findings))
    except ConfigError as fault:
        return str(fault)
    return None


def _concerned(fault: str, findings: Sequence[SettingFinding]) -> SettingFinding | None:
    """Return where the setting was given that the error begins with, None if nowhere."""
    begins = re.match(r"\w+", fault)
    for one in reversed(findings):
        if begins is not None and one.setting is not None and begins[0] in (one.setting.java, one.setting.name):
            return one
    return None


def _examine_environment(environment: Mapping[str, str], daemon: str, config_class: type) -> list[SettingFinding]:
    prefix = f"PYROMQ_{daemon.upper()}_"
    by_name = {prefix + name.upper(): one for name, one in settings_of(config_class).items()}
    findings = []
    for key, value in sorted(environment.items()):
        if key in by_name:
            findings.append(judge("environment", key, value, by_name[key]))
        elif key.startswith(prefix):
            findings.append(SettingFinding("environment", key, value, "unknown", error=unknown_key(key, by_name, {})))
    return findings


def _examine_flags(flags: Mapping[str, object], config_class: type, spelled: Mapping[str, str]) -> list[SettingFinding]:
    settings = settings_of(config_class)
    return [
        judge("command line", spelled.get(name, "--" + name.replace("_", "-")), value, settings[name])
        for name, value in flags.items()
        if value is not None
    ]


def _examine_overlay(path: Path, config_class: type, keys: JavaKeys) -> list[SettingFinding]:
    findings = [_in_new_words(one) for one in examine_properties(_read(path), str(path), config_class, keys)]
    for one in findings:
        if one.error is None and (one.setting is None or not one.setting.live):
            raise ConfigError(
                f"{one.where}: {one.key} cannot be changed over the wire, so it does not belong in this file; "
                "remove the line"
            )
    return findings


def _in_new_words(one: SettingFinding) -> SettingFinding:
    """Return the finding with true or false where an older version kept another word for it."""
    word = OLD_WORDS.get(one.value.strip().lower())
    if one.error is None or one.setting is None or one.setting.kind is not bool or word is None:
        return one
    notice = f"{one.key} = {one.value} is read as {word}, as an older version meant it; write {one.key}={word} there"
    return replace(one, error=None, parsed=one.setting.parse(word), notice=notice)


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except OSError as fault:
        raise ConfigError(f"cannot read {path}: {fault.strerror or fault}") from None
    except UnicodeDecodeError as fault:
        raise ConfigError(f"{path}: byte {fault.start} is not UTF-8; save the file as UTF-8") from None


def _is_toml(path: Path, text: str, settings: Mapping[str, Setting]) -> bool:
    """Decide by extension, else by content: most properties files are also valid TOML, so one of our names decides."""
    if path.suffix in (".toml", ".properties", ".conf"):
        return path.suffix == ".toml"
    try:
        return any(key in settings for key in tomllib.loads(text))
    except tomllib.TOMLDecodeError:
        return False
