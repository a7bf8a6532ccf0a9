"""Folders, classes, functions and docstrings are named as docs/architecture.md promises.

Each rule has a short list of what is left out, with the reason; an entry that is no longer needed fails, too.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.source import SRC, Module, module, modules

CODE = modules()
SUFFIXES = (".py", ".pyx", ".pxi", ".pxd", ".h")

LEAST_FILES, MOST_FILES = 4, 15
# Folders of another size, and why.
OTHER_SIZES = {
    "middleware": "one file for each, and users name them",
    "codecs": "one file for each, and users name them",
    "model": "one file for each noun, and nothing else in them",
    "broker/duplicates": "one capability, and no other is near it",
    "broker/wiring": "one file for each group of parts that the composition root makes",
    "broker/filters": "one capability, and no other is near it",
    "broker/retries": "one capability, and no other is near it",
    "client/tracing": "one capability, and no other is near it",
    "dashboard": "its composition root; all else is in its folders",
    "kernel/native": "the parts of one Cython module",
    "namesrv/handlers": "one file for each kind of caller",
    "spark/connect": "what tasks reach brokers by",
    "spark/startup": "on the path of worker processes, where nothing else may be found",
    "spark/store": "reads of store files",
}

# Class names that stand in several rooms, and why nobody mixes them up.
SHARED_CLASSES = dict.fromkeys(
    ("Client", "Popped", "Producer", "PullConsumer", "PushConsumer", "SimpleConsumer"),
    "the blocking twins in `pyromq.sync` have the same names",
)

# Words that say nothing to a reader who has not met them: the field has a name for each of these things.
FORBIDDEN = {
    "asides", "asked", "gave", "ground", "look", "looks", "marks", "picture", "resting", "seats", "shed", "sift",
    "sifting", "sights", "spread", "stage", "steps", "story", "taken", "terms", "tell", "told",
}  # fmt: skip
# Names in which such a word is the right one.
RIGHT_WORDS = {
    "pyromq.cli.demo run_steps": "what the demo does, one after the other",
    "pyromq.cli.demo.kinds STEPS": "of an order, as the demo prints them",
}

VERBS = set((Path(__file__).parent / "verbs.txt").read_text("utf-8").split())


def folders(top: Path) -> dict[str, int]:
    """Return the number of files of each folder that has any, by its path; `__init__.py` and what is built left out."""
    found: Counter[str] = Counter()
    for path in top.rglob("*"):
        if path.suffix in SUFFIXES and path.name != "__init__.py":
            found[path.parent.relative_to(top).as_posix()] += 1
    return {name: count for name, count in found.items() if name != "."}


def class_places(code: dict[str, Module]) -> dict[str, list[str]]:
    """Return the modules in which each public class name is defined at the top."""
    found = defaultdict(list)
    for name, each in code.items():
        for node in each.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(name)
    return found


def defined(each: Module) -> Iterator[str]:
    """Yield the names of a module, its classes, functions, methods and constants."""
    yield each.name.rpartition(".")[2]
    for node in ast.walk(each.tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
    for node in each.tree.body:
        if isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def forbidden(code: dict[str, Module]) -> set[str]:
    """Return the names that contain a forbidden word, with their modules."""
    return {
        f"{name} {one}"
        for name, each in code.items()
        for one in defined(each)
        if FORBIDDEN & {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", one)}
    }


def has_free_docstring(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether its docstring may begin otherwise.

    A property's may begin with the noun that it stands for, a constructor's explains arguments, and that of a command
    is the help text that users see.
    """
    decorators = " ".join(ast.unparse(each) for each in node.decorator_list)
    is_free = re.search(r"\b(\w*property|\w*command|group)\b", decorators) is not None
    return is_free or node.name in ("__init__", "__new__")


def without_verb(code: dict[str, Module]) -> list[str]:
    """Return the function docstrings that do not begin with a verb of `VERBS`."""
    found = []
    for name, each in code.items():
        for node in ast.walk(each.tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or has_free_docstring(node):
                continue
            text = ast.get_docstring(node)
            if text and re.split(r"\W", text, maxsplit=1)[0] not in VERBS:
                found.append(f"{name} {text.splitlines()[0]}")
    return found


def test_folders_are_neither_too_small_nor_too_large() -> None:
    odd = {name: n for name, n in folders(SRC / "pyromq").items() if not LEAST_FILES <= n <= MOST_FILES}
    assert odd.keys() == OTHER_SIZES.keys(), odd


def test_a_class_name_means_one_thing() -> None:
    shared = {name: places for name, places in class_places(CODE).items() if len(places) > 1}
    assert shared.keys() == SHARED_CLASSES.keys(), shared


def test_names_are_words_of_the_field() -> None:
    assert forbidden(CODE) == RIGHT_WORDS.keys()


def test_function_docstrings_begin_with_a_verb() -> None:
    assert without_verb(CODE) == [], "say what the function does, beginning with a verb (tests/house/verbs.txt)"


def test_the_checks_can_fail(tmp_path: Path) -> None:
    (tmp_path / "store" / "log").mkdir(parents=True)
    for name in ("__init__.py", "a.py", "b.pyx", "c.so"):
        (tmp_path / "store" / "log" / name).touch()
    assert folders(tmp_path) == {"store/log": 2}
    twice = {name: module(name, "class Range: ...\nclass _Own: ...") for name in ("pyromq.a", "pyromq.b")}
    assert class_places(twice) == {"Range": ["pyromq.a", "pyromq.b"]}


@pytest.mark.parametrize(
    "text", ["class PullSights: ...", "def _look_again(): ...", "_LOOK_S = 5", "class A:\n    def told(self): ..."]
)
def test_the_check_finds_a_name(text: str) -> None:
    assert len(forbidden({"pyromq.a": module("pyromq.a", text)})) == 1


@pytest.mark.parametrize("text", ["def lookup() -> None: ...", "class Outlook: ...", "def f(told: int) -> None: ..."])
def test_the_check_lets_a_name_through(text: str) -> None:
    assert forbidden({"pyromq.a": module("pyromq.a", text)}) == set()


def test_the_check_finds_a_docstring() -> None:
    text = 'def f():\n    """The end."""\n\ndef g():\n    """Return the end."""\n\nclass C:\n    """An end."""'
    assert without_verb({"pyromq.a": module("pyromq.a", text)}) == ["pyromq.a The end."]
