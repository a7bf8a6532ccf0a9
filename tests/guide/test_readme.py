"""The four commands of the README print what it shows: the same lines, with other ids, times and ports."""

from __future__ import annotations

import re
from pathlib import Path

from tests.guide.conftest import Up

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
CONSOLE = dict(re.findall(r"^\$ (\S.*?)(?: {2,}#.*)?\n(.+)$", README, re.MULTILINE))
BIN = ".venv/bin/"


def shape(line: str) -> str:
    """Return the line with 0 for each number and id, whichever kernel serves."""
    return re.sub(r"\b[0-9A-F]{32}\b|\d+", "0", line.strip()).replace("(python kernel)", "(native kernel)")


def test_the_readme_has_the_four_commands() -> None:
    assert [command.split()[:2] for command in CONSOLE] == [
        ["make", "quick"],
        [f"{BIN}pyromq", "up"],
        [f"{BIN}pyromq", "pub"],
        [f"{BIN}pyromq", "sub"],
    ]


def test_they_print_what_is_shown(up: Up) -> None:
    _, started, (pub, sent), (sub, shown) = CONSOLE.items()
    assert shape(up.ready) == shape(started[1])
    assert shape(up.run(*pub.removeprefix(BIN).split())) == shape(sent)
    assert shape(up.run(*sub.removeprefix(BIN).split(), "--count", "1")) == shape(shown)


def test_make_quick_ends_with_the_line_that_is_shown() -> None:
    makefile = (Path(__file__).parents[2] / "Makefile").read_text("utf-8")
    assert f'@echo "{CONSOLE["make quick"]}"' in makefile
