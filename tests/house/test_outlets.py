"""What people read leaves through one door per program, where it is escaped: nobody else writes to the screen."""

from __future__ import annotations

import ast

import pytest

from tests.house.source import Module, module, modules

# The doors, and what writes for machines of ours or draws on purpose.
DOORS = {
    "pyromq.cli.terminal.printing": "escapes, and calls click.echo",
    "pyromq.mqadmin.main": "escapes, and writes to the standard streams",
    "pyromq.logs": "escapes, and hands lines to logging",
    "pyromq.cli.demo.run": "draws the demo, whose texts are ours",
}
WRITERS = {"print", "click.echo", "click.secho", "click.echo_via_pager", "sys.stdout.write", "sys.stderr.write"}
WRITERS |= {"sys.stdout.writelines", "console.print"}


def _called(node: ast.AST) -> str:
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute():
            return f"{_called(node.value)}.{node.attr}"
    return ""


def written_past_the_door(code: dict[str, Module]) -> list[str]:
    return [
        f"{name}:{node.lineno} calls {_called(node.func)}"
        for name, each in code.items()
        if name not in DOORS
        for node in ast.walk(each.tree)
        if isinstance(node, ast.Call) and _called(node.func) in WRITERS
    ]


def test_nobody_writes_to_the_screen_past_the_door() -> None:
    drawn = {"pyromq.pipelines.report.summary"}  # by rich, into a text that goes through the door
    code = {name: each for name, each in modules().items() if name not in drawn}
    assert written_past_the_door(code) == []


@pytest.mark.parametrize("text", ["print(1)", "import click\nclick.echo(topic)", "import sys\nsys.stderr.write(topic)"])
def test_the_check_finds_a_way_past_the_door(text: str) -> None:
    assert len(written_past_the_door({"pyromq.cli.x": module("pyromq.cli.x", text)})) == 1
