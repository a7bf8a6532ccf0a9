"""`pyromq sql`: one query over topics, store files and files of tables, in DuckDB or on Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .pipeline.options import SESSION, pairs_option
from .sql_output import QueryRows, print_csv, print_json, print_plot, print_table
from .terminal.options import cluster_options, together
from .terminal.printing import print_lines
from .terminal.profiles import take_reach
from .terminal.progress import progress
from .terminal.shell import client_config
from .terminal.tree import command

if TYPE_CHECKING:
    from ..pipelines.run.streaming import Stop
    from ..query.sources import RowSource
    from ..query.tables import Scans

_FETCHED = 1_000  # rows at once


def _one_way(as_json: bool, as_csv: bool, plot: bool, quiet: bool) -> Callable[[QueryRows], None]:
    ways = {"--json": (as_json, print_json), "--csv": (as_csv, print_csv), "--plot": (plot, print_plot)}
    ways["--quiet"] = (quiet, _print_nothing)
    given = [name for name, (is_given, _) in ways.items() if is_given]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)}: each says how the rows are printed; give one of them")
    return ways[given[0]][1] if given else print_table


def _print_nothing(answer: QueryRows) -> None:
    for _ in answer.rows:
        pass


@command(
    'pyromq sql "SELECT tag, count(*) FROM orders GROUP BY tag"',
    'pyromq sql "SELECT hour(storeTimestamp) h, count(*) FROM orders GROUP BY h ORDER BY h" --plot',
    "pyromq sql \"SELECT body->>'price' price, name FROM orders JOIN items ON items.id = body->>'item'\" "
    "--file items=items.parquet",
    'pyromq sql "SELECT * FROM orders LIMIT 5" --store pyromq-data/store --json',
    name="sql",
)
@click.argument("query", metavar="SQL")
@cluster_options
@click.option(
    "--store",
    "stores",
    multiple=True,
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Read the files of this store instead of brokers; may be given again.",
)
@pairs_option(
    "--file", "files", metavar="NAME=PATH", help="A Parquet, CSV or JSON file, or a Delta table, as table NAME."
)
@pairs_option(
    "-o", "--option", "options", metavar="KEY=VALUE", help="Option of the Spark source, such as mode=PERMISSIVE."
)
@click.option("--csv", "as_csv", is_flag=True, help="CSV instead of a table.")
@click.option("--plot", is_flag=True, help="Bars: the first column has the labels, the others the numbers.")
@click.option("--reads", is_flag=True, help="Say on stderr what of each topic was read for the answer.")
@click.option("--spark", "on_spark", is_flag=True, help="Run the query on Spark instead of DuckDB.")
@together(*SESSION)
def sql(
    query: str,
    stores: tuple[Path, ...],
    files: Mapping[str, str],
    options: Mapping[str, str],
    timeout: float,
    as_json: bool,
    quiet: bool,
    as_csv: bool,
    plot: bool,
    reads: bool,
    on_spark: bool,
    master: str,
    memory: str,
    conf: Mapping[str, str],
    **given: Any,
) -> None:
    """Answer a query in SQL, in which topics are tables. Only what the query asks for is read.

    A topic has the columns topic, brokerName, queueId, queueOffset, msgId, keys, tag, body (text), properties, flag,
    sysFlag, bornTimestamp, bornHost, storeTimestamp, storeHost, reconsumeTimes, commitLogOffset, storeSize and
    bodyBytes. Conditions on queueId, queueOffset, storeTimestamp and tag are left to the broker. body->>'name' is a
    part of a JSON body. Times are UTC. It needs pyromq[sql], and with --spark pyromq[spark].
    """
    print_answer = _one_way(as_json, as_csv, plot, quiet)
    from ..query.connecting import check_packages

    check_packages()
    from ..query.sources import BrokerSource, StoreSource
    from ..spark.connect.cluster import connection_words

    reach = take_reach(given)
    source: RowSource
    if stores:
        source = StoreSource(stores, options)
    else:
        source = BrokerSource({**connection_words(client_config(reach, timeout)), **options})
    known = source.topics()
    if on_spark:
        _ask_spark(query, source, known, files, print_answer, (master, memory, conf))
    else:
        if master or conf:
            raise click.UsageError("--master, --conf: they are Spark's; give --spark with them")
        _ask_duckdb(query, source, known, files, print_answer, reads=reads, is_quiet=as_json or quiet)


def named_in(query: str, topics: Sequence[str]) -> list[str]:
    """Return the topics whose names stand in the query, also within other words: a table more costs nothing."""
    text = query.lower()
    found = [name for name in topics if name.lower() in text]
    return [name for name in found if name in query or sum(name.lower() == each.lower() for each in found) == 1]


def _ask_duckdb(
    query: str,
    source: RowSource,
    known: Sequence[str],
    files: Mapping[str, str],
    print_answer: Callable[[QueryRows], None],
    *,
    reads: bool,
    is_quiet: bool,
) -> None:
    import duckdb

    from ..query.connecting import open_tables
    from ..query.faults import explained
    from ..query.tables import Scans

    scans = Scans()
    fault = ""
    tables = open_tables(source, named_in(query, known), files, scans, locked=True)
    with closing(tables) as connection, progress("reading", is_quiet=is_quiet, in_bytes=False) as report:
        scans.report = report
        try:
            connection.execute(query)
            columns = [each[0] for each in connection.description or ()]
            print_answer(QueryRows(_distinct(columns), _fetched(connection)))
        except duckdb.Error as error:
            fault = str(error)
    if fault:
        raise scans.fault or explained(fault, query, known, {*known, *files}) from None
    _say(scans, reads)


def _fetched(connection: Any) -> Iterator[Sequence[Any]]:
    while rows := connection.fetchmany(_FETCHED):
        yield from rows


def _distinct(names: Sequence[str]) -> list[str]:
    """Return the names, with a number behind one that stood before: rows are objects of JSON."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return found


def _say(scans: Scans, reads: bool) -> None:
    for each in scans.scans:
        if each.not_text:
            what = f"{each.not_text:,} bodies of {each.topic} are no text: body is null there, bodyBytes has them"
            print_lines(f"pyromq: {what}", err=True)
        if reads:
            rows = f"{each.rows:,} rows came, {each.passed:,} passed"
            of = f"{each.planned:,} {each.unit} in question"
            print_lines(f"pyromq: {each.topic}: {of}, {rows}; columns {', '.join(each.columns)}", err=True)


def _ask_spark(
    query: str,
    source: RowSource,
    known: Sequence[str],
    files: Mapping[str, str],
    print_answer: Callable[[QueryRows], None],
    session: tuple[str, str, Mapping[str, str]],
) -> None:
    from ..query.on_spark import SETTINGS, run_on_spark
    from .pipeline.faults import JobFailed, plain_faults
    from .pipeline.job import spark_for
    from .pipeline.stop import run_stoppable
    from .terminal.exits import NO

    master, memory, conf = session
    opened: list[Any] = []

    def work(stop: Stop) -> None:
        try:
            with spark_for("sql", master, memory, {**SETTINGS, **conf}) as spark, plain_faults():
                opened.append(spark)
                answer = run_on_spark(spark, query, source, named_in(query, known), files)
                rows = (tuple(row) for row in answer.toLocalIterator())
                print_answer(QueryRows(_distinct(answer.columns), rows))
        except JobFailed:
            if not stop.asked.is_set():
                raise
            raise JobFailed("sql: stopped before its end", NO) from None

    def cancel() -> None:
        for spark in opened:
            with suppress(OSError):  # its process may be gone
                spark.sparkContext.cancelAllJobs()

    run_stoppable(work, cancel)
