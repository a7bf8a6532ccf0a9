"""No object of a higher room can be reached from the kernel: its sources are read for attributes of untyped values."""

from __future__ import annotations

import ast
from collections import defaultdict
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.house.source import SRC
from tests.support import require

KERNEL = SRC / "pyromq" / "kernel"

# What the native kernel asks of values whose type it does not know, and why each is no way into a higher room.
ASKED = {
    "host": "the broker's side: SendHost, EndHost, PullHost, PopHost, CopyHost, QuotaHost of kernel/sends.py and so on",
    "connection": "whose bytes these are: FeedConnection of kernel/seam.py",
    "settings": "SendSettings of kernel/sends.py: numbers and bytes",
    "fed": "Fed of kernel/seam.py, what the feed of another kind made of its frames",
    "first": "Fed, of the two parts of a buffer",
    "second": "Fed, of the two parts of a buffer",
}
MEMBERS = {
    "host": {
        *("born_host", "judge", "queue", "admit", "note_slow", "suspend", "note_pull", "read_counts"),
        *("secrets_of", "allows", "passed"),
        *("allowance", "text_of", "refuse"),
        *(
            "judge_pop",
            "judge_ack",
            "next_search",
            "give_back",
            "put_journal",
            "is_journal_awaited",
            "settled",
            "wake",
            "hold",
            "target",
            "note_committed",
        ),
    },
    "connection": {"notes", "address", "identity", "unfinished_sends", "unfinished", "answers_later"},
}


def asked_of_objects() -> dict[str, set[str]]:
    """Every `name.attribute` of the Cython sources whose name has no type but object, by name."""
    names = ("Errors", "Main", "Pipeline", "ParseTreeTransforms", "Scanning", "Visitor")
    errors, main, pipelines, transforms, scanning, visitors = (
        import_module(f"Cython.Compiler.{name}") for name in names
    )

    class Attributes(visitors.TreeVisitor):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.found: dict[str, set[str]] = defaultdict(set)

        def visit_Node(self, node: Any) -> None:  # noqa: N802 - named by Cython
            self.visitchildren(node)

        def visit_AttributeNode(self, node: Any) -> None:  # noqa: N802
            self.visitchildren(node)
            kind = getattr(node.obj, "type", None)
            if kind is not None and kind.is_pyobject and not kind.is_extension_type and not kind.is_builtin_type:
                name = getattr(node.obj, "name", None) or getattr(node.obj, "attribute", None) or "a call"
                self.found[name].add(node.attribute)

    native = str(KERNEL / "native")
    options = main.CompilationOptions(main.default_options, include_path=[native], language_level=3)
    context = main.Context.from_options(options)
    source = main.CompilationSource(
        scanning.FileSourceDescriptor(f"{native}/kernel.pyx"), "pyromq.kernel.native.kernel", native
    )
    result = main.create_default_resultobj(source, options)
    pipeline = pipelines.create_pyx_pipeline(context, options, result)
    until = next(at for at, step in enumerate(pipeline) if isinstance(step, transforms.AnalyseExpressionsTransform))
    errors.init_thread()
    context.setup_errors(options, result)
    error, tree = pipelines.run_pipeline(pipeline[: until + 1], source)
    assert error is None, error
    visitor = Attributes()
    visitor.visit(tree)
    return visitor.found


def test_the_native_kernel_knows_the_type_of_what_it_looks_into() -> None:
    require(find_spec("Cython") is not None, "Cython")
    asked = asked_of_objects()
    assert asked.keys() == ASKED.keys(), "type it (kernel.pxd), or say above why it leads to no higher room"
    for name, members in MEMBERS.items():
        assert asked[name] == members


@pytest.mark.parametrize("file", sorted(KERNEL.rglob("*.py")), ids=lambda file: str(file.relative_to(KERNEL)))
def test_the_kernel_in_python_has_no_untyped_values(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text())):
        assert not (isinstance(node, ast.Name) and node.id == "Any"), f"{file}:{node.lineno} is of any type"
        if isinstance(node, ast.Attribute) and node.attr == "Any":
            raise AssertionError(f"{file}:{node.lineno} is of any type")
