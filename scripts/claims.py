"""docs/claims.md, made from docs/claims.toml: `python scripts/claims.py > docs/claims.md`. A test keeps it current."""

from __future__ import annotations

import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
STATES = ("works", "better", "not yet")
HEAD = """\
# What RocketMQ's documentation says

The claims of Apache RocketMQ's own documentation (`docs/` of apache/rocketmq), in our words, and the tests that fail
when one of them stops being true here. Made from `docs/claims.toml` by `python scripts/claims.py`.

- *works*: as it is said there
- *better*: other than in Java on purpose, and where that is said
- *not yet*: waits for what is named; until then it is refused with the reason, and the test shows that
"""


@dataclass(frozen=True)
class Claim:
    """A sentence of a document. It works here unless it says where we are `better` or what it `waits` for."""

    at: str
    says: str
    tests: list[str]
    better: str = ""
    waits: str = ""

    @property
    def state(self) -> str:
        """Return the name of its state."""
        return "better" if self.better else "not yet" if self.waits else "works"

    @property
    def cell(self) -> str:
        """Return its state with the place that says why, or with what it waits for."""
        if self.better:
            return f"[better]({self.better})"
        return f"not yet: {self.waits}" if self.waits else "works"


@dataclass
class Named:
    """The tests that exist, each file read once."""

    root: Path = ROOT
    known: dict[str, set[str]] = field(default_factory=dict)

    def has(self, test: str) -> bool:
        """Return whether the file defines the test: `tests/guide/test_howto.py::test_a_program_of_the_page_runs`."""
        path, _, name = test.partition("::")
        if path not in self.known:
            text = (self.root / path).read_text("utf-8") if (self.root / path).is_file() else ""
            self.known[path] = set(re.findall(r"^(?:async )?def (test_\w+)\(", text, re.MULTILINE))
        return name in self.known[path]


def documents(text: str) -> dict[str, list[Claim]]:
    """Return the claims of each document in the order of the file."""
    tables: dict[str, list[dict[str, Any]]] = tomllib.loads(text)
    return {document: [Claim(**claim) for claim in claims] for document, claims in tables.items()}


def read() -> dict[str, list[Claim]]:
    """Return the claims of docs/claims.toml."""
    return documents((ROOT / "docs" / "claims.toml").read_text("utf-8"))


def faults(claims: Iterable[Claim], named: Named) -> list[str]:
    """Return what is wrong: a claim that no test shows, a test that does not exist, two states at once."""
    found = []
    for claim in claims:
        if not claim.tests:
            found.append(f"no test: {claim.says}")
        if claim.better and claim.waits:
            found.append(f"better and not yet at once: {claim.says}")
        found += [f"no such test: {test}" for test in claim.tests if not named.has(test)]
    return found


def page() -> str:
    """Return the page: the counts, what is waited for, a table for each document."""
    documented = read()
    claims = [claim for of_document in documented.values() for claim in of_document]
    counts = Counter(claim.state for claim in claims)
    waits = Counter(claim.waits for claim in claims if claim.waits)
    lines = [f"{len(claims)} claims: {', '.join(f'{counts[state]} {state}' for state in STATES)}.\n"]
    lines += ["| waits for | claims |", "|---|---|"]
    lines += [f"| {capability} | {number} |" for capability, number in waits.most_common()]
    return "\n".join([HEAD, *lines, *(_table(*document) for document in documented.items())])


def _table(document: str, claims: list[Claim]) -> str:
    rows = (
        f"| {_text(one.at)} | {_text(one.says)} | {one.cell} | {'<br>'.join(map(_test, one.tests))} |\n"
        for one in claims
    )
    return f"\n## {document}\n\n| section | claim | here | tested by |\n|---|---|---|---|\n{''.join(rows)}".rstrip("\n")


def _text(text: str) -> str:
    return text.replace("|", "\\|")


def _test(test: str) -> str:
    return f"`{test.removeprefix('tests/')}`"


if __name__ == "__main__":
    if found := faults((claim for of_document in read().values() for claim in of_document), Named()):
        sys.exit("\n".join(found))
    print(page())
