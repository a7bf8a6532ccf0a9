"""Every text with which our servers refuse, read out of the source: what docs/errors.md must explain."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "pyromq"
ROOMS = ("broker", "namesrv", "transport", "protocol", "model")
REFUSALS = {"RequestRefused", "Malformed"}


def remarks() -> dict[str, str]:
    """The texts, with … for what varies, and the file that each is in."""
    return {
        text: str(path.relative_to(SOURCE))
        for room in ROOMS
        for path in sorted((SOURCE / room).rglob("*.py"))
        for text in _of(ast.parse(path.read_text("utf-8")))
    }


def _of(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        refuses = isinstance(node.func, ast.Name) and node.func.id in REFUSALS
        if refuses or any(_is_code(one) for one in arguments):
            texts = [text for one in arguments if len(text := _text(one).strip()) > len("…")]
            if texts and not _is_success(arguments):
                yield max(texts, key=len)


def _is_code(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ResponseCode"


def _is_success(arguments: list[ast.expr]) -> bool:
    return any(_is_code(one) and isinstance(one, ast.Attribute) and one.attr == "SUCCESS" for one in arguments)


def _text(node: ast.expr) -> str:
    """A literal, an f-string with … for its fields, or a sum of those; empty for anything else."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left) + _text(node.right)
    return ""
