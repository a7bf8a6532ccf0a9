"""How a setting is declared: once, as a field of a daemon's frozen dataclass, with its Java key, range and help text.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class NamesrvConfig:
        listen_port: int = setting(9876, java="listenPort", low=0, high=65535, help="port; 0 takes a free one")

        def __post_init__(self) -> None:
            check_ranges(self)          # then whatever concerns two fields at once

File keys, environment names, command-line flags and the documentation all derive from these declarations.
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar, cast

from ..errors import ConfigError

T = TypeVar("T")
_NOT_GIVEN: Any = dataclasses.MISSING
MASK = "********"
JAVA_INT, JAVA_LONG = (1 << 31) - 1, (1 << 63) - 1
_SECRET = re.compile(r"pass?w|pwd|secret|credential|authentication_?user", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting as everything outside its dataclass sees it."""

    name: str
    java: str  # the key in .properties files and on the wire; camel case of `name` where Java has no such setting
    kind: Any  # int, float, bool, str, Path, an Enum, or tuple[str, ...]
    optional: bool
    default: Any
    help: str
    low: float | None
    high: float | None
    live: bool
    flag: bool
    wide: bool
    also: tuple[str, ...]  # other keys that Java has for the same

    def parse(self, raw: object) -> Any:
        """Return the typed value of text (file, environment, flag) or of a TOML value. ValueError says why not."""
        if isinstance(raw, str):
            value = self._from_text(raw.strip())
        elif self.kind is float and type(raw) is int:
            value = float(raw)
        elif self.kind == tuple[str, ...] and isinstance(raw, Sequence) and all(isinstance(one, str) for one in raw):
            value = tuple(raw)
        elif type(raw) is self.kind:
            value = raw
        else:
            raise ValueError(f"must be {self.kind_name}, not {type(raw).__name__}")
        self.check(value)
        return value

    def render(self, value: Any) -> str:
        """Return the value as Java writes it in a properties file."""
        if value is None:
            return ""
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, Enum):
            return str(value.value)
        return ";".join(value) if isinstance(value, tuple) else str(value)

    def check(self, value: Any) -> None:
        """Raise ValueError if the value is outside the setting's range."""
        if value is None or isinstance(value, (str, tuple, Path, Enum)):
            return
        self._check_type(value)
        is_low_enough, is_high_enough = self.high is None or value <= self.high, self.low is None or value >= self.low
        if not (is_low_enough and is_high_enough):  # asked this way round, so that nan is outside of every range
            raise ValueError(f"must be {self.range_text}")

    def _check_type(self, value: Any) -> None:
        """Check a whole number without a bound of its own against the bounds of Java's type."""
        most = JAVA_LONG if self.wide else JAVA_INT
        if self.kind is int and self.high is None and not -most - 1 <= value <= most:
            raise ValueError(f"must be from {-most - 1 if self.low is None else int(self.low)} to {most}")

    @property
    def range_text(self) -> str:
        if self.high is None:
            return f"at least {_number(self.low)}" if self.low is not None else "any number"
        return f"at most {_number(self.high)}" if self.low is None else f"from {self.low:.0f} to {self.high:.0f}"

    @property
    def kind_name(self) -> str:
        if self.kind == tuple[str, ...]:
            return "a list (in a properties file separated by ;)"
        if issubclass(self.kind, Enum):
            return "one of " + ", ".join(str(choice.value) for choice in self.kind)
        return {int: "a whole number", float: "a number", bool: "true or false", Path: "a path"}.get(self.kind, "text")

    def _from_text(self, text: str) -> Any:
        if not text and self.optional:
            return None
        if not text and self.default != "" and self.kind != tuple[str, ...]:
            raise ValueError(f"must be {self.kind_name}, not empty; leave it out for the default")
        if self.kind is bool:
            if text.lower() not in ("true", "false"):
                raise ValueError(f"must be {self.kind_name}; Java takes every other word for false")
            return text.lower() == "true"
        if self.kind == tuple[str, ...]:
            return tuple(part.strip() for part in text.split(";") if part.strip())
        if self.kind is Path:
            return Path(text).expanduser()
        try:
            return self.kind(text)
        except ValueError:
            raise ValueError(f"must be {self.kind_name}") from None


def setting(
    default: T = _NOT_GIVEN,
    *,
    help: str,
    factory: Callable[[], T] = _NOT_GIVEN,
    java: str | None = None,
    low: float | None = None,
    high: float | None = None,
    live: bool = False,
    flag: bool = False,
    wide: bool = False,
    also: tuple[str, ...] = (),
) -> T:
    """Declare a field. `live`: may be changed over the wire while running. `flag`: has a command-line option.

    `wide`: a whole number of 64 bits, as Java's long; others without `high` have 32. `also`: other keys for the same.
    """
    facts: dict[str, Any] = {"help": help, "java": java, "low": low, "high": high, "live": live, "flag": flag}
    facts |= {"wide": wide, "also": also}
    value: dict[str, Any] = {"default": default, "default_factory": factory}
    return cast(T, dataclasses.field(**value, metadata=facts))


def option(default: T, *, help: str, **facts: Any) -> T:
    """Declare a field as `setting` does, with a command-line option."""
    return setting(default, help=help, flag=True, **facts)


_KNOWN: dict[type, Mapping[str, Setting]] = {}  # reading type hints is dear


def settings_of(config_class: type) -> Mapping[str, Setting]:
    """Return every setting of a daemon's dataclass by field name, in order of declaration."""
    if config_class not in _KNOWN:
        _KNOWN[config_class] = _read_settings(config_class)
    return _KNOWN[config_class]


def _read_settings(config_class: type) -> Mapping[str, Setting]:
    hints = typing.get_type_hints(config_class)
    found = {}
    for declared in dataclasses.fields(config_class):
        kind, optional = hints[declared.name], False
        if isinstance(kind, types.UnionType):
            kind, optional = next(part for part in typing.get_args(kind) if part is not type(None)), True
        facts = dict(declared.metadata)
        first, *rest = declared.name.split("_")
        java = facts.pop("java") or first + "".join(word.capitalize() for word in rest)
        factory = declared.default_factory
        default = declared.default if factory is dataclasses.MISSING else factory()
        found[declared.name] = Setting(declared.name, java, kind, optional, default, **facts)
    return types.MappingProxyType(found)


def masked(key: str, value: str) -> str:
    """Return a value as it may be shown: stars for passwords and their like, ours and those of Java's other keys.

    By the key's name, so that one that is misspelt or unknown counts too. Nothing stays nothing.
    """
    return MASK if value and _SECRET.search(key) else value


def check_ranges(config: Any) -> None:
    """Check the ranges of a value built in code as those of one from a file are checked: for `__post_init__`."""
    for name, declared in settings_of(type(config)).items():
        value = getattr(config, name)
        try:
            declared.check(value)
        except ValueError as fault:
            raise ConfigError(f"{name} = {declared.render(value)}: {fault}") from None


def render_all(config: Any) -> dict[str, str]:
    """Return the text of every setting by its Java key."""
    return {one.java: one.render(getattr(config, one.name)) for one in settings_of(type(config)).values()}


def _number(value: float) -> str:
    """Return the number as one types it: 1048576, not 1.04858e+06."""
    return str(int(value)) if value == int(value) else f"{value:g}"
