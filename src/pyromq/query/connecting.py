"""A DuckDB connection in which topics and files are tables. It downloads nothing, and loads no extension of its own.

The command line locks it besides: the text of a query then opens no file that was not named beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ConfigError, PyroError
from ..text.extras import install_command

if TYPE_CHECKING:
    import duckdb

    from .sources import RowSource
    from .tables import Scans

# Which function of DuckDB reads a file, by its ending; `.gz` and `.zst` behind it are DuckDB's own business.
READERS = {
    ".parquet": "read_parquet",
    ".csv": "read_csv",
    ".tsv": "read_csv",
    ".json": "read_json_auto",
    ".jsonl": "read_json_auto",
    ".ndjson": "read_json_auto",
}
_PACKED = (".gz", ".zst")
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",  # a name in a query is a table, never a variable of whoever calls
}


def check_packages() -> None:
    """Raise PyroError, which says what to type, if something is missing."""
    try:
        import duckdb  # noqa: F401
        import numpy  # noqa: F401
        import pyarrow  # noqa: F401
    except ImportError as missing:
        raise PyroError(f"SQL needs {missing.name}: {install_command('sql')}") from None


def open_tables(
    source: RowSource, topics: Iterable[str], files: Mapping[str, str | Path], scans: Scans, *, locked: bool = False
) -> duckdb.DuckDBPyConnection:
    """Return a connection with these topics and files as tables. ConfigError for a file that cannot be one."""
    import duckdb

    from .tables import TopicTable

    connection = duckdb.connect(":memory:", config=_SETTINGS)
    try:
        connection.execute("SET TimeZone = 'UTC'")
        for topic in one_of_each(topics, files):
            connection.register(topic, TopicTable(source, topic, scans))
        for name, path in files.items():
            _add_file(connection, name, Path(path).expanduser().absolute())
        if locked:
            _lock(connection, [Path(path).expanduser().absolute() for path in files.values()])
    except BaseException:
        connection.close()
        raise
    return connection


def one_of_each(topics: Iterable[str], files: Mapping[str, str | Path]) -> list[str]:
    """Return the topics. ConfigError where SQL, which does not tell capitals from small letters, mixes up two names."""
    seen = {name.lower(): f"the file {name}" for name in files}
    found = []
    for topic in topics:
        if (other := seen.get(topic.lower())) is not None:
            cure = "give the file another name" if other.startswith("the file") else "ask for one of them alone"
            raise ConfigError(f"topic {topic} and {other} are one name in SQL, which has no capitals: {cure}")
        seen[topic.lower()] = f"topic {topic}"
        found.append(topic)
    return found


def reader_of(path: Path) -> str:
    """Return what reads the file: `delta`, or a function of DuckDB. ConfigError names what can be read."""
    if not path.exists():
        raise ConfigError(f"{path}: there is no such file; write --file NAME=PATH")
    if path.is_dir():
        return "delta" if (path / "_delta_log").is_dir() else "read_parquet"
    ending = Path(path.stem).suffix if path.suffix in _PACKED else path.suffix
    if ending.lower() not in READERS:
        raise ConfigError(
            f"{path}: its ending says no format that is known here: {', '.join(READERS)}, or a folder of Parquet files "
            "or of a Delta table"
        )
    return READERS[ending.lower()]


def parquet_pattern(path: Path) -> str:
    """Return the Parquet file, or a pattern for all of a folder."""
    return str(path / "**" / "*.parquet") if path.is_dir() else str(path)


def _add_file(connection: duckdb.DuckDBPyConnection, name: str, path: Path) -> None:
    import duckdb

    reader = reader_of(path)
    if reader == "delta":
        connection.register(name, delta_table(path).to_pyarrow_dataset())
        return
    place = parquet_pattern(path) if reader == "read_parquet" else str(path)
    text = place.replace("'", "''")
    try:
        connection.execute(f"CREATE VIEW \"{quoted(name)}\" AS SELECT * FROM {reader}('{text}')")
    except duckdb.Error as fault:
        raise ConfigError(f"{path} cannot be read as the table {name}: {str(fault).splitlines()[0]}") from None


def delta_table(path: Path):  # type: ignore[no-untyped-def]  # the package may be missing
    """Return the Delta table in the folder. PyroError if the package for it is missing."""
    try:
        from deltalake import DeltaTable
    except ImportError:
        raise PyroError(f"{path} is a Delta table, which needs deltalake: {install_command('lake')}") from None
    return DeltaTable(str(path))


def _lock(connection: duckdb.DuckDBPyConnection, paths: list[Path]) -> None:
    folders = [f"{path}/" for path in paths if path.is_dir()]
    _set_list(connection, "allowed_directories", folders)
    _set_list(connection, "allowed_paths", [str(path) for path in paths if not path.is_dir()])
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _set_list(connection: duckdb.DuckDBPyConnection, setting: str, values: list[str]) -> None:
    texts = ", ".join("'" + value.replace("'", "''") + "'" for value in values)
    connection.execute(f"SET {setting} = [{texts}]")


def quoted(name: str) -> str:
    return name.replace('"', '""')
