"""The programs of docs/howto.md run as they are printed."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.guide.conftest import Up

PAGE = (Path(__file__).parents[2] / "docs" / "howto.md").read_text("utf-8")
PROGRAMS = {
    section.partition("\n")[0]: code
    for section in PAGE.split("\n## ")[1:]
    for code in re.findall(r"```python\n(.*?)```", section, re.DOTALL)
}


def test_every_section_has_a_program() -> None:
    assert len(PROGRAMS) == PAGE.count("\n## ")


@pytest.mark.parametrize("section", PROGRAMS)
def test_a_program_of_the_page_runs(section: str, up: Up) -> None:
    up.run(sys.executable, "-c", PROGRAMS[section])
