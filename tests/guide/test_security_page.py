"""docs/security.md names settings that exist, with their defaults where they are plain numbers."""

from __future__ import annotations

import re
from pathlib import Path

from pyromq.broker.config import BrokerConfig
from pyromq.config import Setting, settings_of
from pyromq.model.filters.parser import MAX_CONTAINS, MAX_LENGTH, MAX_NESTING, MAX_TESTS
from pyromq.namesrv.config import NamesrvConfig

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text("utf-8")
KNOWN: dict[str, Setting] = {
    one.java: one for kind in (NamesrvConfig, BrokerConfig) for one in settings_of(kind).values()
}
UNITS = {"MiB": 1 << 20, "GiB": 1 << 30}


def rows() -> list[tuple[list[str], list[str]]]:
    """Defaults and settings of each row of the tables of bounds."""
    found = []
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and len(cells) == 3 and "`" in cells[2]:
            found.append((re.split(r"[,;] (?=\S)", cells[1]), re.findall(r"`([^`]+)`", cells[2])))
    return found


def test_every_setting_of_the_page_exists() -> None:
    assert [key for _, keys in rows() for key in keys if key not in KNOWN] == []
    assert len(rows()) > 15


def test_the_defaults_are_those_of_the_code() -> None:
    for told, keys in rows():
        numbers = [re.fullmatch(r"([\d,]+)( [MG]iB)?( each)?", each) for each in told]
        if not all(numbers):
            continue
        values = [int(one[1].replace(",", "")) * UNITS.get((one[2] or "").strip(), 1) for one in numbers if one]
        values *= len(keys) if len(values) == 1 else 1
        assert values == [KNOWN[key].default for key in keys], keys


def test_the_limits_of_sql92_are_those_of_the_parser() -> None:
    limits = [f"{MAX_LENGTH:,} characters", f"{MAX_TESTS} comparisons", f"{MAX_CONTAINS} CONTAINS"]
    filters = (Path(__file__).parents[2] / "docs" / "filters.md").read_text("utf-8")
    for page, wanted in ((PAGE, limits), (filters, [*limits, f"{MAX_NESTING} levels of nesting"])):
        assert [each for each in wanted if each not in " ".join(page.split())] == []
