"""Every text with which our servers refuse, read out of the source: what docs/errors.md must explain."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

SOURCE = Path(__file__).parents[2] / "src" / "pyromq"
ROOMS = ("broker", "namesrv", "controller", "transport", "protocol", "model", "config")
REFUSALS = {"RequestRefused", "Malformed", "illegal"}
MAKERS = {
    "_above",
    "_over",
    "_not_altered",
    "_not_cleaned",
    "_incomplete",
}  # return a refusal whose text is mostly what they are given
RULE, ILLEGAL = "Rule", "the message is illegal: "  # a table of texts, and what stands before each
Function = ast.FunctionDef | ast.AsyncFunctionDef


def remarks() -> dict[str, str]:
    """The texts, with … for what varies, and the file that each is in."""
    return {
        text: str(path.relative_to(SOURCE))
        for room in ROOMS
        for path in sorted((SOURCE / room).rglob("*.py"))
        for text in _of_module(ast.parse(path.read_text("utf-8")), path.parent)
    }


def _of_module(tree: ast.Module, folder: Path) -> Iterator[str]:
    imported = _imported(tree, folder)
    makers = {one.name: one for one in _functions(tree) if one.name in MAKERS}
    for scope in (tree, *_functions(tree)):
        if scope not in makers.values():
            yield from _of(scope, makers, imported)


def _imported(tree: ast.Module, folder: Path) -> dict[str, str]:
    """The texts that other modules of ours give to this one by name."""
    found: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.level and node.module:
            source = folder.joinpath(*[".."] * (node.level - 1), *node.module.split(".")).with_suffix(".py").resolve()
            if source.is_file():
                known = _given(source)
                found |= {one.name: known[one.name] for one in node.names if one.name.isupper() and one.name in known}
    return found


@cache
def _given(source: Path) -> dict[str, str]:
    return _assigned(ast.parse(source.read_text("utf-8")))


def _functions(tree: ast.Module) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def _of(scope: ast.Module | Function, makers: dict[str, Function], imported: dict[str, str]) -> Iterator[str]:
    known = imported | _assigned(scope)
    for node in _own_nodes(scope):
        if not isinstance(node, ast.Call):
            continue
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in makers:
            yield from _made(makers[name], [_text(one, known) for one in node.args])
        elif name == RULE and (text := _text(node.args[1], {})):
            yield ILLEGAL + text.replace("{!r}", "…").replace("{}", "…")
        elif name in REFUSALS or any(_is_code(one) for one in arguments):
            texts = [text for one in arguments if len(text := _text(one, known).strip()) > len("…")]
            if name != RULE and texts and not _is_success(arguments):
                yield max(texts, key=len)


def _own_nodes(scope: ast.Module | Function) -> Iterator[ast.AST]:
    """What stands in a function or module, without the functions in it."""
    waiting: list[ast.AST] = [scope]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [child for child in ast.iter_child_nodes(node) if not isinstance(child, Function)]


def _assigned(scope: ast.Module | Function, known: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    return {
        target.id: text
        for node in _own_nodes(scope)
        if isinstance(node, ast.Assign)
        for target, value in _pairs(node)
        if isinstance(target, ast.Name) and (text := _text(value, known))
    }


def _pairs(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    for target in node.targets:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from zip(target.elts, node.value.elts, strict=False)
        else:
            yield target, node.value


def _made(maker: Function, given: list[str]) -> Iterator[str]:
    """The texts of refusals by their maker, called with these texts."""
    own = {argument.arg: text or "…" for argument, text in zip(maker.args.args, given, strict=False)}
    own |= _assigned(maker, own)
    for node in _own_nodes(maker):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in REFUSALS:
            yield _text(node.args[0], own)


def _is_code(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ResponseCode"


def _is_success(arguments: list[ast.expr]) -> bool:
    return any(_is_code(one) and isinstance(one, ast.Attribute) and one.attr == "SUCCESS" for one in arguments)


def _text(node: ast.expr, known: Mapping[str, str]) -> str:
    """A literal, an f-string with … for its fields, a sum of those, or a name that is known; empty for anything else.

    In an f-string what is known is a part of the text, too.
    """
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.Name):
        return known.get(node.id, "")
    if isinstance(node, ast.JoinedStr):
        return "".join(_part(part, known) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left, known) + _text(node.right, known)
    return ""


def _part(part: ast.expr, known: Mapping[str, str]) -> str:
    if isinstance(part, ast.Constant):
        return str(part.value)
    return (_text(part.value, known) if isinstance(part, ast.FormattedValue) else "") or "…"
