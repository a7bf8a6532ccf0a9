"""The code base as data: modules, what each imports, and the levels of the house. Read by the tests of this folder."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"

# The house, from the ground up. A room may import rooms of lower levels only; `docs/architecture.md` draws the same.
LEVELS: list[tuple[str, ...]] = [
    ("errors", "alerts"),
    ("ambient", "files", "model"),
    ("config", "logs", "text"),
    ("protocol", "supervision", "machine", "audit"),
    ("kernel", "access"),
    ("store", "transport"),
    ("proxy", "coordination", "metrics"),
    ("namesrv", "broker", "client", "controller"),
    ("gateway", "admin", "spark", "middleware", "codecs", "app"),
    ("cdc",),
    ("dashboard", "pipelines", "query"),
    ("cli", "mqadmin", "testing"),
    ("__main__",),
]
LEVEL = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}

# What the level alone would allow, but the room's own rule does not.
NEVER = {
    "model": {"config", "logs", "ambient", "files"},
    "protocol": {"config", "logs", "machine", "ambient", "files"},
    "kernel": {"config", "logs", "machine", "files"},
    "access": {"machine", "supervision"},
    "proxy": {"store"},
    "coordination": {"store", "kernel"},
    "gateway": {"broker", "namesrv", "store"},
    "controller": {"store", "kernel"},
    "admin": {"broker", "namesrv", "store"},
    "spark": {"broker", "namesrv"},
    "middleware": {"broker", "namesrv"},
    "codecs": {"broker", "namesrv"},
    "app": {"broker", "namesrv"},
    "query": {"broker", "namesrv"},
    "cdc": {"broker", "namesrv", "store"},
}


@dataclass(frozen=True)
class Module:
    """One file of src/pyromq: its dotted name and the dotted names it imports, the conditional ones included."""

    name: str
    is_package: bool
    tree: ast.Module

    @property
    def room(self) -> str:
        parts = self.name.split(".")
        return parts[1] if len(parts) > 1 else ""

    def imports(self) -> Iterator[str]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = self._absolute(node)
                # `from ..protocol import frame` names a module as often as a thing in one, so both are given.
                yield base
                yield from (f"{base}.{alias.name}" for alias in node.names)

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        package = self.name.split(".") if self.is_package else self.name.split(".")[:-1]
        base = package[: len(package) - node.level + 1]
        return ".".join([*base, node.module] if node.module else base)


def module(name: str, text: str, is_package: bool = False) -> Module:
    return Module(name, is_package, ast.parse(text))


def modules(top: Path = SRC) -> dict[str, Module]:
    found = {}
    for path in sorted((top / "pyromq").rglob("*.py")):
        parts = list(path.relative_to(top).with_suffix("").parts)
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        found[name] = module(name, path.read_text("utf-8"), is_package)
    return found


def dependencies(code: dict[str, Module]) -> dict[str, set[str]]:
    """For each module the modules of ours that it imports, itself left out."""
    return {name: {one for one in each.imports() if one in code and one != name} for name, each in code.items()}
