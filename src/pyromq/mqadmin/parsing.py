"""Words of a command line into values, by the rules of the Java tool (commons-cli): `-t x`, `-tx`, `-t=x`, `--topic x`,
`--topic=x`, `-topic x`, any clear beginning of a long name. A value may look like an option that does not exist, so
`-a -message.type` and `-s -1` mean what they say.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .options import Option

_NUMBER = re.compile(r"-\d+(\.\d+)?([eE][-+]?\d+)?")


class UsageError(Exception):
    """The words do not fit the options. The text says which."""


class Chosen(dict[str, str]):
    """What was given, by short name (by long name where there is no short one). Surrounding blanks are cut off."""

    def __init__(self) -> None:
        self.stray: list[str] = []  # words that belong to no option: Java ignores them


def parse(options: Sequence[Option], words: Sequence[str]) -> Chosen:
    return _WordParser(options).parse(words)


class _WordParser:
    def __init__(self, options: Sequence[Option]) -> None:
        self._options = options
        self._short = {option.short: option for option in options if option.short}
        self._long = {option.long.strip(): option for option in options}

    def parse(self, words: Sequence[str]) -> Chosen:
        chosen, waiting = Chosen(), list(words)
        while waiting:
            word = waiting.pop(0)
            if word == "--":
                chosen.stray += waiting
                break
            if len(word) < 2 or not word.startswith("-"):
                chosen.stray.append(word)
                continue
            option, value = self._found(word)
            if value is None and option.has_value:
                if not waiting or not self._is_value(waiting[0]):
                    raise UsageError(f"Missing argument for option: {option.key}")
                value = waiting.pop(0)
            elif value is not None and not option.has_value:
                raise UsageError(f"Unrecognized option: {word}")
            chosen.setdefault(option.key, (value or "").strip())  # the first one counts
        if "h" not in chosen:
            self._check(chosen)
        return chosen

    def _found(self, word: str) -> tuple[Option, str | None]:
        """Return the option that a word names, and the value that is in the word itself."""
        name, equals, given = word.lstrip("-").partition("=")
        value = given if equals else None
        if not word.startswith("--"):
            if name in self._short:
                return self._short[name], value
            first = self._short.get(name[:1])
            if not self._long_names(name) and first is not None and first.has_value:
                return first, word[2:]
        fitting = self._long_names(name)
        if len(fitting) > 1:
            raise UsageError(f"Ambiguous option: '{word}' (could be: {', '.join(map(repr, fitting))})")
        if not fitting:
            raise UsageError(f"Unrecognized option: {word}")
        return self._long[fitting[0]], value

    def _long_names(self, begin: str) -> list[str]:
        return [begin] if begin in self._long else [name for name in self._long if begin and name.startswith(begin)]

    def _is_value(self, word: str) -> bool:
        if len(word) < 2 or not word.startswith("-") or _NUMBER.fullmatch(word):
            return True
        name = word.lstrip("-").partition("=")[0]
        is_short = not word.startswith("--") and (name in self._short or name[:1] in self._short)
        return not is_short and not self._long_names(name)

    def _check(self, chosen: Chosen) -> None:
        missing, seen = [], {0}
        for option in self._options:
            if option.required and option.key not in chosen:
                missing.append(option.key)
            if option.group in seen:
                continue
            seen.add(option.group)
            members = [one for one in self._options if one.group == option.group]
            given = [one.key for one in members if one.key in chosen]
            if len(given) > 1:
                raise UsageError(
                    f"The option '{given[1]}' was specified but an option from this group has already been selected: "
                    f"'{given[0]}'"
                )
            if not given:
                missing.append(f"[{', '.join(f'-{one.short} {one.text}' for one in members)}]")
        if missing:
            raise UsageError(f"Missing required option{'s' if len(missing) > 1 else ''}: {', '.join(missing)}")
