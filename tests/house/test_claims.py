"""docs/claims.md is what docs/claims.toml says, and each of its claims is shown by tests that exist."""

from __future__ import annotations

import re
import runpy

from tests.house.source import ROOT

SCRIPT = runpy.run_path(str(ROOT / "scripts" / "claims.py"))
NAMED = "tests/house/test_claims.py::test_each_claim_has_tests_that_exist"


def faults(text: str) -> list[str]:
    claims = [claim for of_document in SCRIPT["documents"](text).values() for claim in of_document]
    found: list[str] = SCRIPT["faults"](claims, SCRIPT["Named"]())
    return found


def test_the_page_in_docs_is_up_to_date() -> None:
    page = (ROOT / "docs" / "claims.md").read_text("utf-8")
    assert page == SCRIPT["page"]() + "\n", "run: python scripts/claims.py > docs/claims.md"


def test_each_row_of_the_page_has_its_cells() -> None:
    rows = [line for line in SCRIPT["page"]().partition("## ")[2].splitlines() if line.startswith("|")]
    assert {len(re.split(r"(?<!\\)\|", row)) for row in rows} == {6}


def test_each_claim_has_tests_that_exist() -> None:
    assert faults((ROOT / "docs" / "claims.toml").read_text("utf-8")) == []


def test_no_claim_is_there_twice() -> None:
    says = [claim.says for claims in SCRIPT["read"]().values() for claim in claims]
    assert sorted(set(says)) == sorted(says)


def test_the_check_can_fail() -> None:
    good = f'[[a]]\nat = "1"\nsays = "x"\ntests = ["{NAMED}"]\n'
    assert faults(good) == []
    assert faults(good + 'better = "broker.md"\nwaits = "pop"\n') == ["better and not yet at once: x"]
    assert faults(good.replace(f'"{NAMED}"', "")) == ["no test: x"]
    assert faults(good.replace("_exist", "_exist_not")) == [f"no such test: {NAMED}_not"]
    assert faults(good.replace("house", "cellar")) == [f"no such test: {NAMED.replace('house', 'cellar')}"]
