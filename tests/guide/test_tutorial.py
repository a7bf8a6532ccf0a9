"""docs/tutorial.md from top to bottom: programs are saved, commands are run, and they print what the page says."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from tests.guide.conftest import Up

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text("utf-8")


def commands(console: str) -> Iterator[tuple[str, list[str]]]:
    """Each `$ command` with the lines below it."""
    for part in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]:
        command, *expected = part.rstrip("\n").split("\n")
        yield command, expected


def is_in(printed: str, expected: list[str]) -> bool:
    """The expected lines, in any order (queues have none among each other), … for any text."""
    lines = printed.splitlines()
    return all(any(re.fullmatch(".*".join(map(re.escape, one.split("…"))), line) for line in lines) for one in expected)


def test_the_tutorial_goes_as_it_says(up: Up) -> None:
    steps = re.findall(r"```(python|console)\n(.*?)```", PAGE, re.DOTALL)
    assert [kind for kind, _ in steps].count("console") >= 6
    for kind, text in steps:
        if kind == "python":
            (name,) = re.findall(r"^# (\w+\.py)\n", text)
            (up.folder / name).write_text(text)
            continue
        for command, expected in commands(text):
            printed = up.run(*shlex.split(command))
            assert expected, f"the page does not say what {command} prints"
            assert is_in(printed, expected), f"$ {command}\n{printed}\nis not what the page says: {expected}"
