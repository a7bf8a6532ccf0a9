"""docs/errors.md explains every text with which our servers refuse."""

from __future__ import annotations

from pathlib import Path

from pyromq.model.codes import ResponseCode
from tests.guide.remarks import remarks

PAGE = (Path(__file__).parents[2] / "docs" / "errors.md").read_text("utf-8").replace("\\|", "|")


def said() -> dict[str, str]:
    """Neighbouring fields and line ends make one … of a text."""
    return {" ".join(text.replace("……", "… …").split()): place for text, place in remarks().items()}


def explained() -> set[str]:
    rows = (line for line in PAGE.splitlines() if line.startswith("| `"))
    return {row.partition("` |")[0].strip("| `") for row in rows}


def test_every_refusal_of_the_source_is_explained() -> None:
    assert {text: place for text, place in said().items() if text not in explained()} == {}


def test_no_refusal_is_explained_that_is_gone() -> None:
    assert explained() - said().keys() == set()


def test_the_codes_are_rocketmqs() -> None:
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if line.startswith("| ") and cells[1].isdigit() and cells[2].isupper():
            assert ResponseCode(int(cells[1])).name == cells[2]
