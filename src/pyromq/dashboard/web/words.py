"""Texts of the pages in the reader's language. English is the key; a catalogue has the others' words for it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

ENGLISH = "en"
LANGUAGES = {"en": "English", "zh": "中文"}


@cache
def catalogue(language: str) -> dict[str, str]:
    """Return the texts of a language by their English ones, which English itself needs not."""
    if language == ENGLISH:
        return {}
    return {english: other for part in parts(language).values() for english, other in part.items()}


def parts(language: str) -> dict[str, dict[str, str]]:
    """Return the files of a language's catalogue by name: `common`, and one for each area that has texts of its own."""
    folder = files(__package__ or "").joinpath("..", "locale", language)
    found = sorted((one for one in folder.iterdir() if one.name.endswith(".toml")), key=lambda one: one.name)
    return {one.name.removesuffix(".toml"): dict(tomllib.loads(one.read_text("utf-8"))["texts"]) for one in found}


@dataclass(frozen=True, slots=True)
class Words:
    """Call it with an English text, and with what stands in its braces."""

    language: str

    def __call__(self, text: str, **values: object) -> str:
        shown = catalogue(self.language).get(text, text)
        return shown.format(**values) if values else shown


def chosen(cookie: str, accepted: str) -> Words:
    """Return the words for a choice that was kept, else for what the browser accepts, else English."""
    if cookie in LANGUAGES:
        return Words(cookie)
    for part in accepted.split(","):
        language = part.partition(";")[0].strip().lower()[:2]
        if language in LANGUAGES:
            return Words(language)
    return Words(ENGLISH)
