"""Runs the scripts of this folder on virtual time: as they stand, with a stop, and with a kill before every step.

A line is `action -> outcome; outcome`. Actions and outcomes are listed in `docs/messages.md`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.scenarios.script import parse, run_script

SCRIPTS = {path.stem: path.read_text() for path in sorted(Path(__file__).parent.glob("*.txt"))}


@pytest.mark.parametrize("between", ["nothing", "stop", "kill"])
@pytest.mark.parametrize("name", SCRIPTS)
async def test_scenario(name: str, between: str, tmp_path: Path) -> None:
    await run_script(parse(SCRIPTS[name]), between, tmp_path)


async def test_a_wrong_outcome_fails(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=re.escape("line 1: T holds k1, not k2")):
        await run_script(parse("send T k1 -> T: k2"), "nothing", tmp_path)


def test_an_unknown_line_is_an_error() -> None:
    with pytest.raises(ValueError, match="line 2: what is 'frobnicate'"):
        parse("send T k1\nfrobnicate T")


def test_there_are_scripts() -> None:
    assert SCRIPTS
    assert all(parse(text).steps for text in SCRIPTS.values())
