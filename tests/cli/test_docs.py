"""docs/cli.md: its lines run, and it names every command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from pyromq.cli.main import cli
from tests.cli.standing import Standing, standing

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text("utf-8")
BLOCKS = re.findall(r"<!-- run -->\n```console\n(.*?)```", PAGE, re.DOTALL)
OUTCOME = re.compile(r"\s+# exit (\d+): (.*)$")


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    with standing(tmp_path_factory.mktemp("docs")) as stands:
        yield stands


def test_every_line_of_the_page_does_what_it_says(one: Standing) -> None:
    lines = [line for block in BLOCKS for line in block.splitlines()]
    assert len(lines) > 40
    for line in lines:
        outcome = OUTCOME.search(line)
        words = shlex.split(OUTCOME.sub("", line), comments=False)
        assert words[:2] == ["$", "pyromq"], line
        done = one.run(*words[2:])
        expected = 0 if outcome is None else int(outcome[1])
        assert done.exit_code == expected, (line, done.output, done.exception)
        if outcome is not None:
            assert outcome[2] in done.output, line


def test_the_page_names_every_command() -> None:
    ctx = click.Context(cli)
    for name in cli.list_commands(ctx):
        command = cli.get_command(ctx, name)
        assert re.search(rf"\b{name}\b", PAGE.split("```")[1]), name
        if isinstance(command, click.Group) and name not in ("pipeline", "spark"):
            for below in command.list_commands(click.Context(command)):
                if (name, below) != ("msg", "dead"):  # another name of `dlq list`
                    assert re.search(rf"\b{below}\b", PAGE.split("```")[1]), f"{name} {below}"
