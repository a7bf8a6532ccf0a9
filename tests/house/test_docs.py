"""What the pages promise exists: make targets, links, files, functions; and no path of somebody's own machine."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.house.source import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
WIDTH = 120
TARGETS = {"setup", "demo", "test", "lint", "bench", "docs", "clean"}
# Spelled in pieces, so that this file does not find itself.
MACHINE_PATHS = re.compile(r"(?<![\w.~-])/(?:" + "|".join(["work", "farm", "root", "home/" + r"\w+"]) + r")/[\w.]")


def make_targets() -> set[str]:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    return set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))


def promised_targets(text: str) -> set[str]:
    """`make demo` in code, in a line or in a block."""
    code = re.findall(r"`([^`\n]+)`", text) + re.findall(r"```.*?\n(.*?)```", text, re.DOTALL)
    return {target for piece in code for target in re.findall(r"\bmake ([a-z][a-z-]*)", piece)}


def broken_links(page: Path, text: str) -> list[str]:
    found = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        aim = page.parent / path
        is_there = not path or aim.exists()
        if not is_there or (anchor and anchor not in anchors(aim.read_text("utf-8") if path else text)):
            found.append(target)
    return found


def anchors(text: str) -> set[str]:
    """Return the names by which links reach the headings of a page."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    titles = [re.sub(r"[^\w\s-]", "", title.lower()) for title in re.findall(r"^#+ (.+)$", prose, re.MULTILINE)]
    return {re.sub(r"[-\s]+", "-", title.strip()) for title in titles}


def committed_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:  # an unpacked archive: then everything outside hidden folders
        return [path for path in ROOT.rglob("*") if path.is_file() and ".venv" not in path.parts]
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def machine_paths(text: str) -> list[str]:
    return [match.group() for match in MACHINE_PATHS.finditer(text)]


@dataclass(frozen=True)
class Named:
    """A file that a page names in code, and a function or class in it: `store/log/writer.py:put`."""

    path: str
    name: str

    def is_there(self, root: Path) -> bool:
        """Return whether the file exists, below the root or its sources, and defines the name."""
        for top in (root, root / "src" / "pyromq"):
            if (top / self.path).is_file():
                text = (top / self.path).read_text("utf-8")
                return not self.name or re.search(rf"\b(def|class) {self.name}\b", text) is not None
        return False


def named_files(text: str) -> set[Named]:
    """Return the files that a page names in code with their folder."""
    found = re.findall(r"`((?:[\w.-]+/)+[\w-]+\.(?:py|pyx|pxi|pxd|c|txt))(?::(\w+))?`", text)
    return {Named(path, name) for path, name in found}


def named_folders(text: str) -> set[str]:
    return set(re.findall(r"`((?:[\w-]+/)+)`", text))


def source_folders() -> set[str]:
    """Return the folders within the rooms, as the architecture page writes them."""
    top = ROOT / "src" / "pyromq"
    return {f"{path.parent.relative_to(top)}/" for path in top.glob("*/*/__init__.py")}


def long_lines(text: str) -> list[str]:
    """Return the lines of paragraphs and lists that are wider than a page; a single long word may be."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    lines = [line for line in prose.splitlines() if not line.startswith(("|", "#"))]
    return [line for line in lines if len(line) > WIDTH and len(line.split()) > 3]


def test_the_makefile_has_the_targets_of_the_house() -> None:
    assert make_targets() >= TARGETS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_only_make_targets_that_exist(page: Path) -> None:
    assert promised_targets(page.read_text("utf-8")) - make_targets() == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page, page.read_text("utf-8")) == []


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_every_page_can_be_found(page: str) -> None:
    """From the README, and from the front page of the site."""
    path = ROOT / page
    linked = {(path.parent / target).resolve() for target in re.findall(r"\]\(([^)#\s]+)", path.read_text("utf-8"))}
    pages = {each for each in (ROOT / "docs").rglob("*.md") if each.name != "index.md"}
    assert pages - linked == set()


def test_the_readme_shows_the_two_commands_first() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    demo, test = readme.index("make demo"), readme.index("make test")
    assert demo < test < readme.index("pyromq up")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_and_functions_that_a_page_names_exist(page: Path) -> None:
    named = named_files(page.read_text("utf-8")) if page.name != "CHANGELOG.md" else set()  # that is history
    assert sorted(f"{one.path}:{one.name}" for one in named if not one.is_there(ROOT)) == []


def test_the_architecture_page_names_every_folder() -> None:
    assert named_folders((ROOT / "docs" / "architecture.md").read_text("utf-8")) >= source_folders()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paragraphs_have_one_width(page: Path) -> None:
    assert long_lines(page.read_text("utf-8")) == []


def test_no_committed_file_names_a_path_of_somebodys_machine() -> None:
    found = []
    for path in committed_files():
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}: {hit}" for hit in machine_paths(text)]
    assert found == []


def test_the_checks_can_fail(tmp_path: Path) -> None:
    assert promised_targets("type `make nonsense` or\n```\nmake other\n```\nmake sense") == {"nonsense", "other"}
    links = "# Here it is\n[a](gone.md#part) [b](https://x.org/y) [c](#here-it-is) [d](#there)"
    assert broken_links(tmp_path / "x.md", links) == ["gone.md#part", "#there"]
    named = named_files("`house/test_docs.py:Named` and `house/test_docs.py:nobody`, `gone/x.py`, `x.py`")
    assert {one.name or one.path for one in named if not one.is_there(ROOT / "tests")} == {"nobody", "gone/x.py"}
    assert named_folders("`store/log/` and `store/`") == {"store/log/", "store/"}
    assert len(long_lines("a " * 70 + "\n| " + "b " * 70 + "\n```\n" + "c " * 70 + "\n```\n" + "d" * 130)) == 1
    assert len(machine_paths("see " + "/wo" + "rk/main and " + "/ro" + "ot/.cache, not $HOME/w" + "ork/x")) == 2
