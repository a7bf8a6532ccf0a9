"""Texts of the pages: each has its Chinese words, none stands in a template without being looked up."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from string import Formatter

import pytest

import pyromq.dashboard
from pyromq.dashboard.watch.user_views import LOGIN_WORDS, TOO_MANY
from pyromq.dashboard.web.routes import ACTIONS, AREAS, DOWNLOADS, NAV, STREAMS, VIEWS
from pyromq.dashboard.web.words import ENGLISH, LANGUAGES, catalogue, chosen, parts

ROOM = Path(pyromq.dashboard.__path__[0])
TEMPLATES = sorted((ROOM / "templates").glob("*.html"))
CALLED = re.compile(r"""\b_\(\s*(['"])(?P<text>.+?)\1\s*[,)]""")
PLAIN = {
    "PyroMQ",
    "API",
    "POST",
    "plan",
    "apply",
    "openapi.json",
    "OpenAPI",
    "api",
    "clusters",
}  # names, the same in every language


def used() -> set[str]:
    """Return every text that a page looks up."""
    code = sorted(ROOM.rglob("*.py"))
    found = {match["text"] for path in [*TEMPLATES, *code] for match in CALLED.finditer(path.read_text("utf-8"))}
    found |= {text for path in code for text in sentences(path.read_text("utf-8"))}
    found |= {match["text"] for match in re.finditer(r"""words\((['"])(?P<text>.+?)\1""", _source("rendering.py"))}
    found |= set(re.findall(r'"(\{n\} \w+)"', _source("rendering.py")))
    found |= set(re.findall(r'fault = "(.+?)"', _source("answers/login.py")))
    found |= {view.summary for view in VIEWS} | {one.summary for one in ACTIONS} | {entry.label for entry in NAV}
    found |= {one.summary for one in STREAMS} | {one.summary for one in DOWNLOADS}
    found |= {column.label for route in ACTIONS for column in route.columns}
    found |= {text for route in ACTIONS for field in route.fields for text in (field.label, field.hint) if text}
    found |= {TOO_MANY, *LOGIN_WORDS.values()}
    return found | {"yes", "no"}  # by `_(row.order)`


def sentences(text: str) -> set[str]:
    """Return the literals that `sentence` is called with, those of several lines as one."""
    return {
        str(call.args[0].value)
        for call in ast.walk(ast.parse(text))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == "sentence"
        and isinstance(call.args[0], ast.Constant)
    }


def _source(name: str) -> str:
    return (ROOM / "web" / name).read_text("utf-8")


@pytest.mark.parametrize("language", sorted(set(LANGUAGES) - {ENGLISH}))
def test_every_text_is_in_every_catalogue_and_nothing_else_is(language: str) -> None:
    known = catalogue(language)
    assert used() - known.keys() == set()
    assert known.keys() - used() - {"there is no such page"} == set()


@pytest.mark.parametrize("language", sorted(set(LANGUAGES) - {ENGLISH}))
def test_a_text_stands_in_one_file_of_a_catalogue(language: str) -> None:
    found = parts(language)
    assert found.keys() <= {"common", *(area.name for area in AREAS)}
    assert sum(map(len, found.values())) == len(catalogue(language))


@pytest.mark.parametrize("language", sorted(set(LANGUAGES) - {ENGLISH}))
def test_a_translation_has_the_same_values(language: str) -> None:
    for english, other in catalogue(language).items():
        assert _values(english) == _values(other), english


def _values(text: str) -> set[str | None]:
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_no_template_has_words_of_its_own(path: Path) -> None:
    text = path.read_text("utf-8")
    for cut in (r"\{#.*?#\}", r"\{%.*?%\}", r"\{\{.*?\}\}", r"<(pre|code|script)\b.*?</\1>", r"<[^>]*>"):
        text = re.sub(cut, " ", text, flags=re.S)
    assert set(re.findall(r"[A-Za-z][A-Za-z.]+", text)) - PLAIN <= {"ms"}, path.name


def test_nothing_is_marked_as_safe() -> None:
    for path in [*TEMPLATES, *ROOM.rglob("*.py")]:
        assert not re.search(r"\|\s*safe\b|Markup\(", path.read_text("utf-8")), path


def test_the_language_is_the_chosen_one_else_the_browsers() -> None:
    assert chosen("zh", "en").language == "zh"
    assert chosen("", "zh-CN,zh;q=0.9,en;q=0.8").language == "zh"
    assert chosen("xx", "de,fr").language == "en"
    assert chosen("zh", "")("Topics") == "主题"
    assert chosen("", "")("{n} more", n=3) == "3 more"
