"""Text from elsewhere becomes a number in one file only: `model/wire_text.py`.

`int` and `float` of anything but plain arithmetic, and the questions that answer yes to `²`, are looked for everywhere
else. A file may be allowed with its reason: what it turns into a number never comes from the wire or from a record.
"""

from __future__ import annotations

import ast

import pytest

from tests.house.source import Module, module, modules

QUESTIONS = {"isdigit", "isdecimal", "isnumeric"}
TYPES = {"int", "float"}
ARITHMETIC = (ast.Mult, ast.Div, ast.FloorDiv, ast.Sub, ast.BitAnd, ast.BitOr)  # `+` and `%` are of texts, too
UNPACKED = {"unpack", "unpack_from"}  # of a struct: bytes, not text

ALLOWED = {
    "pyromq.model.wire_text": "the one file",
    "pyromq.model.filters.comparing": "numbers of an expression, read already",
    "pyromq.model.filters.conversions": "SQL92 reads numbers by Java's rules, with bounds of its own",
    "pyromq.model.filters.parser": "SQL92, literals that its tokens have matched and bounded",
    "pyromq.query.filters": "places of columns, which Arrow wrote itself a moment ago",
    "pyromq.protocol.fastjson": "four hexadecimal digits that a pattern has matched",
    "pyromq.protocol.json": "a place in a text, that a pattern has matched",
    "pyromq.coordination.http": "hexadecimal digits that a pattern has matched, at most 8",
    "pyromq.config.properties": "four hexadecimal digits that were looked at one by one",
    "pyromq.access.plain.addresses": "digits that a pattern has matched, at most 4",
    "pyromq.cdc.postgres.lsn": "hexadecimal digits that a pattern has matched, at most 8",
    "pyromq.cdc.postgres.values": "binary digits of a bit string, as PostgreSQL wrote them",
    "pyromq.broker.duplicates.duplicate_window": "ASCII digits that a pattern of bytes has matched, at most 18",
    "pyromq.broker.reading.filtered_read": "an offset unpacked from a record's head",
    "pyromq.config.settings": "numbers of TOML and of settings, which have kinds and ranges of their own",
    "pyromq.client.arguments": "a number that an application gave to a call",
    "pyromq.text.values": "numbers of a row",
    "pyromq.cli.terminal.exits": "the exit code of a job",
    "pyromq.cli.serve.child": "our own argument, the number of a process",
    "pyromq.cli.serve.up": "the port of a name server of this process",
    "pyromq.cli.serve.brokers": "folders that a pattern has matched",
    "pyromq.transport.memory": "addresses of streams within this process",
    "pyromq.testing.broker": "the port of a broker of this process",
    "pyromq.pipelines.run.times": "what a person typed, matched by a pattern",
    "pyromq.pipelines.run.sending": "rows that the pipeline itself has written",
    "pyromq.pipelines.report.drawing": "numbers of a drawing",
    "pyromq.pipelines.lake.iceberg_table": "the mark that the pipeline itself keeps in a table",
    "pyromq.pipelines.dedup": "manifests that the pipeline itself has written",
    "pyromq.pipelines.archive": "manifests and checkpoints that the pipeline itself has written",
    "pyromq.pipelines.run.checkpoint": "checkpoints that Spark has written",
    "pyromq.pipelines.analytics": "manifests that the pipeline itself has written",
    "pyromq.pipelines.lake.manifest": "manifests that the pipeline itself has written",
    "pyromq.spark.option_kinds": "options that a person typed; ValueError is what Spark is to show",
    "pyromq.spark.read.offsets": "Spark's own log of offsets: what is no number there has to be an error",
    "pyromq.spark.codec.columns": "numbers of Arrow and NumPy",
    "pyromq.spark.codec.encode": "numbers of Arrow and NumPy",
    "pyromq.spark.codec.records": "numbers of Arrow and NumPy",
    "pyromq.spark.codec.vectors": "numbers of Arrow and NumPy",
    "pyromq.spark.write.writing": "numbers of Arrow and NumPy",
}

PLACES = {  # single expressions that cannot be text, in files that may hold no other
    "pyromq.broker.admin.runtime int(self.pulls.longest_ms)",
    "pyromq.mqadmin.command int(code)",
    "pyromq.mqadmin.groups.progress int(stats.consume_tps)",
    "pyromq.protocol.command int(language)",
    "pyromq.protocol.record int(digits[::-1])",  # ten bytes of a record's seal, for each record of a pull
    "pyromq.protocol.record int(size)",
    "pyromq.protocol.record isdigit",
    "pyromq.spark.codec.batches int(records.at[row])",
    "pyromq.spark.codec.batches int(records.size[row])",
    "pyromq.store.tools.info int(base + count)",
}


def breaches(each: Module) -> list[str]:
    """Every expression of a module that may turn text into a number by itself."""
    return [f"{each.name} {what}" for node in ast.walk(each.tree) if (what := _reads(node)) is not None]


def _reads(node: ast.AST) -> str | None:
    if isinstance(node, ast.Attribute) and node.attr in QUESTIONS:
        return node.attr
    if not isinstance(node, ast.Call):
        return None
    if any(isinstance(given, ast.Name) and given.id in TYPES for given in node.args) and _called(node) == "map":
        return "map(int, ...)"
    if _called(node) not in TYPES or not node.args or (len(node.args) == 1 and _is_number(node.args[0])):
        return None
    return f"{_called(node)}({ast.unparse(node.args[0])})"


def _called(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _is_number(value: ast.expr) -> bool:
    """Whether it cannot be text: a literal, a comparison, arithmetic, an enum's member, a field of a struct."""
    if isinstance(value, ast.Constant | ast.Compare):
        return True
    if isinstance(value, ast.BinOp):
        return isinstance(value.op, ARITHMETIC)
    if isinstance(value, ast.IfExp):
        return _is_number(value.body) and _is_number(value.orelse)
    if isinstance(value, ast.Subscript):
        return isinstance(value.value, ast.Call) and getattr(value.value.func, "attr", "") in UNPACKED
    if isinstance(value, ast.Call):  # int(round(x)), int(moment.timestamp())
        return _called(value) in ("round", "len", "sum") or getattr(value.func, "attr", "") in (
            "timestamp",
            "monotonic",
        )
    return _is_member(value)


def _is_member(value: ast.expr) -> bool:
    """`Perm.READ`: a name in capitals of a class."""
    return (
        isinstance(value, ast.Attribute)
        and value.attr.isupper()
        and isinstance(value.value, ast.Name)
        and value.value.id[:1].isupper()
    )


def test_text_becomes_a_number_in_one_file() -> None:
    found = {breach for name, each in modules().items() if name not in ALLOWED for breach in breaches(each)}
    assert found - PLACES == set()


def test_no_file_is_allowed_that_has_no_need_of_it() -> None:
    known = modules()
    assert [name for name in ALLOWED if name not in known or not breaches(known[name])] == []
    assert {breach for each in known.values() for breach in breaches(each)} >= PLACES


@pytest.mark.parametrize(
    "text",
    [
        "int(x)",
        "int(fields['a'])",
        "float(text)",
        "int(a + b)",
        "int(x, 16)",
        "int(part.strip())",
        "int('%s' % x)",
        "int(Perm.read)",
        "int(each.ROOM)",
        "int(a if b else 0)",
        "x.isdigit()",
        "x.isdecimal()",
        "all(map(str.isnumeric, x))",
        "map(int, parts)",
    ],
)
def test_the_check_finds(text: str) -> None:
    assert len(breaches(module("pyromq.made_up", text))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "int(7.5)",
        "float('inf')",
        "int(Perm.READ)",
        "int(TopicFlag.UNIT if x else 0)",
        "int(clock.monotonic() * 1000)",
        "int(a > b)",
        "int(LONG.unpack_from(raw, at)[0])",
        "int(round(x))",
        "whole_number(x)",
        "int.from_bytes(x, 'big')",
        "x: int = 3",
        "isinstance(x, int)",
    ],
)
def test_the_check_lets_through(text: str) -> None:
    assert breaches(module("pyromq.made_up", text)) == []
