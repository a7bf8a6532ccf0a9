"""The same query on Spark: topics and files as views of a session, with the columns that they have in DuckDB.

Spark does not tell Python sources which columns a query uses, so those are read whose names stand in its text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..spark.schema import COLUMNS
from .columns import BYTES, NAMES, TAG, TEXT, source_columns
from .connecting import delta_table, one_of_each, reader_of
from .sources import BrokerSource, RowSource, StoreSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Spark's Python sources take filters only with this, and DuckDB's way to write names is understood with the others.
SETTINGS = {
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
}
_JSON_PART = re.compile(r"([A-Za-z_][\w.]*)\s*->>\s*'(\$?[^']+)'")
_COUNT_ALL = re.compile(r"count\s*\(\s*\*\s*\)", re.IGNORECASE)
_STAR = re.compile(r"\*")


def run_on_spark(
    spark: SparkSession, query: str, source: RowSource, topics: Iterable[str], files: Mapping[str, str | Path]
) -> DataFrame:
    """Return the answer of the query, not begun. ConfigError for a file that cannot be a table."""
    columns = columns_in(query)
    for topic in one_of_each(topics, files):
        _view_topic(spark, source, topic, columns)
    for name, path in files.items():
        _view_file(spark, name, Path(path).expanduser().absolute())
    return spark.sql(in_sparks_words(query))


def columns_in(query: str) -> list[str]:
    """Return the columns whose names stand in the query, in any letters; all where it asks for `*`."""
    words = {word.lower() for word in re.findall(r"\w+", query)}
    if _STAR.search(_COUNT_ALL.sub("", query)):
        return NAMES
    return [name for name in NAMES if name.lower() in words] or ["queueId"]


def in_sparks_words(query: str) -> str:
    """Return the query with `body->>'name'` as Spark says it."""

    def part(found: re.Match[str]) -> str:
        path = found[2] if found[2].startswith("$") else f"$.{found[2]}"
        return f"get_json_object({found[1]}, '{path}')"

    return _JSON_PART.sub(part, query)


def _view_topic(spark: SparkSession, source: RowSource, topic: str, names: list[str]) -> None:
    reader = spark.read.format("rocketmq").option("topic", topic)
    if isinstance(source, StoreSource):
        reader = reader.options(**source.options).option("store", ",".join(map(str, source.folders)))
    elif isinstance(source, BrokerSource):
        reader = reader.options(**source.options)
    wanted = ", ".join(f"{name} {COLUMNS[name][1]}" for name in source_columns(names))
    ways = {TAG: f"tags AS {TAG}", TEXT: f"try_validate_utf8(string(body)) AS {TEXT}", BYTES: f"body AS {BYTES}"}
    reader.schema(wanted).load().selectExpr(*(ways.get(name, name) for name in names)).createOrReplaceTempView(
        _quoted(topic)
    )


def _view_file(spark: SparkSession, name: str, path: Path) -> None:
    reader = reader_of(path)
    if reader == "delta":
        found = spark.createDataFrame(delta_table(path).to_pyarrow_table())
    elif reader == "read_parquet":
        found = spark.read.option("recursiveFileLookup", "true").parquet(str(path))
    elif reader == "read_csv":
        separator = "\t" if ".tsv" in path.suffixes else ","
        found = spark.read.csv(str(path), header=True, inferSchema=True, sep=separator)
    else:
        found = spark.read.json(str(path))
    found.createOrReplaceTempView(_quoted(name))


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
