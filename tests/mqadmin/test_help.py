"""Names, options and layout of the help are those of 5.5.0; the descriptions are our own words."""

from __future__ import annotations

import re

import pytest

from pyromq.mqadmin import catalogue
from pyromq.mqadmin.main import DONE, USAGE, run

from .golden import HELP, recorded_names

OPTION = re.compile(r" (?:-\w+,|   )--.*?(?: <arg>)?(?=   |$)")


def shown(*words: str) -> tuple[int, str, str]:
    out: list[str] = []
    err: list[str] = []
    code = run(words, out.append, err.append)
    return code, "".join(out), "".join(err)


def usage(text: str) -> str:
    return text.partition("\n -")[0]


def options(text: str) -> list[str]:
    """Each option's signature, and the column in which its description begins."""
    lines = [line for line in text.splitlines() if OPTION.match(line)]
    return [match[0].rstrip() for line in lines if (match := OPTION.match(line))]


def test_every_command_of_5_5_0_is_there_in_its_order() -> None:
    assert list(catalogue.COMMANDS) == recorded_names()
    assert len(catalogue.COMMANDS) == 96


@pytest.mark.parametrize("name", recorded_names())
def test_the_help_of_a_command(name: str) -> None:
    recorded = (HELP / f"{name}.txt").read_text()
    code, text, _ = shown("help", name)
    assert code == DONE
    assert usage(text) == usage(recorded)
    assert options(text) == options(recorded)
    assert shown(name, "-h") == (DONE, text, "")
    assert all(len(line) <= 110 for line in text.splitlines())


def test_the_list_of_commands() -> None:
    recorded = (HELP / "_list.txt").read_text().splitlines()
    lines = shown()[1].splitlines()
    assert lines[0] == recorded[0]
    assert lines[-1] == recorded[-1]
    assert [line[:38] for line in lines] == [line[:38] for line in recorded]
    assert shown("help") == shown()


def test_an_unknown_command_names_the_nearest() -> None:
    code, out, err = shown("topicRoutes", "-t", "x")
    assert (code, out) == (USAGE, "The sub command topicRoutes not exist.\n")
    assert "topicRoute" in err
    assert shown("help", "noSuchCommand") == (
        USAGE,
        "The sub command noSuchCommand not exist.\n",
        shown("noSuchCommand")[2],
    )


def test_capital_letters_of_a_command_do_not_count() -> None:
    assert shown("TOPICROUTE", "-h") == shown("topicRoute", "-h")


def test_a_missing_option_is_named_with_the_help() -> None:
    code, out, _ = shown("updateTopic")
    assert code == USAGE
    assert out.startswith("Missing required options: [-b the broker, host:port, -c the cluster: all its masters], t\n")
    assert shown("help", "updateTopic")[1] in out
    assert shown("electMaster", "-a", "x:1", "-n", "broker-a", "-b", "0", "-c", "C")[1].startswith(
        "Missing required option: bn\n"
    )
